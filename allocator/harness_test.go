// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const replica = "r"

var owner = informer.ServiceOwner("default", "mine")

// fixture is one replica's pool over a simulated API server.
type fixture struct {
	t      failer
	server *simapi.Server
	view   *informer.View
	pool   *Pool
	clock  *clocktesting.FakeClock
	mu     sync.Mutex // guards told
	told   []Stray
	stop   func()
}

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// FreeChanged and Stray make the fixture an Observer.
func (f *fixture) FreeChanged(*Allocator, Phase, cidr.Uint128) {}

func (f *fixture) Stray(s Stray) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, s)
}

// strays are what the pool has told of, each once: it may tell twice.
func (f *fixture) strays() []Stray {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []Stray
	for _, s := range f.told {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// bubble runs a test in a bubble of its own, where synctest.Wait lets every
// informer finish.
func bubble(t *testing.T, run func(*testing.T)) {
	t.Helper()
	synctest.Test(t, run)
}

// inBubble is what rapid.Check gets in a bubble, where a test has no deadline.
type inBubble struct{ rapid.TB }

// newFixture starts a replica in the current bubble; call stop at the end.
func newFixture(t failer, change func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, server: simapi.New(), clock: clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))}
	client := f.server.Client(replica)
	var err error
	if f.view, err = informer.NewView(informer.Config{Client: client}); err != nil {
		t.Fatal(err)
	}
	config := Config{View: f.view, Client: client, Random: rand.NewPCG(1, 2), Clock: f.clock, Observer: f}
	if change != nil {
		change(&config)
	}
	if f.pool, err = NewPool(config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f.view.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	f.stop = func() { f.pool.Close(); cancel(); <-done; f.server.Close() }
	synctest.Wait()
	if !f.view.HasSynced() {
		t.Fatal("not synced")
	}
	return f
}

func (f *fixture) track(cidrs ...string) []*Allocator {
	rs := make([]cidr.Range, len(cidrs))
	for i, s := range cidrs {
		rs[i] = cidr.MustParse(s)
	}
	return f.pool.Track(rs)
}

// foreign creates an IPAddress as somebody else.
func (f *fixture) foreign(addr string) *networkingv1.IPAddress {
	f.t.Helper()
	obj, err := f.server.Client("somebody").IPAddresses().Create(context.Background(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr},
		Spec:       networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("default", "theirs").Reference()},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return obj
}

func (f *fixture) foreignDelete(addr string) {
	f.t.Helper()
	if err := f.server.Client("somebody").IPAddresses().Delete(context.Background(), addr, metav1.DeleteOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// calls counts this replica's calls of a verb for IPAddresses since reset.
func (f *fixture) calls(verb string) int {
	return f.server.Calls(replica)[simapi.Op{Verb: verb, Resource: "ipaddresses"}]
}

func (f *fixture) trueNames() []string {
	var out []string
	for _, o := range f.server.TrueIPAddresses() {
		out = append(out, o.Name)
	}
	return out
}

// checkInvariants compares the pool's sets and counts with what they follow
// from. (I10, S47)
func (f *fixture) checkInvariants() {
	f.t.Helper()
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	for _, s := range f.pool.spaces {
		want := s.present.Clone()
		for key := range s.holds {
			want.Add(cidr.FromUint128(s.family, key))
		}
		for key := range s.until {
			addr := cidr.FromUint128(s.family, key)
			if !want.Add(addr) || !s.resting.Has(addr) {
				f.t.Fatalf("%s rests: taken, or not in the set", addr)
			}
		}
		if s.resting.Len() != uint64(len(s.until)) {
			f.t.Fatalf("%d rest, %d have a deadline", s.resting.Len(), len(s.until))
		}
		equalSets(f.t, "busy is not taken or resting", s.busy, want)
		for key, h := range s.holds {
			for ; h != nil; h = h.next {
				if h.state == ended || h.state == inFlight || h.key != key {
					f.t.Fatalf("hold of %v: state %d, key %v", key, h.state, h.key)
				}
			}
		}
	}
	for _, a := range f.pool.tracked.All() {
		for phase := range NumPhases {
			if got, want := a.free[phase], a.freeIn(phase); got != want {
				f.t.Fatalf("%s, phase %s: count %s, recount %s", a.rng, phase, got, want)
			}
		}
	}
}

func equalSets(t failer, what string, got, want *cidr.AddrSet) {
	t.Helper()
	if got.Len() == want.Len() {
		same := true
		for a := range want.All() {
			same = same && got.Has(a)
		}
		if same {
			return
		}
	}
	var g, w []netip.Addr
	for a := range got.All() {
		g = append(g, a)
	}
	for a := range want.All() {
		w = append(w, a)
	}
	t.Fatalf("%s:\n got %v\nwant %v", what, g, w)
}
