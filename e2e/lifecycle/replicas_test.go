// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/e2e/history"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// foreign is a finalizer of somebody else's.
const foreign = "example.com/hold"

// TestReplicas runs the controller in processes of its own, two at a time, kills them with SIGKILL in
// the middle of deletions, and starts others: with a leader, and with all of them working at once.
// Whoever works, each ServiceCIDR goes through the same life, once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "")
	t.Run("all work at once", func(t *testing.T) {
		g := &replicas{cluster: c, prefix: "a", net: 200, history: c.record(t)}
		g.scene(t, false)
	})
	t.Run("one leads", func(t *testing.T) {
		g := &replicas{cluster: c, prefix: "l", net: 210, history: c.record(t)}
		g.scene(t, true)
	})
}

// replicas is a group of processes that keep the ServiceCIDRs of one test.
type replicas struct {
	*cluster
	prefix  string // of all names
	net     int    // second byte of all addresses
	history *history.History
	started int
	running []*process
}

func (g *replicas) start(t *testing.T, elect bool) {
	t.Helper()
	g.started++
	// No allocator has a lease here, so a grace period may be short.
	g.running = append(g.running, startProcess(t, g.cluster, fmt.Sprintf("%s%d", g.prefix, g.started), elect, 2*time.Second))
}

func (g *replicas) name(i int) string    { return fmt.Sprintf("%s-%d", g.prefix, i) }
func (g *replicas) cidr(i int) []string  { return []string{fmt.Sprintf("10.%d.%d.0/24", g.net, i)} }
func (g *replicas) address(i int) string { return fmt.Sprintf("10.%d.%d.9", g.net, i) }

func (g *replicas) scene(t *testing.T, elect bool) {
	const n = 8 // ServiceCIDRs, a Service in each
	var names []string
	for i := range n {
		names = append(names, g.name(i))
	}
	g.start(t, elect)
	g.start(t, elect)
	for i, name := range names {
		if i == 0 {
			g.create(t, name, g.cidr(i), foreign)
		} else {
			g.create(t, name, g.cidr(i))
		}
	}
	g.waitReady(t, names...)
	if got := g.get(t, names[0]).Finalizers; !slices.Contains(got, foreign) || len(got) != 2 {
		t.Errorf("finalizers %v; want the other's and ours", got)
	}
	for i, name := range names {
		g.placeService(t, name, g.address(i))
	}

	// Half of the deletions are under way when a replica is killed, the other half begins without it.
	g.delete(t, names[:n/2]...)
	g.waitBlocked(t, names[0])
	g.killWorker(t, elect)
	g.delete(t, names[n/2:]...)
	g.create(t, g.name(n), g.cidr(n))
	for i, name := range names {
		g.waitBlocked(t, name, fmt.Sprintf("%s (services/default/%s)", g.address(i), name))
	}
	g.waitReady(t, g.name(n))
	t.Logf("after a SIGKILL the other goes on: all %d deletions are blocked, and a new ServiceCIDR is ready", n)
	g.start(t, elect)

	// The first half is released, and the second replica is killed meanwhile.
	g.deleteServices(t, names[:n/2]...)
	g.waitGone(t, names[1])
	g.killWorker(t, elect)
	g.waitGone(t, names[1:n/2]...)
	t.Log("after another one the replacement lets go what was released")
	for i := n / 2; i < n; i++ {
		g.waitBlocked(t, names[i], g.address(i))
	}

	// Its own finalizer is removed, that of the other stays.
	eventually(t, "the finalizer is removed", func(ctx context.Context) error {
		obj, err := g.client.NetworkingV1().ServiceCIDRs().Get(ctx, names[0], metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%w: %w", errNever, err)
		}
		if !slices.Equal(obj.Finalizers, []string{foreign}) {
			return fmt.Errorf("finalizers %v", obj.Finalizers)
		}
		return nil
	})
	obj := g.get(t, names[0])
	obj.Finalizers = nil
	if _, err := g.client.NetworkingV1().ServiceCIDRs().Update(t.Context(), obj, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	g.waitGone(t, names[0])

	// The last one ends in order while the second half is released: its work is handed on.
	g.start(t, elect)
	g.deleteServices(t, names[n/2:]...)
	g.waitGone(t, names[n/2])
	first := g.running[0]
	if elect {
		g.waitLeader(t, func(holder string) bool { return holder == first.identity })
	}
	first.quit(t)
	g.running = g.running[1:]
	if elect {
		g.waitLeader(t, func(holder string) bool { return holder == g.running[0].identity })
	}
	g.delete(t, g.name(n))
	g.waitGone(t, append(names, g.name(n))...)
	t.Log("the last but one ended in order; the last has done the rest")
	g.running[0].quit(t)
	g.checkLives(t, append(names, g.name(n)), elect)
}

// killWorker kills the leader, or any one if all work.
func (g *replicas) killWorker(t *testing.T, elect bool) {
	t.Helper()
	victim := g.running[0]
	if elect {
		holder := g.waitLeader(t, func(holder string) bool {
			return slices.ContainsFunc(g.running, func(p *process) bool { return p.identity == holder })
		})
		i := slices.IndexFunc(g.running, func(p *process) bool { return p.identity == holder })
		victim = g.running[i]
	}
	victim.kill()
	g.running = slices.DeleteFunc(g.running, func(p *process) bool { return p == victim })
	if elect {
		next := g.waitLeader(t, func(holder string) bool { return holder != "" && holder != victim.identity })
		t.Logf("the leader %s was killed, %s has taken over", victim.identity, next)
	}
}

// waitLeader waits until the Lease names one that is meant.
func (g *replicas) waitLeader(t *testing.T, is func(string) bool) (holder string) {
	t.Helper()
	eventually(t, "there is a leader", func(ctx context.Context) error {
		lease, err := g.client.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		holder = ""
		if lease.Spec.HolderIdentity != nil {
			holder = *lease.Spec.HolderIdentity
		}
		if !is(holder) {
			return errors.New("the Lease names " + holder)
		}
		return nil
	})
	return holder
}

// checkLives checks from the history that each ServiceCIDR went through its states in their order and once:
// the finalizer, then Ready=True, then the deletion, then Ready=False, then no finalizer; and that no
// address was ever without one.
func (g *replicas) checkLives(t *testing.T, names []string, elect bool) {
	t.Helper()
	const (
		fresh = iota
		held
		ready
		deleted
		blocked
		released
		gone
	)
	states := map[string]int{}
	for _, e := range all(t, g.history) {
		if e.CIDR == nil || !slices.Contains(names, e.CIDR.Name) {
			continue
		}
		obj, condition := e.CIDR, readyOf(e.CIDR)
		state := fresh
		hasFinalizer := slices.Contains(obj.Finalizers, informer.Finalizer)
		switch {
		case e.Gone():
			state = gone
		case obj.DeletionTimestamp != nil && !hasFinalizer:
			state = released
		case obj.DeletionTimestamp != nil && condition != nil && condition.Status == metav1.ConditionFalse:
			state = blocked
		case obj.DeletionTimestamp != nil:
			state = deleted
		case hasFinalizer && condition != nil && condition.Status == metav1.ConditionTrue:
			state = ready
		case hasFinalizer && condition == nil:
			state = held
		case hasFinalizer || condition != nil:
			t.Errorf("ServiceCIDR %s at revision %d: finalizers %v, Ready %+v, and no deletion", obj.Name, e.Revision, obj.Finalizers, condition)
			continue
		}
		if before, known := states[obj.Name]; known && state < before {
			t.Errorf("ServiceCIDR %s went back from state %d to %d at revision %d", obj.Name, before, state, e.Revision)
		}
		states[obj.Name] = state
	}
	for _, name := range names {
		if states[name] != gone {
			t.Errorf("ServiceCIDR %s ended in state %d of %d", name, states[name], gone)
		}
		events, err := g.eventsOn(t.Context(), "ServiceCIDR", name)
		if err != nil {
			t.Fatal(err)
		}
		told := 0
		for _, e := range events {
			if e.Reason == servicecidr.EventReleased {
				told++
			}
		}
		// A replica that is killed after its patch tells nobody.
		if told > 1 {
			t.Errorf("ServiceCIDR %s: %d events say that it was released; want one at most, with a leader (%t) or not: the resourceVersion lets one patch win", name, told, elect)
		}
	}
	for address, since := range orphans(t, g.history) {
		t.Errorf("I7: %s was without a ServiceCIDR from revision %d on", address, since)
	}
}
