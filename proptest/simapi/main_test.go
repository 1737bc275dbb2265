// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// TestMain holds the package to rule: after Close, no goroutine is left.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, opts ...simapi.Option) *simapi.Server {
	t.Helper()
	s := simapi.New(opts...)
	t.Cleanup(s.Close)
	return s
}

func address(name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: "services", Namespace: "default", Name: "web",
		}},
	}
}

func mustCreate(t *testing.T, c *simapi.Client, name string) *networkingv1.IPAddress {
	t.Helper()
	obj, err := c.IPAddresses().Create(t.Context(), address(name), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return obj
}
