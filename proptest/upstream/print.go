// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes the table, then the stories. The error says that a row was not run.
func print(w io.Writer, results []result) error {
	fmt.Fprint(w, "Kubernetes v1.37.2 under the properties of proptest\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "rule\tproperty\tallocator\tcontroller\tits lock\tresult\tcases\ttook\twhat was seen")
	var missing []error
	for i, r := range results {
		cases, lock := fmt.Sprint(r.Cases), "as it is"
		if r.Visible {
			lock = "made visible"
		}
		if r.Verdict == hangs || r.Verdict == broken {
			cases = "-"
		}
		note := ""
		if r.Verdict != holds {
			note = fmt.Sprintf("[%d] %s", i+1, shortened(r.Message, 100))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Rule, r.Property, r.Allocator, r.Controller, lock, r.Verdict, cases, r.Took.Truncate(100*time.Millisecond), note)
		if r.Verdict == broken {
			missing = append(missing, fmt.Errorf("%s could not be run: %s", r.Property, r.Message))
		}
	}
	table.Flush()
	for i, r := range results {
		if r.Verdict == holds {
			continue
		}
		fmt.Fprintf(w, "\n[%d] %s %s, %s's allocator, %s's controller: %s\n    %s\n\n", i+1, r.Rule, r.Property, r.Allocator, r.Controller, r.Verdict, r.Message)
		for line := range strings.Lines(r.Story) {
			fmt.Fprint(w, "    ", line)
		}
		fmt.Fprintln(w)
	}
	return errors.Join(missing...)
}

func shortened(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}
