// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// completePlans completes the names of plans that have a journal.
func completePlans(cmd *cobra.Command, d deps, f *journalFlags) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		p, err := f.place(cmd.Context(), d)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := p.runs(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, r := range all {
			names = append(names, r.plan.Name+"\t"+string(r.status.State))
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// anyState fits every run.
func anyState(renumber.Status) bool { return true }

func newStatus(d deps) *cobra.Command {
	f := &journalFlags{}
	var format string
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [PLAN]",
		Short: "Say how far a run is",
		Long:  "Say how far a run is, by its journal: steps done, Services moved, on the way, or left with the reason.\n\nWithout a name it is the latest.",
		Args:  atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			ctx := cmd.Context()
			p, err := f.place(ctx, d)
			if err != nil {
				return err
			}
			said := ""
			for {
				run, err := p.latest(cmd, args)
				if err != nil {
					return err
				}
				var out bytes.Buffer
				if err := printStatus(&out, run.status, format); err != nil {
					return err
				}
				if out.String() != said {
					said = out.String()
					fmt.Fprint(d.out, said)
				}
				if !watch || !unfinished(run.status) {
					return nil
				}
				timer := d.clock.NewTimer(2 * time.Second)
				select {
				case <-ctx.Done():
					timer.Stop()
					return nil
				case <-timer.C():
				}
			}
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print again whenever it changes, until it ends")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "how to print: "+strings.Join(formats(), ", "))
	f.add(cmd)
	complete(cmd, "output", fixed(formats()))
	completePlans(cmd, d, f)
	return cmd
}

// latest is the named run, or the youngest.
func (p *place) latest(cmd *cobra.Command, args []string) (*begunRun, error) {
	if len(args) > 0 {
		return p.find(cmd.Context(), args, "is there", anyState)
	}
	all, err := p.runs(cmd.Context())
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no plan has been begun on this cluster: there is no journal in %s or in namespace %s", p.folder, p.namespace)
	}
	return &all[len(all)-1], nil
}

func printStatus(out *bytes.Buffer, s renumber.Status, format string) error {
	if done, err := encode(out, s, format); done {
		return err
	}
	fmt.Fprintf(out, "Plan %s: %s, %s moved.\n", s.Plan, strings.ToLower(string(s.State)), counted(s.Moved, "Service", "Services"))
	if s.Message != "" {
		fmt.Fprintf(out, "  %s\n", s.Message)
	}
	if s.UndoneBy != "" {
		fmt.Fprintf(out, "  taken back by plan %s\n", s.UndoneBy)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  STEP\tSTATE\tMOVED\tWHAT")
	for _, step := range s.Steps {
		moved := "-"
		if step.Moved > 0 {
			moved = fmt.Sprint(step.Moved)
		}
		fmt.Fprintf(table, "  %d\t%s\t%s\t%s\n", step.Step, step.State, moved, step.Title)
	}
	_ = table.Flush()
	if len(s.OnTheWay) > 0 {
		fmt.Fprintf(out, "On the way, and without an address until resume or rollback: %s\n", strings.Join(s.OnTheWay, ", "))
	}
	for _, k := range slices.Sorted(maps.Keys(s.Left)) {
		fmt.Fprintf(out, "Left: Service %s: %s\n", k, s.Left[k])
	}
	for _, told := range s.Told {
		fmt.Fprintf(out, "Note: %s\n", told)
	}
	if s.Gap99 > 0 {
		fmt.Fprintf(out, "Services were without an address for %s in the median, and %s at the 99th percentile.\n", s.GapMedian.Round(time.Microsecond), s.Gap99.Round(time.Microsecond))
	}
	return nil
}

func newHistory(d deps) *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:   "history [PLAN]",
		Short: "List the runs on this cluster, or all that one has done",
		Long:  "List the runs that have a journal; with the name of a plan, every entry of its journal: each move from its old address to its new one.",
		Args:  atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.place(cmd.Context(), d)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				run, err := p.find(cmd.Context(), args, "is there", anyState)
				if err != nil {
					return err
				}
				return printEntries(d, run.entries)
			}
			all, err := p.runs(cmd.Context())
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
			fmt.Fprintln(table, "PLAN\tPLAYBOOK\tSTATE\tMOVED\tCREATED")
			for _, r := range all {
				playbook := string(r.plan.Request.Playbook)
				if r.plan.Undoes != "" {
					playbook = "back from " + playbook
				}
				fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", r.plan.Name, playbook, r.status.State, r.status.Moved, r.plan.CreatedAt.UTC().Format(time.RFC3339))
			}
			return table.Flush()
		},
	}
	f.add(cmd)
	completePlans(cmd, d, f)
	return cmd
}

func printEntries(d deps, entries []renumber.Entry) error {
	table := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tSTEP\tWHAT\tSERVICE\tMESSAGE")
	for _, e := range entries {
		step := "-"
		if e.Step > 0 {
			step = fmt.Sprint(e.Step)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", e.Time.UTC().Format(time.RFC3339), step, e.Type, orNone(e.Service), e.Message)
	}
	return table.Flush()
}

func newPause(d deps) *cobra.Command {
	f := &journalFlags{}
	cmd := &cobra.Command{
		Use:   "pause",
		Short: "Have the runner stop after the batch in hand; resume goes on",
		Long:  "Have the runner that works on this cluster, wherever it runs, stop after the batch in hand. Nothing is lost: resume goes on.",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := f.place(cmd.Context(), d)
			if err != nil {
				return err
			}
			if err := renumber.RequestPause(cmd.Context(), p.client.CoordinationV1(), p.namespace, true); err != nil {
				return err
			}
			fmt.Fprintln(d.out, "The runner stops after the batch in hand. To go on: kubectl service-cidr resume")
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func newVerify(d deps) *cobra.Command {
	f := &journalFlags{}
	var ranges []string
	var format string
	cmd := &cobra.Command{
		Use:   "verify [PLAN]",
		Short: "Prove that nothing is left in the old range, or list it",
		Long: `Read every Service, IPAddress and ServiceCIDR anew, and list what is left in the ranges that a plan empties, or in those
of --range. Exit code 0: nothing is left. 3: something is.`,
		Example: `  kubectl service-cidr verify
  kubectl service-cidr verify --range 10.96.0.0/16`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			target := &renumber.Target{}
			for _, r := range ranges {
				if _, err := cidr.Parse(r); err != nil {
					return fmt.Errorf("--range: %w", err)
				}
				target.Leave = append(target.Leave, r)
			}
			if len(ranges) > 0 && len(args) > 0 {
				return usageError{errors.New("give a plan or --range, not both")}
			}
			p, err := f.place(cmd.Context(), d)
			if err != nil {
				return err
			}
			if len(ranges) == 0 {
				run, err := p.latest(cmd, args)
				if err != nil {
					return fmt.Errorf("%w; --range says which range should be empty", err)
				}
				for _, s := range run.plan.Steps {
					if s.Kind == renumber.Verify {
						target = s.Target
					}
				}
				if len(target.Leave) == 0 {
					return fmt.Errorf("plan %s empties no range: say which one should be empty with --range", run.plan.Name)
				}
			}
			left, err := renumber.FindLeftovers(cmd.Context(), renumber.NewAPI(p.client), target)
			if err != nil {
				return err
			}
			return printLeftovers(d, left, target, format)
		},
	}
	cmd.Flags().StringSliceVar(&ranges, "range", nil, "range that should be empty")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "how to print: "+strings.Join(formats(), ", "))
	f.add(cmd)
	complete(cmd, "output", fixed(formats()))
	complete(cmd, "range", cobra.NoFileCompletions)
	completePlans(cmd, d, f)
	return cmd
}

func printLeftovers(d deps, left []renumber.Leftover, target *renumber.Target, format string) error {
	ranges := strings.Join(target.Leave, ",")
	if left == nil {
		left = []renumber.Leftover{}
	}
	done, err := encode(d.out, left, format)
	switch {
	case err != nil:
		return err
	case done:
	case len(left) == 0:
		fmt.Fprintf(d.out, "Nothing is left in %s: no Service, no IPAddress, no ServiceCIDR.\n", ranges)
	default:
		table := tabwriter.NewWriter(d.out, 0, 0, 3, ' ', 0)
		fmt.Fprintln(table, "KIND\tOBJECT\tADDRESS\tOWNER")
		for _, l := range left {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", l.Kind, l.Object, l.Address, orNone(l.Owner))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return blockedError{fmt.Errorf("%s left in %s", counted(len(left), "object is", "objects are"), ranges)}
	}
	return nil
}

// printBack prints the steps of a plan that was not asked for by name.
func printBack(d deps, p *renumber.Plan) {
	var out bytes.Buffer
	printSteps(&out, p)
	fmt.Fprintln(&out)
	_, _ = d.out.Write(out.Bytes())
}
