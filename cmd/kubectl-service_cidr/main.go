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
	// exitBlocked: the plan has blockers, or the cluster does not fit it, or something
	// is left in a range that should be empty.
	exitBlocked = 3
	// exitStopped: the run ended before its plan did, and resume goes on.
	exitStopped = 4
)

// streams are what a command writes to.
type streams struct{ out, err io.Writer }

// usageError is a call that was wrong.
type usageError struct{ error }

func main() { os.Exit(run(os.Args[1:], streams{os.Stdout, os.Stderr})) }

// run runs the plugin and returns its exit code.
func run(args []string, s streams) int { return runWith(args, realDeps(s)) }

// runWith is run with other dependencies.
func runWith(args []string, d deps) int {
	root := newRoot(d)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(d.err, "error:", err)
	var blocked blockedError
	if errors.As(err, &blocked) {
		return exitBlocked
	}
	var stopped stoppedError
	if errors.As(err, &stopped) {
		return exitStopped
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot(d deps) *cobra.Command {
	root := &cobra.Command{
		Use:           "kubectl-service_cidr",
		Short:         "Ranges of cluster IPs: what they are made of, and renumbering them",
		Long:          "Ranges of cluster IPs, for kubectl: what they are made of, and how to get a cluster from one to another.",
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
	root.SetOut(d.out)
	root.SetErr(d.err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w: %q lists the flags", err, cmd.CommandPath()+" --help")}
	})
	root.AddCommand(newExplain(d.streams))
	root.AddCommand(newPlan(d))
	root.AddCommand(newDiff(d))
	root.AddCommand(newApply(d), newStatus(d), newResume(d), newPause(d), newRollback(d), newVerify(d), newHistory(d))
	return root
}
