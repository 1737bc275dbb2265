// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

const (
	// maxKinds is how many ways of failing are told of one row.
	maxKinds = 4
	// maxList is how many lines of one list a story keeps.
	maxList = 8
	// maxLine is the length of a line, in characters.
	maxLine = 180
)

// print writes the table, then the stories. The error says that a row was not run.
func print(w io.Writer, results []result) error {
	fmt.Fprint(w, `Kubernetes v1.37.2 under the properties of proptest

"as it is": upstream's mutex is as it is. HANGS: it holds its lock across an API call.
"in a bubble": a lock that the bubble knows is taken before it, so that it never waits.

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\trule\tproperty\twhat\tin a bubble\tcases\tas it is\twhat is wrong")
	var missing []error
	var stories []result
	for i := 0; i < len(results); i++ {
		r := results[i]
		pair, asItIs := []result{r}, ""
		if i+1 < len(results) && results[i+1].asItIs(r.row) {
			i++
			pair, asItIs = append(pair, results[i]), string(results[i].Verdict)
		}
		for _, p := range pair {
			if p.Verdict == broken {
				missing = append(missing, fmt.Errorf("%s, %s, could not be run: %s", p.Property, p.who(), p.Found[0].Message))
			}
		}
		number, note := "", ""
		if r.Verdict != holds {
			stories = append(stories, r)
			number, note = fmt.Sprint(len(stories)), shortened(r.Found[0].Message, 90)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", number, r.Rule, r.Property, r.who(), r.Verdict, r.Cases, asItIs, note)
	}
	table.Flush()
	for i, r := range stories {
		fmt.Fprintf(w, "\n[%d] %s %s, %s: %s after %d cases\n", i+1, r.Rule, r.Property, r.who(), r.Verdict, r.Cases)
		for _, f := range r.Found[:min(maxKinds, len(r.Found))] {
			tell(w, f)
		}
		if more := len(r.Found) - maxKinds; more > 0 {
			fmt.Fprintf(w, "\n    and %d more ways, with longer stories\n", more)
		}
	}
	for _, r := range results {
		if r.Verdict == hangs {
			fmt.Fprintf(w, "\nHow it hangs as it is, in %s:\n", r.Property)
			tell(w, r.Found[0])
			break
		}
	}
	return errors.Join(missing...)
}

// tell writes a message and its story.
func tell(w io.Writer, f found) {
	fmt.Fprintf(w, "\n  * %s\n\n", shortened(f.Message, maxLine))
	alike, last := 0, ""
	skipped := func() {
		if alike > maxList {
			fmt.Fprintf(w, "      ... and %d more\n", alike-maxList)
		}
	}
	for line := range strings.Lines(f.Story) {
		line = strings.TrimRight(line, "\n")
		if steps.MatchString(line) {
			line = "  " + strings.TrimLeft(line, " ")
			if line[3] == '.' {
				line = " " + line // one digit
			}
		}
		begin, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		if begin == "IPAddress" && begin == last {
			if alike++; alike > maxList {
				continue
			}
		} else {
			skipped()
			alike, last = 1, begin
		}
		fmt.Fprintln(w, "   ", shortened(line, maxLine))
	}
	skipped()
}

func shortened(s string, n int) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "..."
	}
	return s
}
