// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

func newDiff(d deps) *cobra.Command {
	var cluster clientFlags
	var file string
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what each Service will look like after a plan, as a diff; writes nothing to the cluster",
		Long: `Show what each Service will look like after a plan, in the manner of diff -u: what it has with -, what it will have
with +. <drawn> is an address that the API server draws. What has moved since the plan was made goes to standard error.`,
		Example: `  kubectl service-cidr plan replace --to 10.112.0.0/16 -f plan.yaml
  kubectl service-cidr diff -f plan.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown argument %q: the plan is given with -f", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := readPlan(file)
			if err != nil {
				return err
			}
			client, err := d.client(&cluster)
			if err != nil {
				return err
			}
			world, err := renumber.ReadWorld(cmd.Context(), client)
			if err != nil {
				return err
			}
			for _, f := range world.Moved(plan) {
				if f.Code == renumber.CodeOtherCluster {
					return fmt.Errorf("%s: %s", f.Message, f.Remedy)
				}
				if _, err := fmt.Fprintf(d.err, "since the plan was made: %s: %s %s\n", f.Code, f.Object, f.Message); err != nil {
					return err
				}
			}
			return renumber.Diff(d.out, plan, world.Services)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file of the plan, or - for standard input")
	cluster.add(cmd.Flags())
	cluster.completions(cmd)
	return cmd
}

// readPlan reads a plan file.
func readPlan(path string) (*renumber.Plan, error) {
	if path == "" {
		return nil, usageError{errors.New("no plan given: make one with kubectl service-cidr plan PLAYBOOK -f FILE, and give it with -f FILE")}
	}
	in := os.Stdin
	if path != "-" {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no plan %s: make one with kubectl service-cidr plan PLAYBOOK -f %s", path, quote(path))
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	plan, err := renumber.ReadPlan(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return plan, nil
}
