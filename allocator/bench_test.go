// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// benchPool is a pool over an empty, running view.
func benchPool(b *testing.B) *Pool {
	b.Helper()
	server := simapi.New()
	view, err := informer.NewView(informer.Config{Client: server.Client("r")})
	if err != nil {
		b.Fatal(err)
	}
	pool, err := NewPool(Config{View: view, Client: server.Client("r")})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	done := make(chan struct{})
	go func() { defer close(done); _ = view.Run(ctx) }()
	<-view.Synced()
	b.Cleanup(func() { pool.Close(); cancel(); <-done; server.Close() })
	return pool
}

// take fills a range: count addresses of its dynamic band at random, or all but
// one cluster of the rest.
func take(a *Allocator, count uint64, clustered bool) {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.space(a.rng.Family())
	span := a.rng.Dynamic()
	size := span.Size()
	random := rand.New(rand.NewPCG(1, 2))
	mark := func(k cidr.Uint128) { s.busy.Add(span.At(k)) }
	switch n, small := size.Uint64(); {
	case small && clustered:
		for k := range n {
			if k < count/2 || k >= count/2+(n-count) {
				mark(cidr.U128(k))
			}
		}
	case small && count > n/2: // draw the holes
		holes := map[uint64]bool{}
		for uint64(len(holes)) < n-count {
			holes[random.Uint64N(n)] = true
		}
		for k := range n {
			if !holes[k] {
				mark(cidr.U128(k))
			}
		}
	default:
		for s.busy.Len() < count {
			mark(cidr.RandBelow(random, size))
		}
	}
	a.recount()
}

// BenchmarkPick finds and reserves an address. The budget of the design is 1 us
// for the pick with the choice among CIDRs, at any filling.
func BenchmarkPick(b *testing.B) {
	const slash12 = 1048574 - 256 // dynamic addresses of a /12
	for _, c := range []struct {
		name      string
		prefix    string
		count     uint64
		clustered bool
	}{
		{"v4-12/0%", "10.0.0.0/12", 0, false},
		{"v4-12/50%", "10.0.0.0/12", slash12 / 2, false},
		{"v4-12/99%", "10.0.0.0/12", slash12 / 100 * 99, false},
		{"v4-12/99.99%", "10.0.0.0/12", slash12 - slash12/10000, false},
		{"v4-12/99%-one-hole", "10.0.0.0/12", slash12 / 100 * 99, true},
		{"v4-12/99.99%-one-hole", "10.0.0.0/12", slash12 - slash12/10000, true},
		{"v6-64/100000", "2001:db8::/64", 100_000, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			a := benchPool(b).Track([]cidr.Range{cidr.MustParse(c.prefix)})[0]
			take(a, c.count, c.clustered)
			const group = 64 // timed as one, for the clock takes as long as a tenth of a pick
			var reserved [group]Reservation
			var times []time.Duration
			b.ReportAllocs()
			for b.Loop() {
				begin := time.Now()
				for i := range reserved {
					r, ok := a.Reserve(DynamicRested)
					if !ok {
						b.Fatal("nothing free")
					}
					reserved[i] = r
				}
				times = append(times, time.Since(begin))
				for _, r := range reserved {
					r.Cancel()
				}
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2])/group, "ns/pick-median")
			b.ReportMetric(float64(times[len(times)*99/100])/group, "ns/pick-p99")
			b.ReportMetric(0, "ns/op") // of a group with its cancels: says nothing
		})
	}
}

// BenchmarkFree counts the free addresses of a band: no list, whatever is there.
func BenchmarkFree(b *testing.B) {
	for _, n := range []uint64{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := benchPool(b).Range(cidr.MustParse("10.0.0.0/12"))
			take(a, n, false)
			b.ReportAllocs()
			for b.Loop() {
				if a.Free(cidr.BandDynamic).IsZero() {
					b.Fatal("nothing free")
				}
			}
		})
	}
}
