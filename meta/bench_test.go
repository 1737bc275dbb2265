// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// benchReplica runs a replica over n ServiceCIDRs of /24, or over one /12.
func benchReplica(b *testing.B, n int, change func(*Config)) *replica {
	b.Helper()
	server := simapi.New()
	if n == 1 {
		add(server, "c", "10.0.0.0/12")
	} else {
		for i := range n {
			add(server, "c"+strconv.Itoa(i), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24).String())
		}
	}
	r := startReplica(b, server, "r", change)
	b.Cleanup(func() { r.stop(); server.Close() })
	return r
}

// BenchmarkChoose draws a CIDR, picks in it, reserves, and gives up. The budget
// of the design is 1 us, and 5 us among 10,000.
func BenchmarkChoose(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1_000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := benchReplica(b, n, nil)
			b.ReportAllocs()
			for b.Loop() {
				p := picker{m: r.MetaAllocator, family: cidr.IPv4}
				reservation, err := p.Pick()
				if err != nil {
					b.Fatal(err)
				}
				reservation.Cancel()
			}
		})
	}
}

// slowClient answers each create after a time; the other calls at once.
type slowClient struct {
	*simapi.Client
	latency time.Duration
}

func (c slowClient) IPAddresses() networkingv1client.IPAddressInterface {
	return slowIPAddresses{c.Client.IPAddresses(), c.latency}
}

type slowIPAddresses struct {
	networkingv1client.IPAddressInterface
	latency time.Duration
}

func (c slowIPAddresses) Create(ctx context.Context, obj *networkingv1.IPAddress, o metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	time.Sleep(c.latency)
	return c.IPAddressInterface.Create(ctx, obj, o)
}

// BenchmarkWorkers allocates with many workers and a slow API server. The budget
// of the design is 40,000 allocations a second with 64 workers at 1 ms.
func BenchmarkWorkers(b *testing.B) {
	for _, latency := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		for _, workers := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%v/%d", latency, workers), func(b *testing.B) {
				r := benchReplica(b, 1, func(c *Config) { c.Client = slowClient{c.Client.(*simapi.Client), latency} })
				var next atomic.Int64
				next.Store(int64(b.N))
				var wg sync.WaitGroup
				b.ResetTimer()
				for range workers {
					wg.Go(func() {
						for next.Add(-1) >= 0 {
							if _, err := r.next(cidr.IPv4); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "allocations/s")
			})
		}
	}
}

// BenchmarkStatus reports 3 CIDRs while many addresses are there.
func BenchmarkStatus(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			r := benchReplica(b, 1, nil)
			a, _ := r.chooser.draw(cidr.IPv4, allocator.DynamicRested, nil)
			for range n {
				if _, ok := a.Reserve(allocator.DynamicRested); !ok {
					b.Fatal("full")
				}
			}
			for b.Loop() {
				if got := r.Status().CIDRs[0].Dynamic.Taken.Lo; got != uint64(n) {
					b.Fatal(got)
				}
			}
		})
	}
}
