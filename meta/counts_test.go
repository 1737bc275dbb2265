// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// S47, I10: whoever allocates, creates or deletes, the counts of every CIDR,
// nested or not, ready or not, equal a recount of the server's objects.
func TestS47_CountsEqualARecount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			server := simapi.New()
			defer server.Close()
			having("10.0.0.0/24", "10.0.0.64/27", "10.1.0.0/29", "2001:db8::/64", "2001:db8::/124")(server)
			r := startReplica(t, server, "r", nil)
			defer r.stop()
			t.Repeat(map[string]func(*rapid.T){
				"allocate": func(t *rapid.T) {
					_, err := r.next(rapid.SampledFrom(dual).Draw(t, "family"))
					if err != nil && !errors.Is(err, ErrFull) && !errors.Is(err, ErrNotReady) {
						t.Fatal(err)
					}
				},
				"somebody creates": func(t *rapid.T) {
					addr := rapid.SampledFrom([]string{"10.0.0.%d", "10.1.0.%d", "2001:db8::%d"}).Draw(t, "near")
					addr = fmt.Sprintf(addr, rapid.IntRange(0, 9).Draw(t, "host"))
					if _, ok := stored(server)[netip.MustParseAddr(addr).String()]; !ok {
						put(t, server, netip.MustParseAddr(addr).String())
					}
				},
				"somebody deletes": func(t *rapid.T) {
					objs := server.TrueIPAddresses()
					if len(objs) == 0 {
						t.Skip("nothing to delete")
					}
					name := objs[rapid.IntRange(0, len(objs)-1).Draw(t, "object")].Name
					if err := server.Client("somebody").IPAddresses().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				},
				"turn readiness": func(t *rapid.T) {
					server.SetReady(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "ServiceCIDR"),
						rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse}).Draw(t, "ready"))
				},
				"": func(t *rapid.T) {
					synctest.Wait()
					checkChooser(t, r)
					for _, s := range r.Status().CIDRs {
						for _, b := range []struct {
							BandStatus
							span cidr.Span
						}{{s.Static, s.Prefix.Static()}, {s.Dynamic, s.Prefix.Dynamic()}} {
							n := uint64(0)
							for _, o := range server.TrueIPAddresses() {
								if b.span.Contains(netip.MustParseAddr(o.Name)) {
									n++
								}
							}
							if b.Taken != cidr.U128(n) || b.Free.Add(b.Taken) != b.span.Size() || b.Size != b.span.Size() {
								t.Fatalf("%s: %+v, recount %d of %s", s.Prefix, b.BandStatus, n, b.span.Size())
							}
						}
					}
				},
			})
		})
	})
}

// I1 with the race detector, in real time: two replicas, many workers, CIDRs
// that come and go.
func TestI1_WorkersWhileCIDRsComeAndGo(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	having("10.0.0.0/25", "10.0.0.0/26", "10.1.0.0/26")(server)
	replicas := []*replica{
		startReplica(t, server, "one", func(c *Config) { c.Random = nil }),
		startReplica(t, server, "two", func(c *Config) { c.Random, c.Verification = nil, VerifyAlways }),
	}
	for _, r := range replicas {
		defer r.stop()
	}
	var mu sync.Mutex
	holders := map[netip.Addr]Owner{}
	var wg sync.WaitGroup
	for w := range 16 {
		r := replicas[w%2]
		wg.Go(func() {
			for i := range 40 {
				who := widget
				who.Name = fmt.Sprintf("w%d-%d", w, i)
				got, err := r.Allocate(quiet(), Request{Owner: who, Families: v4})
				if errors.Is(err, ErrFull) || errors.Is(err, ErrNotReady) {
					continue
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				addr := got[0].Address
				mu.Lock()
				if other, ok := holders[addr]; ok {
					t.Errorf("%s is %s's and %s's", addr, other, who)
				}
				holders[addr] = who
				if i%4 == 0 { // keep every fourth
					mu.Unlock()
					continue
				}
				delete(holders, addr)
				mu.Unlock()
				if err := r.Release(quiet(), who, addr); err != nil {
					t.Errorf("%v", err)
				}
				_ = r.Status()
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			name := fmt.Sprint("n", i)
			add(server, name, fmt.Sprintf("10.2.%d.0/28", i))
			terminate(t, server, name)
			if i%2 == 0 {
				server.SetReady("c", metav1.ConditionFalse)
			} else {
				server.SetReady("c", metav1.ConditionTrue)
			}
		}
	})
	wg.Wait()
	for name, who := range stored(server) {
		if holders[netip.MustParseAddr(name)] != who {
			t.Errorf("%s is stored for %s, held by %s", name, who, holders[netip.MustParseAddr(name)])
		}
	}
	if len(stored(server)) != len(holders) {
		t.Errorf("%d stored, %d held", len(stored(server)), len(holders))
	}
}
