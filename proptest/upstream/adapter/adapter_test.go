// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestReplica_IsUpstreamsAllocator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		server.CreateServiceCIDR("a", metav1.ConditionTrue, "10.0.0.0/29", "2001:db8::/112")
		calls := 0
		a, err := Options{Visible: true, OnCall: func() { calls++ }}.New(proptest.Env{
			Replica: "r", Client: server.Client("r"), Clock: clock.RealClock{}, Random: rand.NewPCG(1, 1),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- a.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Second)
		if !a.Synced() {
			t.Fatal("not synced")
		}
		owner := informer.Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: "w"}
		seen := map[netip.Addr]bool{}
		for range 6 {
			addr, err := a.AllocateNext(ctx, owner, cidr.IPv4)
			if err != nil {
				t.Fatal(err)
			}
			seen[addr] = true
		}
		if len(seen) != 6 || calls < 6 {
			t.Errorf("%d addresses, %d calls", len(seen), calls)
		}
		for _, obj := range server.TrueIPAddresses() {
			if got := informer.OwnerOf(obj.Spec.ParentRef); got != owner {
				t.Errorf("%s is of %s", obj.Name, got)
			}
		}
		if addr, err := a.AllocateNext(ctx, owner, cidr.IPv6); err != nil || !netip.MustParsePrefix("2001:db8::/112").Contains(addr) {
			t.Errorf("IPv6: %v, %v", addr, err)
		}
		expect := func(want proptest.Outcome, err error) {
			t.Helper()
			if err == nil || a.Classify(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		time.Sleep(time.Second) // the caches see it
		_, err = a.AllocateNext(ctx, owner, cidr.IPv4)
		expect(proptest.Full, err)
		taken := netip.MustParseAddr("10.0.0.3")
		expect(proptest.AlreadyAllocated, a.AllocateAt(ctx, owner, taken))
		expect(proptest.NotInRange, a.AllocateAt(ctx, owner, netip.MustParseAddr("10.9.0.1")))
		if err := a.Release(ctx, owner, taken); err != nil {
			t.Error(err)
		}
		server.Fail(simapi.Fault{Replica: "r", Verb: "create", Err: simapi.Forbidden("no")})
		time.Sleep(time.Second)
		_, err = a.AllocateNext(ctx, owner, cidr.IPv4)
		expect(proptest.APIError, err)
		if addr, err := a.AllocateNext(ctx, owner, cidr.IPv4); err != nil || addr != taken {
			t.Errorf("after a release %v, %v", addr, err)
		}
		time.Sleep(time.Second)
		if got := fmt.Sprint(a.(proptest.Counter).Counts()[0].Used); got != "6" {
			t.Errorf("%s used", got)
		}
	})
}

func TestReplica_ClassifiesUpstreamsErrors(t *testing.T) {
	r := &replica{}
	for err, want := range map[error]proptest.Outcome{
		ipallocator.ErrFull:              proptest.Full,
		ipallocator.ErrNotReady:          proptest.NotReady,
		ipallocator.ErrAllocated:         proptest.AlreadyAllocated,
		ipallocator.ErrMismatchedNetwork: proptest.NotInRange,
		errors.New("anything else"):      proptest.APIError,
	} {
		if got := r.Classify(fmt.Errorf("wrapped: %w", err)); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

// The controller gives a ServiceCIDR the finalizer, says Ready, and lets it go.
func TestController_IsUpstreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New(simapi.WithClock(clock.RealClock{}))
		defer server.Close()
		c, err := NewController(proptest.Env{Replica: "controller", Client: server.Client("controller"), Clock: clock.RealClock{}, Random: rand.NewPCG(1, 1)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		server.CreateServiceCIDR("a", "", "10.0.0.0/29")
		time.Sleep(time.Minute)
		obj := server.TrueServiceCIDRs()[0]
		if row := informer.NewServiceCIDR(&obj); row.WhyNot(true) != "" || row.ReadyStatus != metav1.ConditionTrue {
			t.Errorf("%s, Ready %s", row.WhyNot(true), row.ReadyStatus)
		}
		if err := server.Client("admin").ServiceCIDRs().Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := len(server.TrueServiceCIDRs()); n != 0 {
			t.Errorf("%d ServiceCIDRs are left", n)
		}
	})
}
