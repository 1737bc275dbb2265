// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr_test

import (
	"context"
	"fmt"
	"time"

	"github.com/metacidr/metacidr/lifecycle/defaultcidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// An API server runs the controller from its start, and is ready when the default
// ServiceCIDR is. In an API server the client is a clientset's NetworkingV1().
func Example() {
	server := simapi.New()
	defer server.Close()
	c, err := defaultcidr.New(defaultcidr.Config{
		Client: server.Client("example"),
		Ranges: []string{"10.96.0.0/16", "fd00::/108"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()

	ready, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	fmt.Println("ready:", c.WaitConsistent(ready) == nil)
	fmt.Println(c.Status().Finding.Kind)
	cancel()
	fmt.Println("ended:", <-ended)
	// Output:
	// ready: true
	// Created
	// ended: <nil>
}

// A second API server whose flags lack a family reports that, and changes nothing.
func ExampleController_Sync() {
	server := simapi.New()
	defer server.Close()
	for _, ranges := range [][]string{
		{"10.96.0.0/16"},
		{"10.96.0.0/16", "fd00::/108"},
		{"10.96.0.0/16"},
		{"fd00::/108", "10.96.0.0/16"},
		{"10.0.0.0/16"},
	} {
		c, err := defaultcidr.New(defaultcidr.Config{Client: server.Client("example"), Ranges: ranges})
		if err != nil {
			fmt.Println(err)
			return
		}
		f, err := c.Sync(context.Background())
		fmt.Println(ranges, f.Kind, err)
	}
	fmt.Println(server.TrueServiceCIDRs()[0].Spec.CIDRs)
	// Output:
	// [10.96.0.0/16] Created <nil>
	// [10.96.0.0/16 fd00::/108] Extended <nil>
	// [10.96.0.0/16] Downgrade <nil>
	// [fd00::/108 10.96.0.0/16] Swapped <nil>
	// [10.0.0.0/16] Mismatch <nil>
	// [10.96.0.0/16 fd00::/108]
}
