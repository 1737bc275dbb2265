// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// Code that was written for the classic interface: fills a range, lists it,
// releases it.
func TestClassic_ServesTheClassicInterface(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/29", "2001:db8::/125"), func(t *testing.T, r *replica) {
		c, err := NewClassic(r.MetaAllocator, ClassicConfig{Family: cidr.IPv4, Owner: widget})
		if err != nil {
			t.Fatal(err)
		}
		var classic ClassicInterface = c
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "svc"}}
		if err := classic.AllocateService(svc, net.ParseIP("10.0.0.3")); err != nil { // 16 bytes
			t.Fatal(err)
		}
		if err := classic.Allocate(net.ParseIP("10.0.0.3").To4()); !errors.Is(err, ErrAllocated) {
			t.Error(err)
		}
		dry := classic.DryRun()
		if ip, err := dry.AllocateNext(); err != nil || classic.Has(ip) {
			t.Error(ip, err)
		}
		if err := dry.Release(net.ParseIP("10.0.0.3")); err != nil || !classic.Has(net.ParseIP("10.0.0.3")) {
			t.Error("a dry run released", err)
		}
		got := map[string]bool{"10.0.0.3": true}
		for range 4 {
			ip, err := classic.AllocateNext()
			if err != nil {
				t.Fatal(err)
			}
			got[ip.String()] = true
		}
		ip, err := classic.AllocateNextService(svc)
		if err != nil {
			t.Fatal(err)
		}
		got[ip.String()] = true
		if _, err := classic.AllocateNext(); !errors.Is(err, ErrFull) {
			t.Error(err)
		}
		synctest.Wait()
		listed := 0
		classic.ForEach(func(ip net.IP) {
			listed++
			if !got[ip.String()] {
				t.Errorf("listed %s", ip)
			}
		})
		prefix := classic.CIDR()
		if listed != 6 || classic.Used() != 6 || classic.Free() != 0 || prefix.String() != "10.0.0.0/29" || classic.IPFamily() != corev1.IPv4Protocol {
			t.Errorf("listed %d, used %d, free %d, CIDR %s, family %s", listed, classic.Used(), classic.Free(), prefix.String(), classic.IPFamily())
		}
		for ip := range got {
			if err := classic.Release(net.ParseIP(ip)); err != nil {
				t.Error(err)
			}
		}
		if err := classic.Release(net.ParseIP("10.0.0.1")); err != nil {
			t.Errorf("releasing a free address: %v", err)
		}
		synctest.Wait()
		if classic.Used() != 0 || len(stored(r.server)) != 0 {
			t.Errorf("used %d, stored %v", classic.Used(), stored(r.server))
		}
		for name, err := range map[string]error{
			"nil Service":  classic.AllocateService(nil, net.ParseIP("10.0.0.3")),
			"no address":   classic.Allocate(nil),
			"wrong family": classic.Allocate(net.ParseIP("2001:db8::1")),
			"half address": classic.Release(net.IP{1, 2, 3}),
		} {
			if !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%s: %v", name, err)
			}
		}
		classic.EnableMetrics()
		classic.Destroy()
	})
}

// The constructor swap: a client, two informers that somebody else runs, and
// the family.
func TestStartClassic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		having("2001:db8::/64")(server)
		client := server.Client("r")
		cidrs := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.ServiceCIDRs().List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return client.ServiceCIDRs().Watch(ctx, o)
			},
		}, &networkingv1.ServiceCIDR{}, 0, nil)
		ips := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.IPAddresses().List(ctx, o)
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return client.IPAddresses().Watch(ctx, o)
			},
		}, &networkingv1.IPAddress{}, 0, nil)
		c, err := StartClassic(client, cidrs, ips, true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(quiet())
		done := make(chan struct{}, 2)
		for _, inf := range []cache.SharedIndexInformer{cidrs, ips} {
			go func() { inf.RunWithContext(ctx); done <- struct{}{} }()
		}
		if err := c.MetaAllocator().WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		ip, err := c.AllocateNextService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}})
		if err != nil || stored(server)[ip.String()] != informer.ServiceOwner("a", "b") {
			t.Error(ip, err, stored(server))
		}
		c.Destroy()
		cancel()
		<-done
		<-done
	})
	if _, err := StartClassic(nil, nil, nil, true); !errors.Is(err, ErrInvalidConfig) {
		t.Error(err)
	}
}
