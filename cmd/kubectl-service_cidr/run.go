// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// reporter is the reportingController of the events.
const reporter = "kubectl-service-cidr"

// stoppedError: a run ended before its plan did, and can go on.
type stoppedError struct{ error }

// journalFlags say where the journals are.
type journalFlags struct {
	cluster   clientFlags
	dir       string
	namespace string
}

func (f *journalFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.dir, "journal", "", "folder of the local journals (default $XDG_STATE_HOME/kubectl-service-cidr, or ~/.local/state/kubectl-service-cidr)")
	flags.StringVar(&f.namespace, "journal-namespace", metav1.NamespaceSystem, "namespace of the cluster's journal and Lease")
	f.cluster.add(flags)
	f.cluster.completions(cmd)
	complete(cmd, "journal-namespace", cobra.NoFileCompletions)
}

// folder is where the local journals are.
func (f *journalFlags) folder() (string, error) {
	if f.dir != "" {
		return filepath.Abs(f.dir)
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, "kubectl-service-cidr"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("there is no place for the journal: %w: give --journal", err)
	}
	return filepath.Join(home, ".local", "state", "kubectl-service-cidr"), nil
}

// place is a cluster and the folder of its local journals.
type place struct {
	client    kubernetes.Interface
	folder    string
	namespace string
	cluster   renumber.ClusterID
}

func (f *journalFlags) place(ctx context.Context, d deps) (*place, error) {
	folder, err := f.folder()
	if err != nil {
		return nil, err
	}
	client, err := d.client(&f.cluster)
	if err != nil {
		return nil, err
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return nil, unread("the cluster", err)
	}
	return &place{client: client, folder: folder, namespace: f.namespace, cluster: renumber.ClusterID{UID: ns.UID}}, nil
}

// unread says why nothing could be read, and what to look at.
func unread(what string, err error) error {
	remedy := "check --context and --server, and that the API server runs"
	switch {
	case apierrors.IsForbidden(err):
		remedy = "docs/rbac.yaml lists the permissions that are needed"
	case apierrors.IsUnauthorized(err):
		remedy = "check --user, and whether its credentials have expired"
	}
	return fmt.Errorf("%s cannot be read: %w: %s", what, err, remedy)
}

// journal is that of a plan, in both places.
func (p *place) journal(plan string) (renumber.Both, *renumber.FileJournal) {
	local := renumber.NewFileJournal(filepath.Join(p.folder, plan))
	return renumber.Both{Local: local, Cluster: renumber.NewClusterJournal(p.client.CoreV1(), p.namespace, plan)}, local
}

// begunRun is a plan with its journal.
type begunRun struct {
	plan    *renumber.Plan
	entries []renumber.Entry
	status  renumber.Status
}

// runs are the plans of this cluster that have a journal here or there, oldest first.
func (p *place) runs(ctx context.Context) ([]begunRun, error) {
	local, err := renumber.Journals(p.folder)
	if err != nil {
		return nil, err
	}
	remote, err := renumber.ClusterJournals(ctx, p.client.CoreV1(), p.namespace)
	if err != nil {
		return nil, unread("the cluster's journal", err)
	}
	names := append(local, remote...)
	slices.Sort(names)
	var all []begunRun
	for _, name := range slices.Compact(names) {
		run, err := p.run(ctx, name)
		if err != nil {
			return nil, err
		}
		if run != nil {
			all = append(all, *run)
		}
	}
	slices.SortStableFunc(all, func(a, b begunRun) int { return a.plan.CreatedAt.Compare(b.plan.CreatedAt.Time) })
	return all, nil
}

// run reads one; nil if it is another cluster's.
func (p *place) run(ctx context.Context, name string) (*begunRun, error) {
	journal, local := p.journal(name)
	defer local.Close()
	plan, err := journal.Plan(ctx)
	if err != nil {
		return nil, err
	}
	if plan.Cluster.UID != p.cluster.UID {
		return nil, nil
	}
	entries, err := journal.Entries(ctx)
	if err != nil && !errors.Is(err, renumber.ErrNoJournal) {
		return nil, err
	}
	return &begunRun{plan, entries, renumber.ReadStatus(plan, entries)}, nil
}

// find returns the named run, or the only one that fits.
func (p *place) find(ctx context.Context, args []string, what string, fits func(renumber.Status) bool) (*begunRun, error) {
	all, err := p.runs(ctx)
	if err != nil {
		return nil, err
	}
	var found []begunRun
	var names []string
	for _, r := range all {
		names = append(names, fmt.Sprintf("%s (%s)", r.plan.Name, r.status.State))
		if len(args) > 0 && r.plan.Name == args[0] || len(args) == 0 && fits(r.status) {
			found = append(found, r)
		}
	}
	known := "there is none of this cluster, in " + p.folder + " or in its namespace " + p.namespace + ": check --context and --journal"
	if len(names) > 0 {
		known = "there are " + strings.Join(names, ", ")
	}
	switch {
	case len(found) == 0 && len(args) > 0:
		return nil, fmt.Errorf("there is no journal of a plan %q: %s", args[0], known)
	case len(found) == 0:
		return nil, fmt.Errorf("no run %s: %s", what, known)
	case len(found) > 1:
		return nil, fmt.Errorf("several runs %s: name one; %s", what, known)
	case !fits(found[0].status):
		if by := found[0].status.UndoneBy; by != "" {
			return nil, fmt.Errorf("run %s is not one that %s: plan %s takes it back, see kubectl service-cidr status %s", found[0].plan.Name, what, by, by)
		}
		return nil, fmt.Errorf("run %s is not one that %s: it is %s", found[0].plan.Name, what, strings.ToLower(string(found[0].status.State)))
	}
	return &found[0], nil
}

func unfinished(s renumber.Status) bool {
	return s.State == renumber.RunPending || s.State == renumber.RunBegun || s.State == renumber.RunStopped
}

// runFlags say how to carry a plan out.
type runFlags struct {
	journalFlags
	maxInFlight, batchSize       int
	qps                          float32
	pauseBetween                 time.Duration
	namespaces                   []string
	selector                     string
	gateTimeout, handOverTimeout time.Duration
	yes, acknowledge, noEvents   bool
}

func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&f.maxInFlight, "max-in-flight", 1, "how many Services move at the same time")
	flags.IntVar(&f.batchSize, "batch-size", 50, "how many Services are journalled in one write, and moved before the next")
	flags.Float32Var(&f.qps, "qps", 50, "API calls per second at most; 0 for as many as the API server takes")
	flags.DurationVar(&f.pauseBetween, "pause-between", 0, "how long to wait between batches")
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "move only Services of these namespaces, and pause then")
	flags.StringVarP(&f.selector, "selector", "l", "", "move only Services with these labels, and pause then")
	flags.DurationVar(&f.gateTimeout, "gate-timeout", 10*time.Minute, "how long to wait for what a step must bring about")
	flags.DurationVar(&f.handOverTimeout, "hand-over-timeout", time.Hour, "how long to wait for you to restart the API servers; 0 not at all")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask whether to begin")
	flags.BoolVar(&f.acknowledge, "acknowledge", false, "what a step waits to be told, is so")
	flags.BoolVar(&f.noEvents, "no-events", false, "write no events on the objects")
	f.journalFlags.add(cmd)
	for _, name := range []string{"namespace", "selector"} {
		complete(cmd, name, cobra.NoFileCompletions)
	}
}

func (f *runFlags) check() error {
	switch {
	case f.maxInFlight < 1:
		return usageError{fmt.Errorf("--max-in-flight=%d: give 1 or more", f.maxInFlight)}
	case f.batchSize < 1:
		return usageError{fmt.Errorf("--batch-size=%d: give 1 or more", f.batchSize)}
	case f.qps < 0:
		return usageError{fmt.Errorf("--qps=%v: give a positive number, or 0 for no bound", f.qps)}
	}
	if _, err := labels.Parse(f.selector); err != nil {
		return usageError{fmt.Errorf("--selector=%s: %w: give one such as app=web", f.selector, err)}
	}
	f.cluster.qps = f.qps
	if f.qps == 0 {
		f.cluster.qps = -1
	}
	return nil
}

// carryOut runs a plan until it is done or stops, and says how to go on.
func (f *runFlags) carryOut(ctx context.Context, d deps, p *place, plan *renumber.Plan) (err error) {
	journal, local := p.journal(plan.Name)
	defer func() { err = errors.Join(err, local.Close()) }()
	unlock, err := lock(local.Dir())
	if err != nil {
		return err
	}
	defer unlock()
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return usageError{err}
	}
	cfg := renumber.Config{
		API: renumber.NewAPI(p.client), Plan: plan, Journal: journal,
		MaxInFlight: f.maxInFlight, BatchSize: f.batchSize, PauseBetween: f.pauseBetween,
		Namespaces: f.namespaces, Selector: selector,
		Ask:         f.ask(d),
		Paused:      renumber.PauseRequested(p.client.CoordinationV1(), p.namespace),
		GateTimeout: f.gateTimeout, HandOverTimeout: f.handOverTimeout,
	}
	if f.selector == "" {
		cfg.Selector = nil
	}
	if plan.Undoes != "" {
		undone, undoneLocal := p.journal(plan.Undoes)
		defer undoneLocal.Close()
		cfg.Undone = undone
	}
	if !f.noEvents {
		recorder, stop, err := record(ctx, p.client)
		if err != nil {
			return err
		}
		defer stop()
		cfg.Recorder = recorder
	}
	show := newProgress(d, plan)
	defer show.end()
	cfg.Observe = show.observe
	runner, err := renumber.NewRunner(cfg)
	if err != nil {
		return err
	}
	// What client-go logs of its Lease is not for people.
	ctx = klog.NewContext(ctx, logr.Discard())
	defer interruptible(ctx, d, runner)()
	ran := false
	err = renumber.Exclusive(ctx, p.client.CoordinationV1(), p.namespace, identity(local.Dir()), d.clock, func(ctx context.Context) error {
		ran = true
		return runner.Run(ctx)
	})
	show.end()
	switch {
	case err == nil && !ran:
		return errors.New("stopped before it began")
	case err == nil:
		fmt.Fprintf(d.out, "Done: plan %s.\n", plan.Name)
		return nil
	case errors.Is(err, renumber.ErrHeld):
		return err
	}
	again := strings.Join(append([]string{"kubectl service-cidr resume", plan.Name}, f.args()...), " ")
	back := strings.Join(append([]string{"kubectl service-cidr rollback", plan.Name}, f.args()...), " ")
	fmt.Fprintf(d.err, "Nothing is lost: the journal is in %s and in namespace %s.\n  go on:   %s\n", local.Dir(), p.namespace, again)
	if plan.Undoes == "" {
		fmt.Fprintf(d.err, "  go back: %s\n", back)
	}
	for _, stop := range []error{renumber.ErrInterrupted, renumber.ErrPaused, renumber.ErrWaiting, renumber.ErrGate} {
		if errors.Is(err, stop) {
			return stoppedError{err}
		}
	}
	return err
}

// args are the flags by which a later command finds the same cluster and journal.
func (f *journalFlags) args() []string {
	all := f.cluster.args()
	if f.dir != "" {
		all = append(all, "--journal="+quote(f.dir))
	}
	if f.namespace != metav1.NamespaceSystem {
		all = append(all, "--journal-namespace="+quote(f.namespace))
	}
	return all
}

// identity is the same for a run that is resumed on the same machine with the same
// journal, whose lock proves that the one before has ended.
func identity(dir string) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + ":" + dir
}

// interruptible has the first signal end the run when the Service in hand is whole, and the second at once.
func interruptible(ctx context.Context, d deps, runner *renumber.Runner) (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-ctx.Done():
		case _, ok := <-signals:
			if ok {
				fmt.Fprintln(d.err, "Stopping when the Services in hand are whole.")
				runner.Interrupt()
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-ended
	}
}

// record makes a recorder that works until stop is called.
func record(ctx context.Context, client kubernetes.Interface) (_ events.EventRecorder, stop func(), err error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	ctx, cancel := context.WithCancel(ctx)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	return broadcaster.NewRecorder(scheme.Scheme, reporter), func() { broadcaster.Shutdown(); cancel() }, nil
}

// ask asks on a terminal; elsewhere --acknowledge answers.
func (f *runFlags) ask(d deps) func(context.Context, renumber.Step, string) (bool, error) {
	return func(_ context.Context, _ renumber.Step, question string) (bool, error) {
		if f.acknowledge {
			return true, nil
		}
		if !d.terminal() {
			return false, nil
		}
		return confirm(d, question)
	}
}

// confirm asks a question, and takes nothing but y or yes for a yes.
func confirm(d deps, question string) (bool, error) {
	fmt.Fprintf(d.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(d.in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

// begin asks whether to begin.
func (f *runFlags) begin(d deps, question string) error {
	if f.yes {
		return nil
	}
	if !d.terminal() {
		return usageError{errors.New("nobody can be asked whether to begin, since standard input is no terminal: give --yes")}
	}
	yes, err := confirm(d, question)
	if err != nil {
		return err
	}
	if !yes {
		return errors.New("not begun: you did not say yes")
	}
	return nil
}

// isTerminal tells whether somebody can answer.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
