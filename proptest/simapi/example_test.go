// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// A create whose answer is lost: the caller cannot tell, the server can.
func ExampleServer_Fail() {
	s := simapi.New()
	defer s.Close()
	addresses := s.Client("a").IPAddresses()

	s.Fail(simapi.Fault{Verb: "create", When: simapi.After, Err: simapi.ConnectionCut()})
	_, err := addresses.Create(context.Background(), address("10.0.0.1"), metav1.CreateOptions{})
	fmt.Println("answer:", err)
	fmt.Println("stored:", len(s.TrueIPAddresses()))

	_, err = addresses.Create(context.Background(), address("10.0.0.1"), metav1.CreateOptions{})
	fmt.Println("again, already exists:", apierrors.IsAlreadyExists(err))
	// Output:
	// answer: Post "https://simapi.invalid/": unexpected EOF
	// stored: 1
	// again, already exists: true
}

// A ServiceCIDR is deleted between the caller's read and its write.
func ExampleServer_OnCall() {
	s := simapi.New()
	defer s.Close()
	ctx, a, b := context.Background(), s.Client("a"), s.Client("b")
	s.CreateServiceCIDR("blue", metav1.ConditionTrue, "10.0.0.0/24")
	s.AddFinalizer("blue", "networking.k8s.io/service-cidr-finalizer")

	s.OnCall(func(c simapi.Call) {
		if c.Replica == "a" && c.Verb == "create" && c.Phase == simapi.Before {
			_ = b.ServiceCIDRs().Delete(ctx, "blue", metav1.DeleteOptions{})
		}
	})
	seen, _ := a.ServiceCIDRs().Get(ctx, "blue", metav1.GetOptions{})
	_, err := a.IPAddresses().Create(ctx, address("10.0.0.1"), metav1.CreateOptions{})
	now, _ := a.ServiceCIDRs().Get(ctx, "blue", metav1.GetOptions{})
	fmt.Println("terminating when read:", seen.DeletionTimestamp != nil)
	fmt.Println("created:", err == nil)
	fmt.Println("terminating now:", now.DeletionTimestamp != nil)
	// Output:
	// terminating when read: false
	// created: true
	// terminating now: true
}
