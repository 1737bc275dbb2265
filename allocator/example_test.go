// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// start makes a pool over the view of a simulated API server.
func start() (pool *allocator.Pool, stop func()) {
	s := simapi.New()
	s.CreateServiceCIDR("blue", metav1.ConditionTrue, "10.0.0.0/24")
	s.AddFinalizer("blue", informer.Finalizer)
	client := s.Client("example")
	view, err := informer.NewView(informer.Config{Client: client})
	if err != nil {
		panic(err)
	}
	pool, err = allocator.NewPool(allocator.Config{
		View:   view,
		Client: client,
		Random: rand.NewPCG(1, 2), // for an example that always does the same
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- view.Run(ctx) }()
	<-view.Synced()
	return pool, func() { cancel(); <-ended; pool.Close(); s.Close() }
}

// One range: any address, a given one, and what is left.
func Example() {
	pool, stop := start()
	defer stop()
	ctx := context.Background()
	a := pool.Range(cidr.MustParse("10.0.0.0/24"))
	blue := informer.Owner{Group: "example.com", Resource: "gateways", Name: "blue"}
	green := informer.Owner{Group: "example.com", Resource: "gateways", Name: "green"}

	got, err := a.AllocateNext(ctx, blue)
	fmt.Println(got.Address, err)

	_, err = a.Allocate(ctx, green, got.Address)
	fmt.Println(errors.Is(err, allocator.ErrAllocated), err)

	fmt.Println("free:", a.Free(cidr.BandStatic), "static,", a.Free(cidr.BandDynamic), "dynamic")

	fmt.Println(a.Release(ctx, green, got.Address), a.Release(ctx, blue, got.Address)) // green's does nothing
	// Output:
	// 10.0.0.213 <nil>
	// true provided IP is already allocated: 10.0.0.213 belongs to gateways.example.com/blue
	// free: 16 static, 237 dynamic
	// <nil> <nil>
}

// A reservation keeps an address from other calls of this process, and costs
// no API call.
func ExampleAllocator_Reserve() {
	pool, stop := start()
	defer stop()
	tiny := pool.Range(cidr.MustParse("10.0.0.8/30"))

	for range 3 {
		r, ok := tiny.Reserve(allocator.DynamicRested)
		fmt.Println(r.Addr, ok)
		defer r.Cancel()
	}
	fmt.Println(pool.Taken(cidr.IPv4).Has(netip.MustParseAddr("10.0.0.9")))
	// Output:
	// 10.0.0.10 true
	// 10.0.0.9 true
	// invalid IP false
	// true
}
