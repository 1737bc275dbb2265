// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func service(name string, addresses ...string) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	svc.Spec.ClusterIPs = addresses
	if len(addresses) > 0 {
		svc.Spec.ClusterIP = addresses[0]
	}
	return svc
}

func address(name, owner string) networkingv1.IPAddress {
	return networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: owner}},
	}
}

func TestCompare(t *testing.T) {
	cidrs := []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/28", "fd00:96::/112"}}}}
	pod := address("10.96.0.4", "a")
	pod.Spec.ParentRef.Resource = "pods"
	external := service("external", "10.96.0.5")
	external.Spec.Type = corev1.ServiceTypeExternalName
	for name, tc := range map[string]struct {
		services  []corev1.Service
		addresses []networkingv1.IPAddress
		want      []Fault
	}{
		"one to one": {
			services:  []corev1.Service{service("a", "10.96.0.1", "fd00:96::1"), service("none", corev1.ClusterIPNone), external, service("bare")},
			addresses: []networkingv1.IPAddress{address("10.96.0.1", "a"), address("fd00:96::1", "a")},
		},
		"no IPAddress": {
			services: []corev1.Service{service("a", "10.96.0.1")},
			want:     []Fault{{Orphan, "10.96.0.1", []string{"ns/a"}}},
		},
		"another's": {
			services:  []corev1.Service{service("a", "10.96.0.1")},
			addresses: []networkingv1.IPAddress{address("10.96.0.1", "b")},
			want:      []Fault{{Orphan, "10.96.0.1", []string{"ns/a"}}},
		},
		"another resource's": {
			services:  []corev1.Service{service("a", "10.96.0.4")},
			addresses: []networkingv1.IPAddress{pod},
			want:      []Fault{{Orphan, "10.96.0.4", []string{"ns/a"}}},
		},
		"no Service": {
			addresses: []networkingv1.IPAddress{address("10.96.0.1", "a")},
			want:      []Fault{{Leak, "10.96.0.1", []string{"ns/a"}}},
		},
		"ExternalName claims nothing": {
			services:  []corev1.Service{external},
			addresses: []networkingv1.IPAddress{address("10.96.0.5", "external")},
			want:      []Fault{{Leak, "10.96.0.5", []string{"ns/external"}}},
		},
		"two Services": {
			services:  []corev1.Service{service("a", "10.96.0.1"), service("b", "10.96.0.1")},
			addresses: []networkingv1.IPAddress{address("10.96.0.1", "b")},
			want:      []Fault{{Duplicate, "10.96.0.1", []string{"ns/a", "ns/b"}}, {Orphan, "10.96.0.1", []string{"ns/a"}}},
		},
		"broadcast address": {
			services:  []corev1.Service{service("a", "10.96.0.15")},
			addresses: []networkingv1.IPAddress{address("10.96.0.15", "a")},
			want:      []Fault{{Uncovered, "10.96.0.15", []string{"ns/a"}}},
		},
		"not canonical": {
			services:  []corev1.Service{service("a", "FD00:96::1")},
			addresses: []networkingv1.IPAddress{address("FD00:96::1", "a")},
			want:      []Fault{{Malformed, "FD00:96::1", []string{"ns/a"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Compare(tc.services, tc.addresses, cidrs)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestLedger(t *testing.T) {
	a, b := service("a", "10.96.0.1", "fd00:96::1"), service("b", "10.96.0.1")
	t.Run("one after the other", func(t *testing.T) {
		l := NewLedger()
		l.Put(&a)
		l.Put(&a)
		l.Gone(&a)
		l.Put(&b)
		without := service("b")
		l.Put(&without)
		l.Put(&a)
		if len(l.Duplicates) > 0 || l.Changes != 6 {
			t.Errorf("duplicates %v after %d changes, want none after 6", l.Duplicates, l.Changes)
		}
	})
	t.Run("at the same time", func(t *testing.T) {
		l := NewLedger()
		l.Put(&a)
		l.Put(&b)
		if len(l.Duplicates) != 1 || !strings.Contains(l.Duplicates[0], "10.96.0.1 goes to ns/b (b), while ns/a (a) has it") {
			t.Errorf("got %q", l.Duplicates)
		}
		// The second holder's end does not free what the first one has.
		l.Gone(&b)
		l.Put(&b)
		if len(l.Duplicates) != 2 {
			t.Errorf("got %q", l.Duplicates)
		}
	})
	t.Run("a Service that came back is another one", func(t *testing.T) {
		l := NewLedger()
		again := service("a", "10.96.0.1")
		again.UID = "again"
		l.Put(&a)
		l.Put(&again)
		if len(l.Duplicates) != 1 {
			t.Errorf("got %q", l.Duplicates)
		}
	})
}
