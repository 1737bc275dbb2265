// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

func newApply(d deps) *cobra.Command {
	f := &runFlags{}
	var file, dryRun string
	cmd := &cobra.Command{
		Use:   "apply -f PLAN",
		Short: "Carry a plan out, step by step; each ends with a gate",
		Long: `Carry a plan out. It is refused if it was made from another cluster, has blockers, or if the cluster has moved since in
a way that matters. Before anything of a Service is destroyed, all of it is in the journal: in a local folder and in
Secrets of the cluster. It may be stopped or killed at any moment: resume goes on, rollback goes back.

Ctrl-C stops it when the Services in hand are whole. A second runner on the same cluster is kept out by a Lease.

Exit codes: 0 done; 1 failed; 2 called wrongly; 3 refused, nothing was written; 4 stopped or waiting, resume goes on.`,
		Example: `  kubectl service-cidr plan replace --to 10.112.0.0/16 -f plan.yaml
  kubectl service-cidr apply -f plan.yaml --dry-run=server
  kubectl service-cidr apply -f plan.yaml --selector canary=yes
  kubectl service-cidr apply -f plan.yaml --max-in-flight 8 --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case file == "":
				return usageError{errors.New("no plan given: give -f PLAN, which kubectl service-cidr plan ... -f PLAN writes")}
			case !slices.Contains(dryRuns(), dryRun):
				return usageError{fmt.Errorf("unknown --dry-run=%s: give one of %s", dryRun, strings.Join(dryRuns(), ", "))}
			}
			if err := f.check(); err != nil {
				return err
			}
			plan, err := readPlan(file)
			if err != nil {
				return err
			}
			return f.apply(cmd.Context(), d, plan, dryRun)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file of the plan")
	cmd.Flags().StringVar(&dryRun, "dry-run", "none", "none, client (show what would be done), or server (have the API server try it, and store nothing)")
	f.add(cmd)
	complete(cmd, "dry-run", fixed(dryRuns()))
	return cmd
}

func dryRuns() []string { return []string{"none", "client", "server"} }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q is not expected: %q shows what is", args[0], cmd.CommandPath()+" --help")}
	}
	return nil
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%d plans given, %s: give one", len(args), strings.Join(args, " "))}
	}
	return nil
}

func (f *runFlags) apply(ctx context.Context, d deps, plan *renumber.Plan, dryRun string) error {
	if dryRun == "client" {
		return printPlan(d.out, plan, []string{"the same command without --dry-run"})
	}
	p, err := f.place(ctx, d)
	if err != nil {
		return err
	}
	if plan.Cluster.UID != p.cluster.UID {
		return blockedError{fmt.Errorf("%w: its kube-system has the UID %s, and this one's %s: check --context, or make a plan of this cluster",
			renumber.ErrWrongCluster, plan.Cluster.UID, p.cluster.UID)}
	}
	if blockers := plan.Blockers(); len(blockers) > 0 {
		return blocked("the plan has", blockers)
	}
	all, err := p.runs(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		switch {
		case r.plan.Name == plan.Name && len(r.entries) > 0:
			return blockedError{fmt.Errorf("plan %s was begun already, and is %s: kubectl service-cidr resume %s goes on, status %s shows how far it is", plan.Name, strings.ToLower(string(r.status.State)), plan.Name, plan.Name)}
		case unfinished(r.status) && len(r.entries) > 0:
			return blockedError{fmt.Errorf("plan %s is %s: before another one is begun, end it by kubectl service-cidr resume %s, or rollback %s", r.plan.Name, strings.ToLower(string(r.status.State)), r.plan.Name, r.plan.Name)}
		}
	}
	world, err := renumber.ReadWorld(ctx, p.client)
	if err != nil {
		return err
	}
	moved := renumber.Plan{Findings: world.Moved(plan)}
	if blockers := moved.Blockers(); len(blockers) > 0 {
		return blocked("since the plan was made, the cluster has moved:", blockers)
	}
	if dryRun == "server" {
		return f.dryRun(ctx, d, p, plan)
	}
	if err := f.begin(d, fmt.Sprintf("Carry out plan %s: %s?", plan.Name, title(plan))); err != nil {
		return err
	}
	return f.carryOut(ctx, d, p, plan)
}

// blocked lists what keeps a plan from being applied.
func blocked(why string, all []renumber.Finding) error {
	const shown = 5
	lines := []string{fmt.Sprintf("%s %s; nothing was written", why, counted(len(all), "blocker", "blockers"))}
	for i, b := range all {
		if i == shown {
			lines = append(lines, fmt.Sprintf("and %d more", len(all)-shown))
			break
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s: %s", b.Code, b.Object, b.Message, b.Remedy))
	}
	return blockedError{errors.New(strings.Join(lines, "\n  "))}
}

func (f *runFlags) dryRun(ctx context.Context, d deps, p *place, plan *renumber.Plan) error {
	refused, tried, err := renumber.DryRun(ctx, renumber.NewAPI(p.client), plan)
	if err != nil {
		return err
	}
	for _, r := range refused {
		fmt.Fprintln(d.out, r)
	}
	fmt.Fprintf(d.out, "Tried %s on the API server, which stored none of them.\n", counted(tried, "write", "writes"))
	if len(refused) > 0 {
		return blockedError{fmt.Errorf("the API server refuses %s", counted(len(refused), "write", "writes"))}
	}
	return nil
}

func newResume(d deps) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "resume [PLAN]",
		Short: "Go on with a run that was stopped or killed",
		Long: `Go on with a run that was stopped, paused or killed, from where its journal and the cluster say it is. Without a name it
is the only one that has not ended. Either journal is enough, the local one or that of the cluster; the other is made
whole again.

Exit codes: as of apply.`,
		Example: `  kubectl service-cidr resume
  kubectl service-cidr resume replace-20261201-040000-abcde --acknowledge`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx := cmd.Context()
			p, err := f.place(ctx, d)
			if err != nil {
				return err
			}
			run, err := p.find(ctx, args, "can be resumed", unfinished)
			if err != nil {
				return err
			}
			if err := renumber.RequestPause(ctx, p.client.CoordinationV1(), p.namespace, false); err != nil {
				return err
			}
			return f.carryOut(ctx, d, p, run.plan)
		},
	}
	f.add(cmd)
	completePlans(cmd, d, &f.journalFlags)
	return cmd
}

func newRollback(d deps) *cobra.Command {
	f := &runFlags{}
	toStep := 0
	cmd := &cobra.Command{
		Use:   "rollback [PLAN]",
		Short: "Take a run back, whole or down to a step",
		Long: `Take back what a run has done: a ServiceCIDR with the old range, a twin, brings it back; Services get the addresses back
that they had; the API servers are restarted with the old flags, by you, if they were restarted with the new ones.

It is a run of its own, with a plan and a journal: it can be stopped, killed and resumed as well.

Exit codes: as of apply.`,
		Example: `  kubectl service-cidr rollback
  kubectl service-cidr rollback replace-20261201-040000-abcde --to-step 1`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.rollback(cmd.Context(), d, args, toStep)
		},
	}
	cmd.Flags().IntVar(&toStep, "to-step", 0, "the last step that stays; 0 takes back all")
	f.add(cmd)
	completePlans(cmd, d, &f.journalFlags)
	return cmd
}

func (f *runFlags) rollback(ctx context.Context, d deps, args []string, toStep int) error {
	p, err := f.place(ctx, d)
	if err != nil {
		return err
	}
	run, err := p.find(ctx, args, "can be rolled back", func(s renumber.Status) bool {
		return s.Undoes == "" && (len(args) > 0 || unfinished(s) || s.State == renumber.RunUndone)
	})
	if err != nil {
		return err
	}
	if run.status.State == renumber.RunUndone {
		return fmt.Errorf("plan %s takes it back already: kubectl service-cidr resume %s goes on", run.status.UndoneBy, run.status.UndoneBy)
	}
	name := "back-" + run.plan.Name
	if len(name) > 55 {
		name = name[:55]
	}
	back, err := renumber.Inverse(run.plan, run.entries, toStep, strings.TrimRight(name, "-"), metav1.NewTime(d.clock.Now().UTC()))
	if err != nil {
		return err
	}
	printBack(d, back)
	if err := f.begin(d, fmt.Sprintf("Take back plan %s?", run.plan.Name)); err != nil {
		return err
	}
	if err := renumber.RequestPause(ctx, p.client.CoordinationV1(), p.namespace, false); err != nil {
		return err
	}
	journal, local := p.journal(back.Name)
	err = journal.Begin(ctx, back)
	if err = errors.Join(err, local.Close()); err != nil {
		return err
	}
	if err := p.markUndone(ctx, d, run, back.Name); err != nil {
		return err
	}
	return f.carryOut(ctx, d, p, back)
}

// markUndone has the journal of a run say that it is taken back.
func (p *place) markUndone(ctx context.Context, d deps, run *begunRun, by string) error {
	journal, local := p.journal(run.plan.Name)
	seq := int64(1)
	for _, e := range run.entries {
		seq = max(seq, e.Seq+1)
	}
	err := journal.Heal(ctx)
	if err == nil {
		err = journal.Append(ctx, renumber.Entry{Seq: seq, Time: metav1.NewMicroTime(d.clock.Now().UTC()), Type: renumber.Undone, Message: by})
	}
	return errors.Join(err, local.Close())
}
