// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// start runs an allocator on a simulated API server with some ServiceCIDRs.
// In an API server the client is a clientset's NetworkingV1().
func start(prefixes ...string) (m *meta.MetaAllocator, stop func()) {
	s := simapi.New()
	for i, prefix := range prefixes {
		name := fmt.Sprintf("range-%d", i)
		s.CreateServiceCIDR(name, metav1.ConditionTrue, prefix)
		s.AddFinalizer(name, informer.Finalizer)
	}
	m, err := meta.New(meta.Config{
		Client: s.Client("example"),
		Random: rand.NewPCG(1, 2), // for an example that always does the same
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	if err := m.WaitForSync(ctx); err != nil {
		panic(err)
	}
	return m, func() { cancel(); <-ended; s.Close() }
}

var owner = meta.Owner{Group: "example.com", Resource: "gateways", Namespace: "default", Name: "blue"}

func Example() {
	m, stop := start("10.0.0.0/24", "10.1.0.0/22")
	defer stop()
	ctx := context.Background()

	got, err := m.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4}})
	fmt.Println(got[0].Address, "of", got[0].Range, "for", got[0].Owner, err)

	fmt.Println(m.Release(ctx, owner, got[0].Address))
	// Output:
	// 10.1.3.16 of 10.1.0.0/22 for gateways.example.com/default/blue <nil>
	// <nil>
}

// Both families, in that order, or none.
func ExampleMetaAllocator_Allocate_dualStack() {
	m, stop := start("10.0.0.0/24", "fd00::/64")
	defer stop()

	got, err := m.Allocate(context.Background(), meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv6, cidr.IPv4}})
	for _, a := range got {
		fmt.Println(a.Address, "of", a.Range)
	}
	fmt.Println(err)
	// Output:
	// fd00::b3c0:4942:b092:61cb of fd00::/64
	// 10.0.0.93 of 10.0.0.0/24
	// <nil>
}

// A given address of one family, any of the other.
func ExampleMetaAllocator_Allocate_static() {
	m, stop := start("10.0.0.0/24")
	defer stop()
	ctx := context.Background()
	request := meta.Request{Owner: owner, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.10")}}

	got, err := m.Allocate(ctx, request)
	fmt.Println(got[0].Address, err)

	request.Owner.Name = "green"
	_, err = m.Allocate(ctx, request)
	fmt.Println(err)
	var taken *meta.AllocatedError
	if errors.As(err, &taken) {
		fmt.Println("it belongs to", taken.Owner.Name)
	}

	request.Addresses[0] = netip.MustParseAddr("10.9.9.9")
	_, err = m.Allocate(ctx, request)
	fmt.Println("not in range:", errors.Is(err, meta.ErrNotInRange))
	// Output:
	// 10.0.0.10 <nil>
	// allocating 10.0.0.10: provided IP is already allocated: 10.0.0.10 belongs to gateways.example.com/default/blue
	// it belongs to blue
	// not in range: true
}

// A dry run says what the call would, and takes nothing.
func ExampleMetaAllocator_Allocate_dryRun() {
	m, stop := start("10.0.0.0/29")
	defer stop()
	ctx := context.Background()

	for range 2 {
		got, err := m.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4}, DryRun: true})
		fmt.Println(got[0].Range, err)
	}
	_, err := m.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv6}, DryRun: true})
	fmt.Println(err)
	fmt.Println("taken:", m.Status().CIDRs[0].Dynamic.Taken)
	// Output:
	// 10.0.0.0/29 <nil>
	// 10.0.0.0/29 <nil>
	// allocating an IPv6 address: no ServiceCIDR of that IP family
	// taken: 0
}

func ExampleMetaAllocator_Status() {
	m, stop := start("10.0.0.0/16", "10.0.1.0/24", "fd00::/64")
	defer stop()
	ctx := context.Background()
	for range 5 {
		if _, err := m.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4, cidr.IPv6}}); err != nil {
			fmt.Println(err)
		}
	}
	for _, c := range m.Status().CIDRs {
		fmt.Println(c.ServiceCIDR, c.Prefix, "ready:", c.Ready, "drawn from:", c.Maximal)
		fmt.Println("  free dynamic:", c.Dynamic.Free, "of", c.Dynamic.Size, "free static:", c.Static.Free)
	}
	// Output:
	// range-0 10.0.0.0/16 ready: true drawn from: true
	//   free dynamic: 65273 of 65278 free static: 256
	// range-1 10.0.1.0/24 ready: true drawn from: false
	//   free dynamic: 238 of 238 free static: 16
	// range-2 fd00::/64 ready: true drawn from: true
	//   free dynamic: 18446744073709551354 of 18446744073709551359 free static: 256
}
