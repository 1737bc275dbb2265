// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// machine is one replica whose watch is late, with faults and strangers, beside
// what must be true.
type machine struct {
	*fixture
	ranges []*Allocator
	mine   map[netip.Addr]types.UID // confirmed to the replica, not released
	theirs map[netip.Addr]bool
	maybe  map[netip.Addr]bool // left behind by a failed call
}

// I1, I3, I8, I9, I10, I11 for one replica under any order of events.
func TestPool_StateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			f := newFixture(t, func(c *Config) {
				if rapid.Bool().Draw(t, "no reuse delay") {
					c.ReuseDelay = -1
				}
			})
			defer f.stop()
			m := &machine{fixture: f, mine: map[netip.Addr]types.UID{}, theirs: map[netip.Addr]bool{}, maybe: map[netip.Addr]bool{}}
			m.ranges = f.track("10.0.0.0/28", "10.0.0.32/27", "2001:db8::/124")
			f.server.Hold(replica)
			t.Repeat(map[string]func(*rapid.T){
				"allocate next":       m.allocateNext,
				"allocate fixed":      m.allocateFixed,
				"release":             m.release,
				"somebody creates":    m.somebodyCreates,
				"somebody deletes":    m.somebodyDeletes,
				"deliver some events": func(t *rapid.T) { f.server.Deliver(replica, rapid.IntRange(1, 4).Draw(t, "n")); synctest.Wait() },
				"deliver all events":  func(*rapid.T) { f.server.Deliver(replica, f.server.Pending(replica)); synctest.Wait() },
				"time passes":         func(t *rapid.T) { f.clock.Step(time.Duration(rapid.IntRange(1, 90).Draw(t, "s")) * time.Second) },
				"relist": func(*rapid.T) {
					f.server.Compact()
					f.server.CutWatches(replica)
					time.Sleep(time.Minute)
					synctest.Wait()
				},
				"track other ranges": m.trackOthers,
				"":                   m.check,
			})
		})
	})
}

func (m *machine) fault(t *rapid.T) (armed string) {
	switch rapid.IntRange(0, 9).Draw(t, "fault") {
	case 0:
		m.server.Fail(simapi.Fault{Replica: replica, Verb: "create", Resource: "ipaddresses", Err: simapi.Forbidden("no")})
		return "refused"
	case 1:
		m.server.Fail(simapi.Fault{Replica: replica, Verb: "create", Resource: "ipaddresses", Err: simapi.ConnectionReset()})
		return "lost on the way"
	case 2:
		m.server.Fail(simapi.Fault{Replica: replica, Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
		return "answer lost"
	case 3:
		m.server.Fail(simapi.Fault{Replica: replica, Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
		m.server.Fail(simapi.Fault{Replica: replica, Verb: "get", Resource: "ipaddresses", Err: simapi.ConnectionCut()})
		return "answer lost, not read back"
	}
	return ""
}

func (m *machine) allocateNext(t *rapid.T) {
	a := m.ranges[rapid.IntRange(0, len(m.ranges)-1).Draw(t, "range")]
	fault := m.fault(t)
	free := a.Free(cidr.BandStatic).Add(a.Free(cidr.BandDynamic))
	m.server.ResetCalls()
	got, err := a.AllocateNext(context.Background(), owner)
	m.server.ClearFaults()
	calls := m.server.Calls(replica).Total()
	switch {
	case err == nil:
		m.confirmed(t, got)
	case errors.Is(err, ErrFull):
		if !free.IsZero() && calls == 0 {
			t.Fatalf("full, but %s were free", free)
		}
	case fault == "":
		t.Fatalf("no fault, but %v", err)
	}
	if collisions := m.calls("create") - 1; calls > 1+max(collisions, 0)+1 {
		t.Fatalf("%d calls after %d collisions", calls, collisions)
	}
	m.noteLeft()
}

func (m *machine) allocateFixed(t *rapid.T) {
	a := m.ranges[rapid.IntRange(0, len(m.ranges)-1).Draw(t, "range")]
	n, _ := a.rng.Size().Uint64()
	addr := a.rng.Usable().At(cidr.U128(rapid.Uint64Range(0, n-1).Draw(t, "offset")))
	fault := m.fault(t)
	_, held := m.mine[addr]
	exists := held || m.theirs[addr] || m.maybe[addr]
	got, err := a.Allocate(context.Background(), owner, addr)
	m.server.ClearFaults()
	switch {
	case err == nil && exists && !m.maybe[addr]:
		t.Fatalf("%s was allocated twice", addr)
	case err == nil:
		m.confirmed(t, got)
	case errors.Is(err, ErrAllocated) && !exists:
		t.Fatalf("%s is free, but %v", addr, err)
	case !errors.Is(err, ErrAllocated) && fault == "":
		t.Fatalf("no fault, but %v", err)
	}
	m.noteLeft()
}

func (m *machine) confirmed(t *rapid.T, got Allocation) {
	if _, ok := m.mine[got.Address]; ok || m.theirs[got.Address] {
		t.Fatalf("%s is confirmed twice", got.Address)
	}
	m.mine[got.Address] = got.UID
}

// noteLeft finds what a call that failed has left at the server.
func (m *machine) noteLeft() {
	m.maybe = map[netip.Addr]bool{}
	for _, o := range m.server.TrueIPAddresses() {
		addr := netip.MustParseAddr(o.Name)
		if uid, ok := m.mine[addr]; (!ok || uid != o.UID) && !m.theirs[addr] {
			m.maybe[addr] = true
		}
	}
}

func (m *machine) release(t *rapid.T) {
	if len(m.mine) == 0 {
		t.Skip("nothing to release")
	}
	addr := rapid.SampledFrom(keys(m.mine)).Draw(t, "address")
	stranger := rapid.Bool().Draw(t, "stranger")
	who := owner
	if stranger {
		who = informer.ServiceOwner("default", "stranger")
	}
	if err := m.pool.Release(context.Background(), who, addr); err != nil {
		t.Fatal(err)
	}
	if !stranger {
		delete(m.mine, addr)
	}
}

func (m *machine) somebodyCreates(t *rapid.T) {
	a := m.ranges[rapid.IntRange(0, len(m.ranges)-1).Draw(t, "range")]
	n, _ := a.rng.Size().Uint64()
	addr := a.rng.Usable().At(cidr.U128(rapid.Uint64Range(0, n-1).Draw(t, "offset")))
	if _, ok := m.mine[addr]; ok || m.theirs[addr] || m.maybe[addr] {
		t.Skip("taken")
	}
	m.foreign(addr.String())
	m.theirs[addr] = true
}

func (m *machine) somebodyDeletes(t *rapid.T) {
	if len(m.theirs) == 0 {
		t.Skip("nothing to delete")
	}
	addr := rapid.SampledFrom(keys(m.theirs)).Draw(t, "address")
	m.foreignDelete(addr.String())
	delete(m.theirs, addr)
}

func (m *machine) trackOthers(t *rapid.T) {
	sets := [][]string{{"10.0.0.0/28", "10.0.0.32/27", "2001:db8::/124"}, {"10.0.0.0/26", "2001:db8::/124"}, {"10.0.0.0/29", "2001:db8::/125"}}
	m.ranges = m.fixture.track(rapid.SampledFrom(sets).Draw(t, "ranges")...)
}

func (m *machine) check(t *rapid.T) {
	m.checkInvariants()
	// What was confirmed is there, and nothing else but theirs and strays.
	objs := map[netip.Addr]types.UID{}
	for _, o := range m.server.TrueIPAddresses() {
		objs[netip.MustParseAddr(o.Name)] = o.UID
	}
	for addr, uid := range m.mine {
		if objs[addr] != uid {
			t.Fatalf("%s, confirmed as %s, is %q at the server", addr, uid, objs[addr])
		}
	}
	// A stray is known as soon as the view shows it.
	for addr := range m.maybe {
		known := false
		for _, s := range m.strays() {
			known = known || s.UID == objs[addr]
		}
		if row := m.view.Snapshot().IPAddress(addr.String()); !known && row != nil && row.UID == objs[addr] {
			t.Fatalf("%s is a stray that nobody was told of; told of %v", addr, m.strays())
		}
	}
}

func keys[V any](m map[netip.Addr]V) []netip.Addr {
	var out []netip.Addr
	for r := range m {
		out = append(out, r)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// I1 with the race detector: workers of three replicas fill a range, release
// some, fill it again; every address has one owner, and none is lost.
func TestI1_ReplicasNeverShareAnAddress(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var pools []*Pool
	for i := range 3 {
		client := server.Client(fmt.Sprint("replica-", i))
		view, err := informer.NewView(informer.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := NewPool(Config{View: view, Client: client, ReuseDelay: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		running.Go(func() { _ = view.Run(ctx) })
		<-view.Synced()
		pools = append(pools, pool)
	}
	rng := cidr.MustParse("10.0.0.0/24")
	var mu sync.Mutex
	holders := map[netip.Addr]informer.Owner{}
	var workers sync.WaitGroup
	for w := range 24 {
		a := pools[w%3].Range(rng)
		workers.Go(func() {
			for i := range 40 {
				who := informer.ServiceOwner("default", fmt.Sprintf("w%d-%d", w, i))
				got, err := a.AllocateNext(t.Context(), who)
				if errors.Is(err, ErrFull) {
					continue
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				mu.Lock()
				if other, ok := holders[got.Address]; ok {
					t.Errorf("%s is %s's and %s's", got.Address, other, who)
				}
				holders[got.Address] = who
				mu.Unlock()
				if i%3 > 0 { // keep every third
					mu.Lock()
					delete(holders, got.Address)
					mu.Unlock()
					if err := a.Release(t.Context(), who, got.Address); err != nil {
						t.Errorf("%v", err)
					}
				}
			}
		})
	}
	workers.Wait()
	stored := server.TrueIPAddresses()
	if len(stored) != len(holders) {
		t.Errorf("%d stored, %d held", len(stored), len(holders))
	}
	for _, o := range stored {
		if got := holders[netip.MustParseAddr(o.Name)]; got != informer.OwnerOf(o.Spec.ParentRef) {
			t.Errorf("%s is stored for %v, held by %v", o.Name, informer.OwnerOf(o.Spec.ParentRef), got)
		}
	}
}
