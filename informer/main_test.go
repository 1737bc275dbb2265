// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// client-go waits between two errors by the time of the last one, which may
	// have been in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// runView runs a view until the test ends.
func runView(t testing.TB, v *View) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// waitFor waits until a snapshot satisfies the condition.
func waitFor(t testing.TB, v *View, what string, cond func(*Snapshot) bool) *Snapshot {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	for {
		s := v.Snapshot()
		if cond(s) {
			return s
		}
		select {
		case <-s.Changed():
		case <-deadline.C:
			t.Fatalf("never came true: %s", what)
		}
	}
}

func ipAddress(name, uid, version string, owner Owner) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: version},
		Spec:       networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}
}

type cidrOption func(*networkingv1.ServiceCIDR)

func ready(status metav1.ConditionStatus) cidrOption {
	return func(c *networkingv1.ServiceCIDR) {
		c.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status}}
	}
}

func terminating(c *networkingv1.ServiceCIDR) {
	now := metav1.Now()
	c.DeletionTimestamp = &now
}

func finalizer(c *networkingv1.ServiceCIDR) {
	c.Finalizers = append(c.Finalizers, "other/one", Finalizer)
}

func serviceCIDR(name string, cidrs []string, options ...cidrOption) *networkingv1.ServiceCIDR {
	c := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
	for _, o := range options {
		o(c)
	}
	return c
}
