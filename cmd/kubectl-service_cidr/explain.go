// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// formats are what -o takes.
func formats() []string { return []string{"table", "json", "yaml"} }

func newExplain(s streams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "explain CIDR...",
		Short: "Say what a range is made of: usable addresses, bands, what will surprise",
		Long: `Say what a range is made of: the prefix without host bits, the first and the last usable address, how many there
are, the static band (for addresses that are asked for) and the dynamic one (KEP-3070), and what will surprise.

The first address is the API server's own, as Service kubernetes, if the range is its first: its certificate must name it.

It needs no cluster.`,
		Example: `  kubectl service-cidr explain 10.96.0.0/12
  kubectl service-cidr explain 10.96.10.10/20 fd00:10:96::/112 -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("no CIDR given: try %q", cmd.CommandPath()+" 10.96.0.0/12")}
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			all, err := renumber.ExplainAll(args)
			if err != nil {
				return err
			}
			return printExplanations(s, all, format)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "how to print: "+strings.Join(formats(), ", "))
	// It fails only for a flag that does not exist.
	if err := cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
	return cmd
}

func printExplanations(s streams, all []renumber.Explanation, format string) error {
	if done, err := encode(s.out, all, format); done {
		return err
	}
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CIDR\tUSABLE\tFIRST\tLAST\tSTATIC\tSTATIC BAND\tDYNAMIC BAND")
	for _, e := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.CIDR, e.Size, orNone(e.First), orNone(e.Last), e.StaticSize,
			band(e.StaticFirst, e.StaticLast), band(e.DynamicFirst, e.DynamicLast))
	}
	err := table.Flush()
	for _, e := range all {
		if e.First != "" {
			_, printErr := fmt.Fprintf(s.out, "\n%s: if it is the API server's first range, its certificate must name %s.\n", e.CIDR, e.First)
			err = errors.Join(err, printErr)
		}
		for _, w := range e.Warnings {
			_, printErr := fmt.Fprintf(s.out, "%s: warning: %s.\n", e.CIDR, w)
			err = errors.Join(err, printErr)
		}
	}
	return err
}

// checkFormat refuses what -o does not take.
func checkFormat(format string) error {
	if !slices.Contains(formats(), format) {
		return usageError{fmt.Errorf("unknown output format %q: give one of %s", format, strings.Join(formats(), ", "))}
	}
	return nil
}

// encode writes v as the format says, and reports whether that is not the table, which is up to the caller.
func encode(w io.Writer, v any, format string) (done bool, err error) {
	var raw []byte
	switch format {
	case "json":
		raw, err = json.MarshalIndent(v, "", "  ")
		raw = append(raw, '\n')
	case "yaml":
		raw, err = yaml.Marshal(v)
	default:
		return false, nil
	}
	if err == nil {
		_, err = w.Write(raw)
	}
	return true, err
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func band(first, last string) string {
	if first == "" {
		return "-"
	}
	return first + " - " + last
}
