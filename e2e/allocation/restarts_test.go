// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// TestSurvivesRestarts runs a load while etcd is killed twice, and kube-apiserver is restarted once and killed
// once. Then: I1, no address has two owners; I9, what was confirmed is at the server under its UID, and of the
// calls that failed nothing is left.
//
// That nothing is left holds without a repair controller, because the replicas live on: each remembers the nonces
// of its last 4,096 calls of unknown outcome and removes their objects when its watch shows them. What a process
// forgets, beyond those or by its own end, would take a repair controller; the workers here pause in an outage and
// stay far below.
func TestSurvivesRestarts(t *testing.T) {
	unrelated := goleak.IgnoreCurrent()
	c := startCluster(t, default4.String()+","+default6.String())
	stopController := c.runController(t)
	c.createServiceCIDR(t, "alpha", alpha4.String(), alpha6.String())
	c.createServiceCIDR(t, "beta", beta4.String(), beta6.String())
	c.waitUntilReady(t, "kubernetes", "alpha", "beta")
	replicas := []*replica{c.startReplica(t, "stale", meta.VerifyStale), c.startReplica(t, "always", meta.VerifyAlways)}
	for _, r := range replicas {
		r.waitUntilReady(t, default4, default6, alpha4, alpha6, beta4, beta6)
	}

	ledger := newLedger()
	kubernetes, err := c.client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var workers []*worker
	for _, r := range replicas {
		for i := range workersPerReplica / 2 {
			w := newWorker(r, ledger, i, 10, default4, alpha4, beta4, beta6)
			w.outage = c.outage
			workers = append(workers, w)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, w := range workers {
		running.Go(func() { w.run(ctx, stop) })
	}
	defer running.Wait() // if a wait below fails
	defer cancel()

	m := &many{cluster: c, replicas: replicas, ledger: ledger}
	// Calls that etcd leaves without an answer end at their time limit, after kube-apiserver has passed them on.
	killEtcd := func() error {
		wait := m.failures(t, workersPerReplica/4) // a worker fails once, and then waits for the end of the outage
		c.KillEtcd()
		wait()
		return c.StartEtcd(t.Context())
	}
	for _, fault := range []struct {
		name   string
		happen func() error
	}{
		{"etcd is killed", killEtcd},
		{"kube-apiserver is restarted", func() error { return c.RestartAPIServer(t.Context()) }},
		{"etcd is killed again", killEtcd},
		{"kube-apiserver is killed", func() error { c.KillAPIServer(); return c.StartAPIServer(t.Context()) }},
	} {
		m.waitForGrants(t, "load before "+fault.name, 100)
		if err := fault.happen(); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		if err := c.WaitReady(t.Context()); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		m.waitForGrants(t, "load after "+fault.name, 50)
	}
	close(stop)
	running.Wait()

	outcome := map[string]int{}
	for _, w := range workers {
		for name, n := range w.outcome {
			outcome[name] += n
		}
	}
	now, peak := ledger.count()
	t.Logf("calls: %v; addresses held: %d, at most %d", outcome, now, peak)
	ledger.report(t)

	// Releases are idempotent: those that ended with an error are sent again.
	for _, w := range workers {
		if err := w.retry(t.Context()); err != nil {
			t.Fatalf("releasing again: %v", err)
		}
	}
	held, all := ledger.state()
	for _, ip := range kubernetes.Spec.ClusterIPs {
		if _, ok := held[netip.MustParseAddr(ip)]; ok {
			t.Errorf("I1: %s of Service kubernetes was granted to %s", ip, held[netip.MustParseAddr(ip)].owner)
		}
	}
	eventually(t, "I1, I9: the server has what was confirmed, and nothing that was not", func(ctx context.Context) error {
		return checkServerAgrees(ctx, c, held)
	})
	checkViews(t, all)

	for _, w := range workers {
		running.Go(func() { w.releaseAll(t.Context()) })
	}
	running.Wait()
	for _, w := range workers {
		if err := w.retry(t.Context()); err != nil {
			t.Errorf("releasing again: %v", err)
		}
	}
	ledger.report(t)
	ours, err := c.addresses(t.Context(), informer.DefaultManager)
	if err != nil {
		t.Fatal(err)
	}
	if len(ours) > 0 {
		t.Errorf("%d IPAddresses of ours are left", len(ours))
	}

	for _, r := range replicas {
		r.stop()
	}
	stopController()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, unrelated)
}

// failures begins to wait until n more calls of each replica have failed.
func (m *many) failures(t *testing.T, n int64) (wait func()) {
	t.Helper()
	want := map[*replica]int64{}
	for _, r := range m.replicas {
		want[r] = r.failed.Load() + n
	}
	return func() {
		t.Helper()
		for _, r := range m.replicas {
			eventually(t, "calls of replica "+r.name+" fail", func(context.Context) error {
				if now := r.failed.Load(); now < want[r] {
					return fmt.Errorf("%d failed calls, want %d", now, want[r])
				}
				return nil
			})
		}
	}
}

// outage returns when kube-apiserver answers again, so that no worker retries in a tight loop.
func (c *cluster) outage(ctx context.Context, _ error) {
	_ = wait.PollUntilContextCancel(ctx, retryInterval, false, func(ctx context.Context) (bool, error) {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		_, err := c.client.NetworkingV1().ServiceCIDRs().Get(call, "kubernetes", metav1.GetOptions{})
		return err == nil, nil
	})
}

// TestI3_AnOutageFillsNoCIDR fails more calls while kube-apiserver is down than a small CIDR has addresses. None
// of them has taken an address, so afterwards all are to be had, without a pause.
func TestI3_AnOutageFillsNoCIDR(t *testing.T) {
	small := cidr.MustParse("10.96.0.0/28")
	c := startCluster(t, small.String())
	c.runController(t)
	c.waitUntilReady(t, "kubernetes")
	r := c.startReplica(t, "only", meta.VerifyStale)
	r.waitUntilReady(t, small)

	c.StopAPIServer(t.Context())
	for i := range 40 {
		_, err := r.Allocate(t.Context(), meta.Request{Owner: widget(fmt.Sprintf("early-%d", i)), Families: []cidr.Family{cidr.IPv4}})
		switch {
		case err == nil:
			t.Fatal("an allocation succeeded without an API server")
		case errors.Is(err, meta.ErrFull):
			t.Errorf("call %d of an outage: %v", i, err)
		}
	}
	if err := c.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 13 { // Service kubernetes has the 14th
		_, err := r.Allocate(t.Context(), meta.Request{Owner: widget(fmt.Sprintf("late-%d", i)), Families: []cidr.Family{cidr.IPv4}})
		if err != nil {
			t.Fatalf("after the outage, address %d of 13: %v", i+1, err)
		}
	}
}
