// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// streams are what a command writes to.
type streams struct{ out, err io.Writer }

// usageError is a call that was wrong.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr})) }

// run runs the plugin and returns its exit code.
func run(args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(s.err, "error:", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-service_cidr",
		Short:         "Ranges of cluster IPs: what they are made of",
		Long:          "Ranges of cluster IPs, for kubectl.\n\nSo far this explains ranges. It needs no cluster and changes nothing.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl service-cidr"},
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: %q lists the commands", args[0], cmd.CommandPath()+" --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: %q lists the flags", err, cmd.CommandPath()+" --help")}
	})
	root.AddCommand(newExplain(s))
	return root
}
