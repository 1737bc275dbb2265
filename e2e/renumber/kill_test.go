// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/lifecycle/renumber"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// runnerEnv has the test binary be a runner; its value is a task.
const runnerEnv = "METACIDR_TEST_RUNNER"

// Exit codes of the runner; one that was killed has none.
const (
	runnerDone   = 0
	runnerFailed = 1
)

// task is what a runner is to do.
type task struct {
	Kubeconfig string
	Plan       string // file
	Journal    string // folder
	Undone     string // folder of the journal of the plan that Plan undoes
	// Cut is after how many API calls and writes of the journal the runner kills
	// itself; 0 never.
	Cut int64
}

// runnerMain is a runner in a process of its own.
func runnerMain(text string) int {
	if err := runTask(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return runnerFailed
	}
	return runnerDone
}

func runTask(text string) error {
	var task task
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	killer := &killer{}
	killer.left.Store(task.Cut)
	config, err := clientcmd.BuildConfigFromFlags("", task.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return killing{next, killer} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	in, err := os.Open(task.Plan)
	if err != nil {
		return err
	}
	defer in.Close()
	plan, err := renumber.ReadPlan(in)
	if err != nil {
		return err
	}
	both := func(name, dir string) renumber.Both {
		return renumber.Both{Local: killedJournal{renumber.NewFileJournal(dir), killer}, Cluster: renumber.NewClusterJournal(client.CoreV1(), metav1.NamespaceSystem, name)}
	}
	// One in flight: a call that is cut while the API server works on it may leave a node port reserved for nobody, until its
	// repair frees it after minutes. The runner waits for that; a test of hundreds of runs cannot.
	cfg := renumber.Config{API: renumber.NewAPI(client), Plan: plan, Journal: both(plan.Name, task.Journal), MaxInFlight: 1, BatchSize: 10, Poll: 50 * time.Millisecond}
	if plan.Undoes != "" {
		cfg.Undone = both(plan.Undoes, task.Undone)
	}
	runner, err := renumber.NewRunner(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(quiet(), patience)
	defer cancel()
	return runner.Run(ctx)
}

// killer kills this process, as nothing can be caught.
type killer struct{ left atomic.Int64 }

func (k *killer) point() {
	if k.left.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

type killing struct {
	next http.RoundTripper
	*killer
}

// RoundTrip kills when the server has answered and the runner does not know it yet.
func (k killing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := k.next.RoundTrip(r)
	k.point()
	return response, err
}

type killedJournal struct {
	renumber.Journal
	*killer
}

func (k killedJournal) Append(ctx context.Context, entries ...renumber.Entry) error {
	err := k.Journal.Append(ctx, entries...)
	k.point()
	return err
}

// start runs a task in a process of its own, and reports whether it was killed.
func (task task) start(t *testing.T) (killed bool) {
	t.Helper()
	text, err := json.Marshal(task)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), runnerEnv+"="+string(text))
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() && ctx.Err() == nil:
		return true
	}
	t.Fatalf("the runner: %v: %s", err, said.String())
	return false
}

// arena is one set of Services that moves to and fro between two ranges, which are
// not the cluster's default.
type arena struct {
	*cluster
	namespace  string
	ranges     [2]string
	at         int    // in which range they are
	name       string // of the ServiceCIDR that they are in
	kubeconfig string
	strategy   renumber.Strategy
	n          int
}

// newArena makes 30 Services of all classes.
func (c *cluster) newArena(t *testing.T, namespace string, strategy renumber.Strategy, ranges [2]string) *arena {
	t.Helper()
	a := &arena{cluster: c, namespace: namespace, ranges: ranges, name: namespace, strategy: strategy, kubeconfig: c.Kubeconfig()}
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges[:1]},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually(t, "the ServiceCIDR is ready", func(ctx context.Context) error {
		s, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, namespace, metav1.GetOptions{})
		if err == nil && !apimeta.IsStatusConditionTrue(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			err = errors.New("not ready")
		}
		return err
	})
	c.namespace(t, namespace)
	all := classes(false)
	first := cidr.MustParse(ranges[0]).Dynamic().First
	for i := range 30 {
		class := all[i%len(all)]
		svc := class.service(namespace, fmt.Sprintf("%s-%d", class.name, i), int32(i))
		if svc.Spec.Type != corev1.ServiceTypeExternalName && svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = first.String()
			first = first.Next()
		}
		c.eventually(t, "creating "+svc.Name, func(ctx context.Context) error {
			// The API server sees the ServiceCIDR a moment after us.
			return c.create(ctx, svc, class.balanced)
		})
	}
	return a
}

// one runs a plan to the next range, killed after cut points, and then resumes it or
// rolls it back. It reports whether the run ended before.
func (a *arena) one(t *testing.T, cut int64, rollback bool) (ended bool) {
	t.Helper()
	a.n++
	originals := a.mine(t)
	world, err := renumber.ReadWorld(t.Context(), a.client)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("%s-%d", a.namespace, a.n)
	plan, err := renumber.Make(world, renumber.Request{Playbook: renumber.Replace, From: a.name, To: []string{a.ranges[1-a.at]},
		Strategy: a.strategy, Mapping: renumber.MapRandom, LoadBalancers: true}, renumber.MakeOptions{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	there := task{Kubeconfig: a.kubeconfig, Plan: filepath.Join(dir, "plan.yaml"), Journal: filepath.Join(dir, "journal"), Cut: cut}
	write(t, there.Plan, plan)
	killed := there.start(t)
	if killed && !rollback {
		// Either journal is enough.
		switch a.n % 3 {
		case 1:
			there.Journal = filepath.Join(dir, "another machine")
		case 2:
			a.forget(t, plan.Name)
		}
		if a.begun(t, there, plan) {
			there.Cut = 0
			there.start(t)
		} else {
			killed = false // nothing was begun: as if it had not been called
			there.Journal, there.Cut = filepath.Join(dir, "again"), 0
			there.start(t)
		}
	}
	if killed && rollback {
		a.back(t, dir, there, plan)
	} else {
		a.at, a.name = 1-a.at, name
	}
	a.check(t, originals)
	a.forget(t, plan.Name)
	a.forget(t, "back-"+plan.Name)
	return !killed && cut > 0
}

// begun tells whether there is a journal to resume by.
func (a *arena) begun(t *testing.T, task task, plan *renumber.Plan) bool {
	t.Helper()
	local := renumber.NewFileJournal(task.Journal)
	_, err := renumber.Both{Local: local, Cluster: renumber.NewClusterJournal(a.client.CoreV1(), metav1.NamespaceSystem, plan.Name)}.Plan(t.Context())
	if err != nil && !errors.Is(err, renumber.ErrNoJournal) {
		t.Fatal(err)
	}
	return err == nil
}

// back rolls the run back; the runner that does is killed on the way as well, and
// called again.
func (a *arena) back(t *testing.T, dir string, there task, plan *renumber.Plan) {
	t.Helper()
	local := renumber.NewFileJournal(there.Journal)
	journal := renumber.Both{Local: local, Cluster: renumber.NewClusterJournal(a.client.CoreV1(), metav1.NamespaceSystem, plan.Name)}
	entries, err := journal.Entries(t.Context())
	if err != nil && !errors.Is(err, renumber.ErrNoJournal) {
		t.Fatal(err)
	}
	back, err := renumber.Inverse(plan, entries, 0, "back-"+plan.Name, metav1.Now())
	if errors.Is(err, renumber.ErrNothingToUndo) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := local.Close(); err != nil {
		t.Fatal(err)
	}
	task := task{Kubeconfig: a.kubeconfig, Plan: filepath.Join(dir, "back.yaml"), Journal: filepath.Join(dir, "back"), Undone: there.Journal, Cut: int64(1 + a.n*37%150)}
	write(t, task.Plan, back)
	if task.start(t) {
		task.Cut = 0
		task.start(t)
	}
}

// mine are the Services of the arena.
func (a *arena) mine(t *testing.T) map[string]*corev1.Service {
	t.Helper()
	all := a.services(t)
	for k, s := range all {
		if s.Namespace != a.namespace {
			delete(all, k)
		}
	}
	return all
}

// check compares, and makes sure that all are where they should be.
func (a *arena) check(t *testing.T, originals map[string]*corev1.Service) {
	t.Helper()
	now := a.mine(t)
	in := cidr.MustParse(a.ranges[a.at])
	for k, o := range originals {
		got := now[k]
		if got == nil {
			t.Errorf("Service %s is gone", k)
			continue
		}
		recreated := got.UID != o.UID
		if recreated && a.strategy == renumber.InPlace {
			t.Errorf("Service %s is another object", k)
		}
		for _, d := range renumber.SameService(got, o, recreated, true) {
			t.Errorf("Service %s: %s", k, d)
		}
		for _, ip := range got.Spec.ClusterIPs {
			addr, err := cidr.ParseAddr(ip)
			if err == nil && !in.Contains(addr) {
				t.Errorf("Service %s has %s, outside of %s", k, ip, in)
			}
		}
	}
	if len(now) != len(originals) {
		t.Errorf("%d Services, and there were %d", len(now), len(originals))
	}
	list, err := a.client.NetworkingV1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, s := range list.Items {
		if s.Spec.CIDRs[0] == a.ranges[0] || s.Spec.CIDRs[0] == a.ranges[1] {
			found++
			if s.Name != a.name || s.Spec.CIDRs[0] != a.ranges[a.at] || s.DeletionTimestamp != nil {
				t.Errorf("ServiceCIDR %s %v is left, terminating: %v; want %s", s.Name, s.Spec.CIDRs, s.DeletionTimestamp != nil, a.name)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d ServiceCIDRs", found)
	}
}

// forget loses the cluster's journal.
func (a *arena) forget(t *testing.T, plan string) {
	t.Helper()
	err := renumber.NewClusterJournal(a.client.CoreV1(), metav1.NamespaceSystem, plan).Remove(t.Context())
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, plan *renumber.Plan) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(plan.Encode(f), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// startQuick is a cluster whose ServiceCIDR controller is ours, with a grace period
// that does not keep hundreds of runs waiting.
func startQuick(t *testing.T) *cluster { return startQuickWith(t, "10.96.0.0/16") }

func startQuickWith(t *testing.T, ranges string) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: ranges})
	config := rest.CopyConfig(cp.RESTConfig())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := servicecidr.New(servicecidr.Config{Client: client.NetworkingV1(), GracePeriod: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &cluster{cp, client}
}

// stride is how many cuts are passed over: METACIDR_KILL_STRIDE=1 tries all of them.
func stride(t *testing.T) int64 {
	text := os.Getenv("METACIDR_KILL_STRIDE")
	if text == "" {
		return 29
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("METACIDR_KILL_STRIDE=%q: give a number of 1 or more", text)
	}
	return n
}

// The runner is killed after every API call and every write of its journal, of a run
// over 30 Services of all classes, and then resumed, or rolled back: all Services are
// there and equal. make e2e-kill tries every cut.
func TestI12_KilledAfterEveryCall(t *testing.T) {
	c := startQuick(t)
	every := stride(t)
	var cuts, checked, losses atomic.Int64
	t.Run("all", func(t *testing.T) {
		for i, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
			for j, way := range []string{"resume", "rollback"} {
				t.Run(string(strategy)+"/"+way, func(t *testing.T) {
					t.Parallel()
					n := 2*i + j
					a := c.newArena(t, fmt.Sprintf("%s-%s", strategy, way), strategy, [2]string{fmt.Sprintf("10.200.%d.0/24", n), fmt.Sprintf("10.201.%d.0/24", n)})
					for cut := 1 + int64(n)*every/4; ; cut += every {
						ended := a.one(t, cut, way == "rollback")
						checked.Add(30)
						if t.Failed() {
							losses.Add(1)
							t.Fatalf("at cut %d", cut)
						}
						if ended {
							break
						}
						cuts.Add(1)
					}
				})
			}
		}
	})
	t.Logf("%d cuts tried, every %d of all; %d Services checked; %d runs with losses", cuts.Load(), every, checked.Load(), losses.Load())
	if cuts.Load() < 4 {
		t.Errorf("%d cuts: nothing was tried", cuts.Load())
	}
}

// The API server is killed while Services move; the runner waits for it.
func TestAPIServerKilledInTheMiddle(t *testing.T) {
	for _, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			c := startQuick(t)
			a := c.newArena(t, "web", strategy, [2]string{"10.200.0.0/24", "10.201.0.0/24"})
			originals := a.mine(t)
			plan := c.plan(t, renumber.Request{Playbook: renumber.Replace, From: "web", To: []string{"10.201.0.0/24"},
				Strategy: strategy, Mapping: renumber.MapRandom, LoadBalancers: true})
			var once atomic.Bool
			err := c.run(t, plan, c.journal(t, plan), nil, func(cfg *renumber.Config) {
				cfg.MaxInFlight, cfg.CallTimeout = 3, 5*time.Second
				cfg.Observe = func(e renumber.Event) {
					if e.Done != 7 || !once.CompareAndSwap(false, true) {
						return
					}
					c.KillAPIServer()
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					defer cancel()
					if err := c.StartAPIServer(ctx); err != nil {
						t.Error(err)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if !once.Load() {
				t.Error("the API server was not killed")
			}
			a.at, a.name = 1, plan.Name
			a.check(t, originals)
		})
	}
}
