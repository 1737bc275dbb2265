// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// grace is how long a ServiceCIDR controller waits after a deletion.
const grace = 10 * time.Second

// machine is a cluster of two replicas whose watches are late, a ServiceCIDR
// controller that does what DESIGN asks of one, and people who create and delete
// ServiceCIDRs. It keeps what must be true beside what the replicas believe.
type machine struct {
	server   *simapi.Server
	replicas []*replica
	seed     uint64
	modes    []Verification
	held     map[netip.Addr]holding   // confirmed, not released
	readyAt  map[cidr.Range]time.Time // when a prefix was last ready
	crashed  bool                     // a replica was restarted
	created  int
}

type holding struct {
	uid   types.UID
	owner Owner
}

// I1, I2, I3, I4, I7, I8, I10 and I9 at the end, for two replicas with late
// watches, faults, restarts, and CIDRs that come and go at the worst moment.
func TestMetaAllocator_StateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := &machine{server: simapi.New(), held: map[netip.Addr]holding{}, readyAt: map[cidr.Range]time.Time{}}
			defer m.server.Close()
			m.seed = rapid.Uint64().Draw(t, "seed")
			for range 2 {
				m.modes = append(m.modes, rapid.SampledFrom([]Verification{VerifyStale, VerifyAlways}).Draw(t, "mode"))
			}
			for i := range 2 {
				m.replicas = append(m.replicas, nil)
				m.start(t, i)
			}
			defer func() {
				for _, r := range m.replicas {
					r.stop()
				}
			}()
			m.createCIDR(t)
			t.Repeat(map[string]func(*rapid.T){
				"allocate":             m.allocate,
				"allocate too":         m.allocate, // twice as often
				"release":              m.release,
				"create a ServiceCIDR": m.createCIDR,
				"delete a ServiceCIDR": m.deleteCIDR,
				"turn readiness":       m.turnReadiness,
				"controller":           func(*rapid.T) { m.controller() },
				"deliver": func(t *rapid.T) {
					m.server.Deliver(fmt.Sprint("r", rapid.IntRange(0, 1).Draw(t, "replica")), rapid.IntRange(1, 6).Draw(t, "n"))
					synctest.Wait()
				},
				"deliver all": func(t *rapid.T) {
					m.server.Deliver(fmt.Sprint("r", rapid.IntRange(0, 1).Draw(t, "replica")), -1)
					synctest.Wait()
				},
				"time passes": func(t *rapid.T) { m.sleep(time.Duration(rapid.IntRange(1, 8).Draw(t, "s")) * time.Second) },
				"restart":     func(t *rapid.T) { m.restart(t, rapid.IntRange(0, 1).Draw(t, "replica")) },
				"":            m.check,
			})
			m.settle(t)
		})
	})
}

func (m *machine) start(t failer, i int) {
	name := fmt.Sprint("r", i)
	m.server.Release(name)
	m.seed++
	m.replicas[i] = startReplica(t, m.server, name, func(c *Config) {
		c.Verification, c.Random, c.ReuseDelay = m.modes[i], rand.NewPCG(m.seed, 1), time.Second
	})
	m.server.Hold(name)
	synctest.Wait()
}

func (m *machine) restart(t *rapid.T, i int) {
	m.replicas[i].stop()
	m.crashed = true
	m.start(t, i)
}

// sleep lets time pass; while it does, what is ready is ready.
func (m *machine) sleep(d time.Duration) {
	for ; d > 0; d -= time.Second {
		m.noteReady()
		time.Sleep(time.Second)
		synctest.Wait()
	}
	m.noteReady()
}

func (m *machine) noteReady() {
	for _, c := range m.rows() {
		if c.WhyNot(true) == "" {
			for _, r := range c.Ranges {
				m.readyAt[r] = time.Now()
			}
		}
	}
}

func (m *machine) rows() []*informer.ServiceCIDR {
	var out []*informer.ServiceCIDR
	for _, o := range m.server.TrueServiceCIDRs() {
		out = append(out, informer.NewServiceCIDR(&o))
	}
	return out
}

var prefixes = []string{"10.0.0.0/27", "10.0.0.0/28", "10.0.0.16/28", "10.0.0.0/29", "10.0.1.0/29", "10.0.0.0/26", "2001:db8::/125", "2001:db8::/124"}

func (m *machine) createCIDR(t *rapid.T) {
	m.created++
	cidrs := []string{rapid.SampledFrom(prefixes[:6]).Draw(t, "prefix")}
	if rapid.Bool().Draw(t, "dual") {
		cidrs = append(cidrs, rapid.SampledFrom(prefixes[6:]).Draw(t, "second"))
	}
	name := fmt.Sprint("c", m.created)
	m.server.CreateServiceCIDR(name, "", cidrs...)
	if rapid.Bool().Draw(t, "finalizer at once") {
		m.server.AddFinalizer(name, informer.Finalizer)
	}
	m.noteReady()
}

func (m *machine) pickCIDR(t *rapid.T) (networkingv1.ServiceCIDR, bool) {
	all := m.server.TrueServiceCIDRs()
	if len(all) == 0 {
		return networkingv1.ServiceCIDR{}, false
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "ServiceCIDR")], true
}

func (m *machine) deleteCIDR(t *rapid.T) {
	if c, ok := m.pickCIDR(t); ok {
		terminate(t, m.server, c.Name)
	}
}

func (m *machine) turnReadiness(t *rapid.T) {
	if c, ok := m.pickCIDR(t); ok {
		m.server.SetReady(c.Name, rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, ""}).Draw(t, "ready"))
		m.noteReady()
	}
}

// controller is one pass over all ServiceCIDRs: the finalizer at first sight,
// and its removal when, a grace period after the deletion, no managed address
// depends on that ServiceCIDR alone.
func (m *machine) controller() {
	for _, c := range m.server.TrueServiceCIDRs() {
		row := informer.NewServiceCIDR(&c)
		switch {
		case !row.Terminating && !row.HasFinalizer:
			m.server.AddFinalizer(c.Name, informer.Finalizer)
		case row.Terminating && time.Since(c.DeletionTimestamp.Time) >= grace && !m.blocked(row):
			m.server.RemoveFinalizer(c.Name, informer.Finalizer)
		}
	}
	m.noteReady()
}

func (m *machine) blocked(c *informer.ServiceCIDR) bool {
	for _, o := range m.server.TrueIPAddresses() {
		addr := netip.MustParseAddr(o.Name)
		if !c.CoversUsable(addr) {
			continue
		}
		if !slices.ContainsFunc(m.rows(), func(other *informer.ServiceCIDR) bool {
			return !other.Terminating && other.HasFinalizer && other.CoversUsable(addr)
		}) {
			return true
		}
	}
	return false
}

// interrupt arms something that happens at one point of the next call's API
// calls.
func (m *machine) interrupt(t *rapid.T, i int) (disarm func()) {
	what := rapid.SampledFrom([]string{"", "", "delete CIDR", "controller", "wait and controller", "deliver", "slow", "twice"}).Draw(t, "interruption")
	verb := rapid.SampledFrom([]string{"create", "get"}).Draw(t, "at") // made by no background work
	phase := rapid.SampledFrom([]simapi.Phase{simapi.Before, simapi.After}).Draw(t, "phase")
	var victim string
	if c, ok := m.pickCIDR(t); ok {
		victim = c.Name
	}
	if what == "" {
		return func() {}
	}
	done := false
	return m.server.OnCall(func(c simapi.Call) {
		if c.Replica != fmt.Sprint("r", i) || c.Verb != verb || c.Phase != phase || done {
			return
		}
		done = true
		switch what {
		case "delete CIDR", "twice":
			if victim != "" {
				err := m.server.Client("admin").ServiceCIDRs().Delete(context.Background(), victim, metav1.DeleteOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			}
			if what == "twice" { // gone before the caller has its answer
				m.sleep(grace + time.Second)
				m.controller()
			}
		case "controller":
			m.controller()
		case "wait and controller":
			m.sleep(grace + time.Second)
			m.controller()
		case "deliver":
			m.server.Deliver(c.Replica, -1)
			synctest.Wait()
		case "slow":
			m.sleep(7 * time.Second)
		}
	})
}

func (m *machine) fault(t *rapid.T, i int) {
	name := fmt.Sprint("r", i)
	switch rapid.IntRange(0, 11).Draw(t, "fault") {
	case 0:
		m.server.Fail(simapi.Fault{Replica: name, Verb: "create", Err: simapi.Forbidden("no")})
	case 1:
		m.server.Fail(simapi.Fault{Replica: name, Verb: "create", When: simapi.After, Err: simapi.ConnectionCut()})
	case 2:
		m.server.Fail(simapi.Fault{Replica: name, Verb: "create", When: simapi.After, Err: simapi.ConnectionCut()})
		m.server.Fail(simapi.Fault{Replica: name, Verb: "get", Err: simapi.ConnectionCut()})
	case 3:
		m.server.Fail(simapi.Fault{Replica: name, Verb: "get", Resource: "servicecidrs", Err: simapi.Unavailable()})
	case 4:
		m.server.Fail(simapi.Fault{Replica: name, Verb: "delete", Err: simapi.ConnectionReset()})
	}
}

func (m *machine) allocate(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "replica")
	r := m.replicas[i]
	request := Request{Owner: Owner{Group: "example.com", Resource: "widgets", Name: fmt.Sprint("w", rapid.IntRange(0, 3).Draw(t, "owner"))}}
	request.Families = rapid.SampledFrom([][]cidr.Family{v4, v4, v6, dual}).Draw(t, "families")
	if rapid.IntRange(0, 3).Draw(t, "static") == 0 {
		request.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(0, 40).Draw(t, "address"))})}
		request.Families = v4
	}
	m.fault(t, i)
	disarm := m.interrupt(t, i)
	m.noteReady()
	begin := time.Now()
	status := r.Status()
	taken := map[cidr.Family]allocator.Taken{cidr.IPv4: r.pool.Taken(cidr.IPv4), cidr.IPv6: r.pool.Taken(cidr.IPv6)}
	sequence := r.View().Snapshot().Sequence()
	got, err := r.Allocate(quiet(), request)
	disarm()
	m.server.ClearFaults()
	undisturbed := r.View().Snapshot().Sequence() == sequence
	if err != nil {
		if undisturbed {
			m.checkFull(t, err, status, taken)
		}
		return
	}
	if len(got) != len(request.Families) {
		t.Fatalf("%d allocations for %v", len(got), request.Families)
	}
	for _, a := range got {
		if old, ok := m.held[a.Address]; ok { // I1
			t.Fatalf("I1: %s is confirmed to %s and to %s", a.Address, old.owner, request.Owner)
		}
		m.held[a.Address] = holding{a.UID, request.Owner}
		m.checkReady(t, a, begin)
		if undisturbed && len(request.Addresses) == 0 && a.Range.Band(a.Address) == cidr.BandStatic { // I4
			m.checkNoneFree(t, "I4: "+a.Address.String()+" is in a static band", status, taken, a.Range.Family(), cidr.Range.Dynamic)
		}
	}
}

// checkReady is I2: usable in a CIDR that was ready at some moment of the call,
// or a lease before.
func (m *machine) checkReady(t *rapid.T, a Allocation, begin time.Time) {
	for r, last := range m.readyAt {
		if r.Contains(a.Address) && !last.Before(begin.Add(-DefaultLease)) {
			return
		}
	}
	t.Fatalf("I2: %s was usable in no CIDR that was ready", a.Address)
}

// checkFull is I3, against what the replica believed before the call.
func (m *machine) checkFull(t *rapid.T, err error, before Status, taken map[cidr.Family]allocator.Taken) {
	if !errors.Is(err, ErrFull) {
		return
	}
	var described *Error
	if !errors.As(err, &described) {
		t.Fatalf("I3: %v is no *Error", err)
	}
	m.checkNoneFree(t, "I3: full", before, taken, described.Family, cidr.Range.Usable)
}

// checkNoneFree fails if an address in that part of a maximal CIDR was free in
// the view and is not taken in truth either: a call that met an address which
// somebody else had taken may leave it out.
func (m *machine) checkNoneFree(t *rapid.T, what string, before Status, taken map[cidr.Family]allocator.Taken, f cidr.Family, part func(cidr.Range) cidr.Span) {
	truth := cidr.NewAddrSet(f)
	for _, o := range m.server.TrueIPAddresses() {
		truth.Add(netip.MustParseAddr(o.Name))
	}
	for _, s := range before.CIDRs {
		if !s.Maximal || s.Prefix.Family() != f || !slices.ContainsFunc(m.rows(), func(c *informer.ServiceCIDR) bool {
			return c.Name == s.ServiceCIDR && c.WhyNot(true) == ""
		}) {
			continue
		}
		span := part(s.Prefix)
		for k := range span.Size().Lo {
			if addr := span.At(cidr.U128(k)); !taken[f].Has(addr) && !truth.Has(addr) {
				t.Fatalf("%s, although %s of %s was free", what, addr, s.Prefix)
			}
		}
	}
}

func (m *machine) release(t *rapid.T) {
	var all []netip.Addr
	for a := range m.held {
		all = append(all, a)
	}
	if len(all) == 0 {
		t.Skip("nothing held")
	}
	slices.SortFunc(all, netip.Addr.Compare)
	addr := all[rapid.IntRange(0, len(all)-1).Draw(t, "address")]
	who := m.held[addr].owner
	stranger := rapid.IntRange(0, 4).Draw(t, "stranger") == 0
	if stranger {
		who.Name = "stranger"
	}
	if err := m.replicas[rapid.IntRange(0, 1).Draw(t, "replica")].Release(quiet(), who, addr); err != nil {
		t.Fatal(err)
	}
	if !stranger {
		delete(m.held, addr)
	}
}

func (m *machine) check(t *rapid.T) {
	objs := map[netip.Addr]types.UID{}
	for _, o := range m.server.TrueIPAddresses() {
		objs[netip.MustParseAddr(o.Name)] = o.UID
	}
	rows := m.rows()
	for addr, h := range m.held {
		if objs[addr] != h.uid {
			t.Fatalf("I8: %s, confirmed to %s as %s, is %q now", addr, h.owner, h.uid, objs[addr])
		}
		if !slices.ContainsFunc(rows, func(c *informer.ServiceCIDR) bool { return c.CoversUsable(addr) }) {
			t.Fatalf("I7: %s, confirmed to %s, has no ServiceCIDR", addr, h.owner)
		}
	}
	for _, r := range m.replicas {
		checkChooser(t, r)
		snapshot := r.View().Snapshot()
		for _, s := range r.Status().CIDRs {
			for _, b := range []struct {
				BandStatus
				span cidr.Span
			}{{s.Static, s.Prefix.Static()}, {s.Dynamic, s.Prefix.Dynamic()}} {
				if b.Free.Add(b.Taken) != b.Size || b.Size != b.span.Size() {
					t.Fatalf("I10: %s: %+v", s.Prefix, b.BandStatus)
				}
				shown := uint64(0)
				for row := range snapshot.IPAddresses() {
					if b.span.Contains(row.Addr) {
						shown++
					}
				}
				if b.Taken.Lo < shown {
					t.Fatalf("I10: %s: %d rows, %s taken", s.Prefix, shown, b.Taken)
				}
			}
		}
	}
}

// checkChooser compares the weights that CIDRs are drawn by with a recount.
func checkChooser(t *rapid.T, r *replica) {
	topology := r.View().Snapshot().Topology()
	for i, f := range dual {
		b := r.chooser.ballots[i]
		maximal := topology.Maximal(f)
		if len(maximal) != len(b.allocators) {
			t.Fatalf("I5: %d CIDRs to draw among, %d maximal ones", len(b.allocators), len(maximal))
		}
		for slot, a := range b.allocators {
			if a.Range() != maximal[slot].Range {
				t.Fatalf("I5: %s to draw, %s is maximal", a.Range(), maximal[slot].Range)
			}
			// Free first: it ends the holds whose time is over, which the weights follow.
			if want, got := a.Free(cidr.BandDynamic), b.trees[allocator.DynamicAny].Get(slot).Weight; got != want {
				t.Fatalf("I5: %s weighs %s, %s are free", a.Range(), got, want)
			}
			if want, got := a.Free(cidr.BandStatic), b.trees[allocator.StaticAny].Get(slot).Weight; got != want {
				t.Fatalf("I5: %s weighs %s, %s static ones are free", a.Range(), got, want)
			}
		}
	}
}

// settle is I9: when all is delivered and the background work is done, nothing
// is left but what is held, and what a replica that was restarted had no time
// to remove.
func (m *machine) settle(t *rapid.T) {
	for i := range m.replicas {
		m.server.Release(fmt.Sprint("r", i))
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	m.check(t)
	for _, o := range m.server.TrueIPAddresses() {
		if _, ok := m.held[netip.MustParseAddr(o.Name)]; !ok && !m.crashed {
			t.Fatalf("I9: %s of %s was left behind", o.Name, informer.OwnerOf(o.Spec.ParentRef))
		}
	}
}
