// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// quickstart runs the program against a simulated API server, in a bubble where
// waiting takes no time, and reports its error and what it left on the server
// beside the ServiceCIDR that was there before.
func quickstart(t *testing.T, out io.Writer, prepare func(s *simapi.Server, interrupt func())) (left []string, failed error) {
	synctest.Test(t, func(t *testing.T) {
		s := simapi.New()
		defer s.Close()
		s.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.96.0.0/24")
		s.AddFinalizer("kubernetes", informer.Finalizer)
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		prepare(s, interrupt)
		failed = run(ctx, s.Client("quickstart"), out)
		for _, c := range s.TrueServiceCIDRs() {
			if c.Name != "kubernetes" {
				left = append(left, c.Name)
			}
		}
		for _, a := range s.TrueIPAddresses() {
			left = append(left, a.Name)
		}
		interrupt()
		synctest.Wait()
	})
	return left, failed
}

// controller does, after each call, what a cluster's ServiceCIDR controller does in its own time.
func controller(s *simapi.Server, _ func()) {
	s.OnCall(func(c simapi.Call) {
		if c.Phase != simapi.After {
			return
		}
		for _, c := range s.TrueServiceCIDRs() {
			has := slices.Contains(c.Finalizers, informer.Finalizer)
			switch {
			case c.DeletionTimestamp == nil && !has:
				s.AddFinalizer(c.Name, informer.Finalizer)
				s.SetReady(c.Name, metav1.ConditionTrue)
			case c.DeletionTimestamp != nil && has && len(s.TrueIPAddresses()) == 0:
				s.RemoveFinalizer(c.Name, informer.Finalizer)
			}
		}
	})
}

func TestItShowsTenAddressesAndTakesAllBack(t *testing.T) {
	var out strings.Builder
	left, err := quickstart(t, &out, controller)
	if err != nil || len(left) > 0 {
		t.Errorf("it ended with %v and left %v", err, left)
	}
	lists, table, _ := strings.Cut(out.String(), "\n\n")
	seen := map[string]bool{}
	for line := range strings.Lines(lists) {
		f := strings.Fields(line)
		if len(f) != 3 || seen[f[0]] || !netip.MustParsePrefix(f[2]).Contains(netip.MustParseAddr(f[0])) {
			t.Errorf("a line that is no new address and its range: %q", line)
			continue
		}
		seen[f[0]] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d addresses, want 10:\n%s", len(seen), lists)
	}
	for _, prefix := range []string{"10.96.0.0/24", "10.112.0.0/24", "10.113.0.0/22"} {
		if !strings.Contains(table, prefix) {
			t.Errorf("no row for %s:\n%s", prefix, table)
		}
	}
}

func TestItTakesAllBackWhenInterrupted(t *testing.T) {
	left, err := quickstart(t, io.Discard, func(s *simapi.Server, interrupt func()) {
		controller(s, interrupt)
		s.OnCall(func(c simapi.Call) {
			if c.Resource == "ipaddresses" && c.Verb == "create" && c.Phase == simapi.After && len(s.TrueIPAddresses()) == 5 {
				interrupt()
			}
		})
	})
	if !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("it ended with %v and left %v", err, left)
	}
}

func TestAnAPIServerThatIsNotThereIsSaidAtOnce(t *testing.T) {
	left, err := quickstart(t, io.Discard, func(s *simapi.Server, _ func()) {
		s.Fail(simapi.Fault{Verb: "create", Resource: "servicecidrs", Err: simapi.ConnectionRefused()})
	})
	if !errors.Is(err, syscall.ECONNREFUSED) || len(left) > 0 {
		t.Errorf("it ended with %v and left %v", err, left)
	}
}

func TestWithoutAServiceCIDRControllerItSaysSo(t *testing.T) {
	left, err := quickstart(t, io.Discard, func(*simapi.Server, func()) {})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "controller") || len(left) > 0 {
		t.Errorf("it ended with %v and left %v", err, left)
	}
}
