// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
	"github.com/metacidr/metacidr/weighting"
)

var (
	v4   = []cidr.Family{cidr.IPv4}
	v6   = []cidr.Family{cidr.IPv6}
	dual = []cidr.Family{cidr.IPv4, cidr.IPv6}
)

func addrs(s ...string) []netip.Addr {
	out := make([]netip.Addr, len(s))
	for i := range s {
		out[i] = netip.MustParseAddr(s[i])
	}
	return out
}

// S14, I5: a /24 and a /22, 10,000 draws: 1 : 4 by free addresses; the full and
// the not-ready one are never drawn. The chance that a right implementation
// fails is below 1e-6; the seed is fixed.
func TestS14_DrawnByFreeAddresses(t *testing.T) {
	withReplica(t, nil, func(s *simapi.Server) {
		having("10.0.0.0/24", "10.1.0.0/22", "10.2.0.0/30", "10.3.0.0/16")(s)
		s.SetReady("d", metav1.ConditionFalse)
		put(t, s, "10.2.0.1")
		put(t, s, "10.2.0.2")
	}, func(t *testing.T, r *replica) {
		const draws = 10_000
		counts := map[string]int{}
		for range draws {
			a, ok := r.chooser.draw(cidr.IPv4, allocator.DynamicRested, nil)
			if !ok {
				t.Fatal("nothing drawn")
			}
			counts[a.Range().String()]++
		}
		small, large := cidr.MustParse("10.0.0.0/24"), cidr.MustParse("10.1.0.0/22")
		p := small.DynamicSize().Float64() / (small.DynamicSize().Float64() + large.DynamicSize().Float64())
		got, want := float64(counts["10.0.0.0/24"]), draws*p
		if deviation := (got - want) * (got - want) / (draws * p * (1 - p)); deviation > 25 {
			t.Errorf("%v; want %.0f of the /24", counts, want)
		}
		if len(counts) != 2 {
			t.Errorf("drew a CIDR that is full or not ready: %v", counts)
		}
	})
}

// S15: a /20 with a nested /24: the union is the /20's, each address once.
func TestS15_UnionUnderOverlap(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24", "10.0.0.0/26"), func(t *testing.T, r *replica) {
		got, err := r.fill(cidr.IPv4)
		if !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		seen := map[netip.Addr]bool{}
		for _, a := range got {
			seen[a.Address] = true
		}
		if len(got) != 254 || len(seen) != 254 {
			t.Errorf("%d allocations of %d addresses, want 254", len(got), len(seen))
		}
		if s := r.row("b", "10.0.0.0/26"); s.Maximal || s.NestedIn != cidr.MustParse("10.0.0.0/24") || !s.Ready {
			t.Errorf("nested: %+v", s)
		}
	})
}

// S16: the nested CIDR's network and broadcast address can be asked for through
// the outer one, and only while that is ready.
func TestS16_StaticThroughTheOuterOne(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/16", "10.0.1.0/24"), func(t *testing.T, r *replica) {
		for _, a := range []string{"10.0.1.0", "10.0.1.255"} {
			r.must(r.at(a))
		}
		terminate(t, r.server, "a")
		synctest.Wait()
		if _, err := r.at("10.0.1.0"); !errors.Is(err, ErrNotReady) {
			t.Errorf("through a terminating CIDR: %v", err)
		}
		r.must(r.at("10.0.1.7"))
	})
}

// S20: A full: B is used. A's create is Forbidden: stop, B is not tried.
func TestS20_NextCIDRWhenFullNotWhenForbidden(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/29", "10.1.0.0/29"), func(t *testing.T, r *replica) {
		r.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", Err: simapi.Forbidden("quota")})
		r.server.ResetCalls()
		if _, err := r.next(cidr.IPv4); !apierrors.IsForbidden(err) || errors.Is(err, ErrFull) {
			t.Error(err)
		}
		if n := r.calls("create", "ipaddresses"); n != 1 {
			t.Errorf("%d creates", n)
		}
		got, err := r.fill(cidr.IPv4)
		if len(got) != 12 || !errors.Is(err, ErrFull) {
			t.Errorf("%d allocations, then %v", len(got), err)
		}
	})
}

// I4: no static band is touched while any maximal CIDR has dynamic room.
func TestI4_StaticBandsLastOverAllCIDRs(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24", "10.1.0.0/27", "10.2.0.0/28"), func(t *testing.T, r *replica) {
		dynamic := 238 + 14 + 14
		got, err := r.fill(cidr.IPv4)
		if len(got) != 254+30+14 || !errors.Is(err, ErrFull) {
			t.Fatalf("%d allocations, then %v", len(got), err)
		}
		for i, a := range got {
			if static := a.Range.Band(a.Address) == cidr.BandStatic; static != (i >= dynamic) {
				t.Fatalf("allocation %d is %s of %s", i, a.Address, a.Range)
			}
		}
	})
}

// S19: Ready turns False: not picked from that event on. A CIDR added at run
// time: picked without a restart.
func TestS19_FollowsReadinessAtRunTime(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/28", "10.1.0.0/28"), func(t *testing.T, r *replica) {
		r.server.SetReady("a", metav1.ConditionFalse)
		synctest.Wait()
		got, err := r.fill(cidr.IPv4)
		if len(got) != 14 || !errors.Is(err, ErrFull) {
			t.Fatalf("%d, %v", len(got), err)
		}
		for _, a := range got {
			if a.Range.String() != "10.1.0.0/28" {
				t.Errorf("%s is of %s", a.Address, a.Range)
			}
		}
		add(r.server, "c", "10.2.0.0/28")
		synctest.Wait()
		if a := r.must(r.next(cidr.IPv4)); a.Range.String() != "10.2.0.0/28" {
			t.Errorf("%s", a.Range)
		}
		r.server.SetReady("a", metav1.ConditionTrue)
		synctest.Wait()
		if got, _ := r.fill(cidr.IPv4); len(got) != 14+13 {
			t.Errorf("%d more", len(got))
		}
	})
}

// S13: two ServiceCIDRs on one prefix, both terminating: nothing is allocated.
// The ready one of two deleted while the other is not ready: off at once.
func TestS13_TwinsTerminating(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24", "10.0.0.0/24"), func(t *testing.T, r *replica) {
		terminate(t, r.server, "a")
		synctest.Wait()
		r.must(r.next(cidr.IPv4)) // the other one is ready
		terminate(t, r.server, "b")
		synctest.Wait()
		r.server.ResetCalls()
		if _, err := r.next(cidr.IPv4); !errors.Is(err, ErrNotReady) || errors.Is(err, ErrFull) {
			t.Error(err)
		}
		if n := r.server.Calls("r").Total(); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
	withReplica(t, nil, having("10.0.0.0/24", "10.0.0.0/24"), func(t *testing.T, r *replica) {
		r.server.SetReady("b", metav1.ConditionFalse)
		terminate(t, r.server, "a")
		synctest.Wait()
		if _, err := r.next(cidr.IPv4); !errors.Is(err, ErrNotReady) {
			t.Error(err)
		}
	})
}

// S5: dual-stack from a /18 and several IPv6 sizes.
func TestS5_DualStack(t *testing.T) {
	for _, six := range []string{"2001:db8::/64", "2001:db8::/108", "2001:db8::/116", "2001:db8::/48", "2001:db8::/125"} {
		t.Run(six, func(t *testing.T) {
			withReplica(t, nil, func(s *simapi.Server) { add(s, "both", "10.0.0.0/18", six) }, func(t *testing.T, r *replica) {
				got, err := r.Allocate(t.Context(), Request{Owner: service, Families: []cidr.Family{cidr.IPv6, cidr.IPv4}})
				if err != nil || len(got) != 2 || !got[0].Address.Is6() || !got[1].Address.Is4() {
					t.Fatal(got, err)
				}
				if err := r.Release(t.Context(), service, got[0].Address, got[1].Address); err != nil {
					t.Fatal(err)
				}
				if left := stored(r.server); len(left) > 0 {
					t.Errorf("left %v", left)
				}
			})
		})
	}
}

// S5: if the second family fails, the first is given back, and the error names
// the family. If giving back fails as well, it is done in the background.
func TestS5_DualStackIsAllOrNothing(t *testing.T) {
	for _, undoFails := range []bool{false, true} {
		for name, fault := range map[string]error{"full": nil, "Forbidden": simapi.Forbidden("no")} {
			t.Run(fmt.Sprintf("%s undo fails=%v", name, undoFails), func(t *testing.T) {
				withReplica(t, nil, func(s *simapi.Server) {
					add(s, "both", "10.0.0.0/24", "2001:db8::/127")
					if fault == nil {
						put(t, s, "2001:db8::1")
					}
				}, func(t *testing.T, r *replica) {
					if fault != nil {
						r.server.OnCall(func(c simapi.Call) {
							if c.Verb == "create" && c.Phase == simapi.After && !strings.Contains(c.Name, ":") {
								r.server.Fail(simapi.Fault{Verb: "create", Name: "2001:db8::1", Err: fault})
							}
						})
					}
					if undoFails {
						r.server.Fail(simapi.Fault{Verb: "delete", Times: 3, Err: simapi.ConnectionReset()})
					}
					_, err := r.Allocate(quiet(), Request{Owner: service, Families: dual})
					var described *Error
					if !errors.As(err, &described) || described.Family != cidr.IPv6 || !strings.Contains(err.Error(), "IPv6") {
						t.Errorf("error %v", err)
					}
					if fault == nil && !errors.Is(err, ErrFull) || fault != nil && !apierrors.IsForbidden(err) {
						t.Errorf("error %v", err)
					}
					time.Sleep(time.Minute) // of the bubble: the background work
					synctest.Wait()
					delete(stored(r.server), "2001:db8::1")
					for addr := range stored(r.server) {
						if addr != "2001:db8::1" {
							t.Errorf("left %s", addr)
						}
					}
				})
			})
		}
	}
}

// The kinds of errors, each with the CIDRs considered and why not.
func TestErrorKinds(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/30", "10.0.0.0/31", "10.9.0.0/24", "10.8.0.0/24"), func(t *testing.T, r *replica) {
		r.server.SetReady("c", metav1.ConditionFalse)
		terminate(t, r.server, "d")
		synctest.Wait()
		r.must(r.at("10.0.0.1"))
		for name, c := range map[string]struct {
			request Request
			kind    error
			text    []string
		}{
			"no ServiceCIDR of the family":    {Request{Owner: widget, Families: v6}, ErrNoServiceCIDR, []string{"IPv6"}},
			"not in range":                    {Request{Owner: widget, Addresses: addrs("10.7.0.1")}, ErrNotInRange, []string{"10.7.0.1", "10.0.0.0/30", "(a)"}},
			"network address":                 {Request{Owner: widget, Addresses: addrs("10.0.0.0")}, ErrNotInRange, []string{"10.0.0.0"}},
			"in a CIDR that is not ready":     {Request{Owner: widget, Addresses: addrs("10.9.0.7")}, ErrNotReady, []string{"10.9.0.0/24", "Ready is False"}},
			"in a CIDR that is terminating":   {Request{Owner: widget, Addresses: addrs("10.8.0.7")}, ErrNotReady, []string{"10.8.0.0/24", "terminating"}},
			"already allocated":               {Request{Owner: service, Addresses: addrs("10.0.0.1")}, ErrAllocated, []string{"10.0.0.1", widget.String()}},
			"dual-stack without the second":   {Request{Owner: widget, Families: dual}, ErrNoServiceCIDR, []string{"IPv6"}},
			"second address is in no CIDR":    {Request{Owner: widget, Families: dual, Addresses: addrs("2001:db8::1")}, ErrNoServiceCIDR, []string{"2001:db8::1"}},
			"dry run: already allocated":      {Request{Owner: service, Addresses: addrs("10.0.0.1"), DryRun: true}, ErrAllocated, []string{widget.String()}},
			"dry run: address not in a range": {Request{Owner: service, Addresses: addrs("10.7.0.1"), DryRun: true}, ErrNotInRange, nil},
		} {
			before := stored(r.server)
			r.server.ResetCalls()
			_, err := r.Allocate(quiet(), c.request)
			if n := r.server.Calls("r").Total(); n > 0 && c.kind != ErrAllocated {
				t.Errorf("%s: %d calls for what the topology refuses", name, n)
			}
			if !errors.Is(err, c.kind) {
				t.Errorf("%s: %v", name, err)
				continue
			}
			for _, part := range c.text {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q does not say %q", name, err, part)
				}
			}
			var described *Error
			if !errors.As(err, &described) {
				t.Errorf("%s: %T is no *Error", name, err)
			} else if c.kind != ErrAllocated && described.Family == cidr.IPv4 && len(described.Considered) != 3 {
				t.Errorf("%s: considered %v", name, described.Considered)
			}
			if len(stored(r.server)) != len(before) {
				t.Errorf("%s: something was left", name)
			}
		}
		r.must(r.next(cidr.IPv4))
		_, err := r.next(cidr.IPv4)
		var described *Error
		if !errors.Is(err, ErrFull) || !errors.As(err, &described) || len(described.Considered) != 3 {
			t.Errorf("full: %v", err)
		}
		var taken *AllocatedError
		if _, err := r.at("10.0.0.1"); !errors.As(err, &taken) || taken.Owner != widget {
			t.Errorf("already allocated: %v", err)
		}
	})
}

// What cannot be right on any cluster is refused before any API call.
func TestBadRequestsMakeNoCall(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
		r.server.ResetCalls()
		for name, request := range map[string]Request{
			"nothing":                       {},
			"no owner":                      {Families: v4},
			"owner without name":            {Owner: Owner{Resource: "services"}, Families: v4},
			"owner without resource":        {Owner: Owner{Name: "x"}, Families: v4},
			"neither family nor address":    {Owner: widget},
			"unknown family":                {Owner: widget, Families: []cidr.Family{5}},
			"family twice":                  {Owner: widget, Families: []cidr.Family{cidr.IPv4, cidr.IPv4}},
			"address of the wrong family":   {Owner: widget, Families: v4, Addresses: addrs("2001:db8::1")},
			"two addresses of one family":   {Owner: widget, Addresses: addrs("10.0.0.1", "10.0.0.2")},
			"address with a zone (S53)":     {Owner: widget, Addresses: addrs("fe80::1%eth0")},
			"IPv4-mapped address (S53)":     {Owner: widget, Addresses: addrs("::ffff:10.0.0.5")},
			"zero address":                  {Owner: widget, Addresses: []netip.Addr{{}}},
			"second one of two is nonsense": {Owner: widget, Families: dual, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), {}}},
		} {
			_, err := r.Allocate(quiet(), request)
			if !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := r.Release(quiet(), Owner{}, addrs("10.0.0.1")...); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("release without owner: %v", err)
		}
		if err := r.Release(quiet(), widget, netip.Addr{}); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("release of nothing: %v", err)
		}
		if n := r.server.Calls("r").Total(); n != 0 {
			t.Errorf("%d calls", n)
		}
	})
}

func TestNew_BadConfigIsRefused(t *testing.T) {
	client := simapi.New().Client("r")
	for name, config := range map[string]Config{
		"no client":            {},
		"unknown verification": {Client: client, Verification: 7},
		"negative lease":       {Client: client, Lease: -time.Second},
	} {
		if _, err := New(config); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewClassic(nil, ClassicConfig{Family: cidr.IPv4}); !errors.Is(err, ErrInvalidConfig) {
		t.Error(err)
	}
}

func TestNothingBeforeSync(t *testing.T) {
	for _, slow := range []string{"ipaddresses", "servicecidrs"} {
		t.Run(slow, func(t *testing.T) { testNothingBeforeSync(t, slow) })
	}
}

func testNothingBeforeSync(t *testing.T, slow string) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		having("10.0.0.0/24")(server)
		block := make(chan struct{})
		server.Fail(simapi.Fault{Resource: slow, Verb: "watch", Times: simapi.Forever, Block: block})
		server.Fail(simapi.Fault{Resource: slow, Verb: "list", Times: simapi.Forever, Block: block})
		m, err := New(Config{Client: server.Client("r")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quiet())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		synctest.Wait()
		if _, err := m.Allocate(ctx, Request{Owner: widget, Families: v4}); !errors.Is(err, ErrNotSynced) {
			t.Error(err)
		}
		if m.Status().Synced || len(server.TrueIPAddresses()) > 0 {
			t.Error("synced, or something was allocated")
		}
		short, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := m.WaitForSync(short); !errors.Is(err, ErrNotSynced) {
			t.Error(err)
		}
		close(block)
		if err := m.WaitForSync(ctx); err != nil {
			t.Error(err)
		}
		if _, err := m.Allocate(ctx, Request{Owner: widget, Families: v4}); err != nil {
			t.Error(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := m.Run(ctx); err == nil {
			t.Error("ran twice")
		}
	})
}

// S1 through the whole: an error of the API server arrives as it is.
func TestS1_ErrorsArriveAsTheyAre(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24", "10.1.0.0/24"), func(t *testing.T, r *replica) {
		for name, c := range map[string]struct {
			err error
			is  func(error) bool
		}{
			"Forbidden": {simapi.Forbidden("x"), apierrors.IsForbidden}, "Invalid": {simapi.Invalid("x"), apierrors.IsInvalid},
			"TooManyRequests": {simapi.TooManyRequests(1), apierrors.IsTooManyRequests}, "Timeout": {simapi.Timeout(), apierrors.IsTimeout},
		} {
			r.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", Err: c.err})
			r.server.ResetCalls()
			_, err := r.next(cidr.IPv4)
			if !c.is(err) || errors.Is(err, ErrFull) || errors.Is(err, ErrNotReady) {
				t.Errorf("%s: %v", name, err)
			}
			if n := r.calls("create", "ipaddresses"); n != 1 {
				t.Errorf("%s: %d creates", name, n)
			}
		}
	})
}

// S26: an IPAddress without our label is never handed out, and is reported.
func TestS26_UnmanagedAddressIsTakenAndReported(t *testing.T) {
	withReplica(t, nil, func(s *simapi.Server) {
		having("10.0.0.0/29")(s)
		put(t, s, "10.0.0.3")
	}, func(t *testing.T, r *replica) {
		got, err := r.fill(cidr.IPv4)
		if len(got) != 5 || !errors.Is(err, ErrFull) {
			t.Errorf("%d, %v", len(got), err)
		}
		if s := r.row("a", "10.0.0.0/29"); s.Unmanaged != cidr.U128(uint(1)) || s.Dynamic.Taken != cidr.U128(uint(6)) {
			t.Errorf("%+v", s)
		}
	})
}

// S29: a CIDR is deleted with addresses in use, the process restarts, the rest
// is exhausted: no held address is issued again.
func TestS29_RestartAfterDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		having("10.0.0.0/29", "10.1.0.0/29")(server)
		first := startReplica(t, server, "first", nil)
		held := map[netip.Addr]bool{}
		for range 8 {
			held[first.must(first.next(cidr.IPv4)).Address] = true
		}
		terminate(t, server, "a")
		first.stop()
		second := startReplica(t, server, "second", nil)
		defer second.stop()
		got, err := second.fill(cidr.IPv4)
		if !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		for _, a := range got {
			if held[a.Address] || a.Range.String() != "10.1.0.0/29" {
				t.Errorf("%s of %s was issued again", a.Address, a.Range)
			}
		}
		// A release works whatever the CIDR's state.
		for addr := range held {
			if err := second.Release(t.Context(), widget, addr); err != nil {
				t.Error(err)
			}
		}
	})
}

// S18: two overlapping ServiceCIDRs appear at the same instant, two replicas
// that each see one of them allocate: still unique, and the collisions are
// counted and bounded.
func TestS18_OverlapCreatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		one, two := startReplica(t, server, "one", nil), startReplica(t, server, "two", nil)
		defer one.stop()
		defer two.stop()
		synctest.Wait()
		server.Hold("one")
		server.Hold("two")
		having("10.0.0.0/27", "10.0.0.0/28")(server)
		server.DeliverResource("one", "servicecidrs", 3) // a, ready, with its finalizer
		server.DeliverResource("two", "servicecidrs", 6)
		synctest.Wait()
		seen := map[netip.Addr]bool{}
		server.ResetCalls()
		for range 15 {
			for _, r := range []*replica{one, two} {
				a := r.must(r.next(cidr.IPv4))
				if seen[a.Address] {
					t.Fatalf("%s twice", a.Address)
				}
				seen[a.Address] = true
			}
		}
		creates := one.calls("create", "ipaddresses") + two.calls("create", "ipaddresses")
		collisions := int(counter(t, one, "allocation_collisions_total") + counter(t, two, "allocation_collisions_total"))
		if creates != 30+collisions || collisions == 0 || collisions > 60 {
			t.Errorf("%d creates for 30 addresses, %d collisions counted", creates, collisions)
		}
	})
}

// Dry runs: 200 valid static ones are all accepted (upstream asks any CIDR's
// allocator and refuses some), they write nothing, and say what the call would.
func TestDryRunAnswersAsTheCall(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24", "10.1.0.0/24", "10.2.0.0/24"), func(t *testing.T, r *replica) {
		revision := r.server.Revision()
		for i := range 200 {
			addr := netip.AddrFrom4([4]byte{10, byte(i % 3), 0, byte(1 + i)})
			if _, err := r.Allocate(quiet(), Request{Owner: widget, Addresses: []netip.Addr{addr}, DryRun: true}); err != nil {
				t.Errorf("%s: %v", addr, err)
			}
		}
		got, err := r.Allocate(quiet(), Request{Owner: widget, Families: v4, DryRun: true})
		if err != nil || !got[0].Range.Contains(got[0].Address) || got[0].UID != "" {
			t.Error(got, err)
		}
		r.server.Fail(simapi.Fault{Verb: "create", Err: simapi.Forbidden("no")})
		if _, err := r.Allocate(quiet(), Request{Owner: widget, Families: v4, DryRun: true}); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		if r.server.Revision() != revision {
			t.Error("a dry run wrote")
		}
		if s := r.row("a", "10.0.0.0/24"); !s.Dynamic.Taken.IsZero() || !s.Static.Taken.IsZero() {
			t.Errorf("a dry run took addresses: %+v", s)
		}
	})
}

// Objects that no server of today would accept: skipped, reported, the others
// go on.
func TestBadStoredCIDRsAreSkippedAndReported(t *testing.T) {
	withReplica(t, nil, func(s *simapi.Server) {
		having("10.0.0.0/28")(s)
		for name, cidrs := range map[string][]string{"odd": {"nonsense", "10.5.0.77/24"}, "worse": {"10.6.0.0/32"}} {
			obj := s.CreateServiceCIDR(name, metav1.ConditionTrue, "192.168.0.0/24")
			obj.Spec.CIDRs = cidrs
			obj.Finalizers = []string{informer.Finalizer}
			s.PutRaw(obj)
		}
	}, func(t *testing.T, r *replica) {
		got, err := r.fill(cidr.IPv4)
		if len(got) != 14+254 || !errors.Is(err, ErrFull) {
			t.Errorf("%d, %v", len(got), err)
		}
		if s := r.row("odd", "10.5.0.0/24"); len(s.Problems) != 2 || !s.Ready {
			t.Errorf("%+v", s)
		}
		for _, s := range r.Status().CIDRs {
			if s.ServiceCIDR == "worse" && (s.Ready || s.Prefix.IsValid() || len(s.Problems) != 1 || s.WhyNot == "") {
				t.Errorf("%+v", s)
			}
		}
	})
}

// Without the finalizer a ServiceCIDR's deletion waits for nobody, so nothing
// is allocated from it unless that is allowed.
func TestFinalizerIsRequired(t *testing.T) {
	setUp := func(s *simapi.Server) { s.CreateServiceCIDR("a", metav1.ConditionTrue, "10.0.0.0/24") }
	withReplica(t, nil, setUp, func(t *testing.T, r *replica) {
		if _, err := r.next(cidr.IPv4); !errors.Is(err, ErrNotReady) || !strings.Contains(err.Error(), "finalizer") {
			t.Error(err)
		}
		r.server.AddFinalizer("a", informer.Finalizer)
		synctest.Wait()
		r.must(r.next(cidr.IPv4))
	})
	withReplica(t, func(c *Config) { c.AllowWithoutFinalizer = true }, setUp, func(t *testing.T, r *replica) {
		r.must(r.next(cidr.IPv4))
	})
}

// The strategies, end to end.
func TestStrategies(t *testing.T) {
	withReplica(t, func(c *Config) { c.Strategy = weighting.ByPriority() }, func(s *simapi.Server) {
		for name, priority := range map[string]string{"low": "-1", "high": "10", "default": ""} {
			prefix := map[string]string{"low": "10.0.0.0/29", "high": "10.1.0.0/29", "default": "10.2.0.0/29"}[name]
			obj := s.CreateServiceCIDR(name, metav1.ConditionTrue, prefix)
			obj.Finalizers = []string{informer.Finalizer}
			if priority != "" {
				obj.Annotations = map[string]string{informer.AnnotationPriority: priority}
			}
			s.PutRaw(obj)
		}
	}, func(t *testing.T, r *replica) {
		got, _ := r.fill(cidr.IPv4)
		for i, a := range got {
			if want := []string{"10.1.0.0/29", "10.2.0.0/29", "10.0.0.0/29"}[i/6]; a.Range.String() != want {
				t.Errorf("allocation %d is of %s, want %s", i, a.Range, want)
			}
		}
	})
	withReplica(t, func(c *Config) { c.Strategy = weighting.LeastUsed() }, having("10.0.0.0/28", "10.1.0.0/27"), func(t *testing.T, r *replica) {
		for i := range 14 { // 14 dynamic addresses in each: by turns
			a, b := r.row("a", "10.0.0.0/28").Dynamic.Taken.Lo, r.row("b", "10.1.0.0/27").Dynamic.Taken.Lo
			if max(a, b)-min(a, b) > 1 {
				t.Fatalf("after %d: %d and %d", i, a, b)
			}
			r.must(r.next(cidr.IPv4))
		}
	})
}

// A released address rests; it is picked early only if nothing else is free in
// the dynamic bands.
func TestReuseDelay(t *testing.T) {
	withReplica(t, func(c *Config) { c.ReuseDelay = 0 }, having("10.0.0.0/29"), func(t *testing.T, r *replica) {
		first := r.must(r.next(cidr.IPv4)).Address
		if err := r.Release(quiet(), widget, first); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []netip.Addr
		for range 5 {
			got = append(got, r.must(r.next(cidr.IPv4)).Address)
		}
		if slices.Contains(got, first) {
			t.Errorf("%s was picked again while others were free", first)
		}
		if last := r.must(r.next(cidr.IPv4)).Address; last != first {
			t.Errorf("picked %s, want the resting %s", last, first)
		}
		// After the delay it is like any other.
		for _, a := range append(got, first) {
			if err := r.Release(quiet(), widget, a); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(allocator.DefaultReuseDelay + time.Second)
		if got, err := r.fill(cidr.IPv4); len(got) != 6 || !errors.Is(err, ErrFull) {
			t.Errorf("%d, %v", len(got), err)
		}
	})
}
