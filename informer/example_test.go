// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer_test

import (
	"context"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// start runs a view of a simulated API server.
func start(s *simapi.Server) (view *informer.View, stop func()) {
	view, err := informer.NewView(informer.Config{Client: s.Client("example"), RequireFinalizer: true})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	<-view.Synced()
	return view, func() { cancel(); <-ended; s.Close() }
}

// How the prefixes lie to each other, and why one is not ready.
func ExampleTopology() {
	s := simapi.New()
	s.CreateServiceCIDR("all", metav1.ConditionTrue, "10.0.0.0/16", "fd00::/112")
	s.AddFinalizer("all", informer.Finalizer)
	s.CreateServiceCIDR("inner", metav1.ConditionTrue, "10.0.1.0/24")
	s.AddFinalizer("inner", informer.Finalizer)
	s.CreateServiceCIDR("leaving", metav1.ConditionFalse, "10.9.0.0/24")
	s.CreateServiceCIDR("new", metav1.ConditionTrue, "10.8.0.0/24")
	view, stop := start(s)
	defer stop()

	for _, p := range view.Snapshot().Topology().Prefixes() {
		switch {
		case p.Maximal:
			fmt.Println(p.Range, "is drawn from")
		case p.Ready:
			fmt.Println(p.Range, "is nested in", p.Outer)
		default:
			fmt.Println(p.Range, "is not ready:", p.WhyNot(true))
		}
	}
	// Output:
	// 10.0.0.0/16 is drawn from
	// 10.0.1.0/24 is nested in 10.0.0.0/16
	// 10.8.0.0/24 is not ready: new: its finalizer is missing (does a ServiceCIDR controller run?)
	// 10.9.0.0/24 is not ready: leaving: condition Ready is False (SetByTest)
	// fd00::/112 is drawn from
}

// A snapshot stays as it is; Changed tells that there is a newer one.
func ExampleSnapshot() {
	s := simapi.New()
	view, stop := start(s)
	defer stop()
	owner := informer.ServiceOwner("default", "web")
	old := view.Snapshot()

	_, err := s.Client("somebody").IPAddresses().Create(context.Background(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.7"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
	}
	<-old.Changed()

	addr := netip.MustParseAddr("10.0.0.7")
	fmt.Println("old:", old.Present(cidr.IPv4).Has(addr), "new:", view.Snapshot().Present(cidr.IPv4).Has(addr))
	for row := range view.Snapshot().IPAddressesOf(owner) {
		fmt.Println(row.Name, "belongs to", row.Owner())
	}
	// Output:
	// old: false new: true
	// 10.0.0.7 belongs to services/default/web
}
