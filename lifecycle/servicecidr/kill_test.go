// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// life takes a twin and a nested ServiceCIDR from their creation to their end,
// with an address inside, and checks I7 at every call that anybody makes. The
// controllers have to be running.
func life(t *testing.T, c *cluster) {
	t.Helper()
	stop := c.server.OnCall(func(simapi.Call) {
		for _, a := range c.server.TrueIPAddresses() {
			if !slices.ContainsFunc(c.server.TrueServiceCIDRs(), func(obj networkingv1.ServiceCIDR) bool {
				return informer.NewServiceCIDR(&obj).CoversUsable(addr(a.Name))
			}) {
				t.Errorf("I7: %s is in no ServiceCIDR", a.Name)
			}
		}
	})
	defer stop()
	c.server.CreateServiceCIDR("a", "", "10.0.0.0/28")
	c.server.CreateServiceCIDR("twin", "", "10.0.0.0/28")
	c.server.CreateServiceCIDR("outer", "", "10.0.0.0/24")
	time.Sleep(20 * time.Second)
	for _, name := range []string{"a", "twin", "outer"} {
		c.wantReady(name, readyTrue)
	}
	c.hold("10.0.0.7")
	c.remove("a")
	time.Sleep(40 * time.Second)
	c.wantReady("a", "gone")
	c.remove("twin")
	c.remove("outer")
	time.Sleep(40 * time.Second)
	if c.get("twin") == nil && c.get("outer") == nil {
		t.Error("both are gone")
	}
	c.free("10.0.0.7")
	time.Sleep(40 * time.Second)
	for _, name := range []string{"twin", "outer"} {
		c.wantReady(name, "gone")
	}
}

// A controller is killed at each of its calls in turn, before the call or before
// its answer, and started again: it converges, and nothing is lost.
func TestI7_KilledAtEachCall(t *testing.T) {
	for _, phase := range []simapi.Phase{simapi.Before, simapi.After} {
		for k, reached := 1, true; reached; k++ {
			t.Run(fmt.Sprintf("%s call %d", phase, k), func(t *testing.T) {
				in(t, func(t *testing.T, c *cluster) { reached = killedAt(t, c, k, phase) })
			})
		}
	}
}

// killedAt reports whether there was a k-th call.
func killedAt(t *testing.T, c *cluster, k int, phase simapi.Phase) (reached bool) {
	first, err := New(Config{Client: c.server.Client("victim"), Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, kill := context.WithCancel(quiet())
	defer kill()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := first.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	var calls atomic.Int64
	killed := make(chan string, 1)
	defer c.server.OnCall(func(call simapi.Call) {
		if call.Replica != "victim" || call.Phase != phase || ctx.Err() != nil {
			return
		}
		if calls.Add(1) == int64(k) {
			killed <- call.Verb + " " + call.Resource + " " + call.Name
			kill()
		}
	})()
	over := make(chan struct{})
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		select {
		case call := <-killed:
			reached = true
			<-done
			t.Logf("killed at %s", call)
			time.Sleep(time.Second)
			stop := run(t, c.server, "successor")
			<-over
			stop()
		case <-over:
		}
	}()
	life(t, c)
	close(over)
	<-restarted
	kill()
	<-done
	synctest.Wait()
	return reached
}
