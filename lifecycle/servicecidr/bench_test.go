// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// bigCluster is a client whose lists are there at once: 10.0.0.0/8 is "whole"
// and deleted, and within it lie ServiceCIDRs of a /22 each, of which "leaf" is
// deleted too. The addresses are spread over the others.
type bigCluster struct {
	cidrs     networkingv1.ServiceCIDRList
	addresses networkingv1.IPAddressList
	pages     [][]byte  // of addresses, as a server sends them
	lastPage  time.Time // when the last of them was there
}

func newBigCluster(addresses, cidrs int) *bigCluster {
	c := &bigCluster{}
	c.cidrs.ResourceVersion = "1"
	add := func(name, prefix string, terminating bool) {
		obj := networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{informer.Finalizer}, ResourceVersion: "1"}}
		obj.Spec.CIDRs = []string{prefix}
		if terminating {
			obj.DeletionTimestamp = &metav1.Time{}
		}
		c.cidrs.Items = append(c.cidrs.Items, obj)
	}
	at := func(n int) netip.Addr { return cidr.FromUint128(cidr.IPv4, cidr.U128(uint64(10<<24+n))) }
	add("whole", "10.0.0.0/8", true)
	add("leaf", "10.250.0.0/22", true)
	for i := range cidrs - 2 {
		add(fmt.Sprintf("c%05d", i), netip.PrefixFrom(at(i<<10), 22).String(), false)
	}
	c.addresses.Items = make([]networkingv1.IPAddress, addresses)
	for i := range c.addresses.Items {
		n := i % (cidrs - 2)
		c.addresses.Items[i] = networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{
				Name: at(n<<10 + i/(cidrs-2) + 1).String(), ResourceVersion: "1",
				Labels: map[string]string{informer.LabelManagedBy: informer.CoreManager},
			},
			Spec: networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("default", fmt.Sprint("s", i)).Reference()},
		}
	}
	for items := range slices.Chunk(c.addresses.Items, DefaultPageSize) {
		page, err := (&networkingv1.IPAddressList{Items: items}).Marshal()
		if err != nil {
			panic(err)
		}
		c.pages = append(c.pages, page)
	}
	return c
}

func (c *bigCluster) ServiceCIDRs() networkingv1client.ServiceCIDRInterface { return bigCIDRs{c: c} }
func (c *bigCluster) IPAddresses() networkingv1client.IPAddressInterface    { return bigAddresses{c: c} }

type bigCIDRs struct {
	networkingv1client.ServiceCIDRInterface
	c *bigCluster
}

func (b bigCIDRs) List(context.Context, metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	return &b.c.cidrs, nil
}

type bigAddresses struct {
	networkingv1client.IPAddressInterface
	c *bigCluster
}

// List decodes a page, as a client does; the continue token is its number.
func (b bigAddresses) List(_ context.Context, o metav1.ListOptions) (*networkingv1.IPAddressList, error) {
	n := 0
	if o.Continue != "" {
		if _, err := fmt.Sscan(o.Continue, &n); err != nil {
			return nil, err
		}
	}
	l := &networkingv1.IPAddressList{}
	if err := l.Unmarshal(b.c.pages[n]); err != nil {
		return nil, err
	}
	l.ResourceVersion = "1"
	if n+1 < len(b.c.pages) {
		l.Continue = fmt.Sprint(n + 1)
	}
	b.c.lastPage = time.Now()
	return l, nil
}

// listOnly is an informer whose list is given and whose watch is silent.
type listOnly struct{ *cache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

func informerOf[L runtime.Object](b *testing.B, example runtime.Object, list L) cache.SharedIndexInformer {
	inf := cache.NewSharedIndexInformerWithOptions(listOnly{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list.DeepCopyObject(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}}, example, cache.SharedIndexInformerOptions{})
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan struct{})
	go func() { defer close(done); inf.RunWithContext(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	return inf
}

// BenchmarkDeletionCheck asks whether a deleted ServiceCIDR may go, with addresses
// and ServiceCIDRs in the cluster. The budget of the design is 1 ms beyond the
// list itself, with 1,000,000 and 10,000.
//
//	view/leaf   by the view, for one of the many
//	view/whole  by the view, for one that contains all the others
//	live/leaf   by consistent lists, whose cost here is that of decoding them.
//	            list-ns is the lists alone; beyond-us is what is left to do when
//	            the last page is there.
func BenchmarkDeletionCheck(b *testing.B) {
	for _, size := range []struct{ addresses, cidrs int }{{10_000, 100}, {100_000, 1000}, {1_000_000, 10_000}} {
		b.Run(fmt.Sprintf("%dx%d", size.addresses, size.cidrs), func(b *testing.B) {
			cluster := newBigCluster(size.addresses, size.cidrs)
			view, err := informer.NewView(informer.Config{
				ServiceCIDRs: informerOf(b, &networkingv1.ServiceCIDR{}, &cluster.cidrs),
				IPAddresses:  informerOf(b, &networkingv1.IPAddress{}, &cluster.addresses),
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(quiet())
			done := make(chan error)
			go func() { done <- view.Run(ctx) }()
			defer func() { cancel(); <-done }()
			<-view.Synced()
			for _, name := range []string{"leaf", "whole"} {
				b.Run("view/"+name, func(b *testing.B) {
					for b.Loop() {
						if r, err := Blockers(view.Snapshot(), name); err != nil || r.Blocked() {
							b.Fatal(r, err)
						}
					}
				})
			}
			b.Run("live/leaf", func(b *testing.B) {
				var beyond, list time.Duration
				for b.Loop() {
					b.StopTimer()
					begin := time.Now()
					if err := eachPage(cluster); err != nil {
						b.Fatal(err)
					}
					list += time.Since(begin)
					b.StartTimer()
					r, err := BlockersLive(quiet(), cluster, nil, "leaf")
					beyond += time.Since(cluster.lastPage)
					if err != nil || r.Blocked() {
						b.Fatal(r, err)
					}
				}
				b.ReportMetric(float64(beyond.Microseconds())/float64(b.N), "beyond-us")
				b.ReportMetric(float64(list.Nanoseconds())/float64(b.N), "list-ns")
			})
		})
	}
}

// eachPage lists all addresses the way the check does, and looks at none.
func eachPage(c *bigCluster) error {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.IPAddresses().List(ctx, o)
	})
	pages.PageSize = DefaultPageSize
	return pages.EachListItem(quiet(), metav1.ListOptions{}, func(runtime.Object) error { return nil })
}
