// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	krt "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// benchAddresses are IPAddresses as kube-apiserver stores them for Services.
func benchAddresses(n int) []networkingv1.IPAddress {
	items := make([]networkingv1.IPAddress, n)
	for i := range items {
		addr := netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		items[i] = networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{
				Name: addr.String(), UID: types.UID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", i)), ResourceVersion: strconv.Itoa(i + 1),
				CreationTimestamp: metav1.Now(),
				Labels:            map[string]string{LabelManagedBy: CoreManager, LabelIPFamily: "IPv4"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kube-apiserver", Operation: "Update", APIVersion: "networking.k8s.io/v1", FieldsType: "FieldsV1",
					FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`)}},
			},
			Spec: networkingv1.IPAddressSpec{ParentRef: ServiceOwner("namespace-"+strconv.Itoa(i%100), "service-"+strconv.Itoa(i)).Reference()},
		}
	}
	return items
}

// oneList is an informer whose list is given and whose watch is silent.
func oneList(exampleObject krt.Object, list func() krt.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformerWithOptions(listOnly{&cache.ListWatch{
		ListWithContextFunc:  func(context.Context, metav1.ListOptions) (krt.Object, error) { return list(), nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}}, exampleObject, cache.SharedIndexInformerOptions{})
}

type listOnly struct{ *cache.ListWatch }

func (listOnly) IsWatchListSemanticsUnSupported() bool { return true }

// BenchmarkViewLoad takes addresses from an informer's list into the view. The
// budget of the design is 15 s for 1,000,000. It reports the memory that stays
// resident per address, objects, tables and sets together, beside that of a
// plain informer cache of the untrimmed objects.
func BenchmarkViewLoad(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var view, plain float64
			for b.Loop() {
				plain += resident(b, func() func() {
					inf := oneList(&networkingv1.IPAddress{}, func() krt.Object {
						return &networkingv1.IPAddressList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: benchAddresses(n)}
					})
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan struct{})
					b.StopTimer()
					go func() { inf.RunWithContext(ctx); close(done) }()
					<-inf.HasSyncedChecker().Done()
					b.StartTimer()
					return func() { cancel(); <-done; runtime.KeepAlive(inf) }
				})
				// The view's own informers, on their own, so that they list from here.
				view += resident(b, func() func() {
					items := &networkingv1.IPAddressList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: benchAddresses(n)}
					cidrs := oneList(&networkingv1.ServiceCIDR{}, func() krt.Object {
						return &networkingv1.ServiceCIDRList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
					})
					addrs := oneList(&networkingv1.IPAddress{}, func() krt.Object { l := items; items = nil; return l })
					for _, inf := range []cache.SharedIndexInformer{cidrs, addrs} {
						if err := inf.SetTransform(compact); err != nil {
							b.Fatal(err)
						}
					}
					v, err := NewView(Config{ServiceCIDRs: cidrs, IPAddresses: addrs})
					if err != nil {
						b.Fatal(err)
					}
					ctx, cancel := context.WithCancel(context.Background())
					done := make(chan struct{}, 3)
					b.StartTimer()
					for _, run := range []func(){func() { cidrs.RunWithContext(ctx) }, func() { addrs.RunWithContext(ctx) }, func() { _ = v.Run(ctx) }} {
						go func() { run(); done <- struct{}{} }()
					}
					<-v.Synced()
					b.StopTimer()
					return func() { cancel(); <-done; <-done; <-done; runtime.KeepAlive(v) }
				})
				b.StartTimer()
			}
			b.ReportMetric(view/float64(b.N)/float64(n), "B/address")
			b.ReportMetric(plain/float64(b.N)/float64(n), "B/address-plain-informer")
			b.ReportMetric(view/plain, "memory-ratio")
		})
	}
}

// resident measures the heap that a set-up leaves.
func resident(b *testing.B, setUp func() (tearDown func())) float64 {
	b.StopTimer()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tearDown := setUp()
	b.StopTimer()
	runtime.GC()
	runtime.ReadMemStats(&after)
	tearDown()
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}
