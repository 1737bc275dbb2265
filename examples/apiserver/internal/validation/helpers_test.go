// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	v4Only = []corev1.IPFamily{corev1.IPv4Protocol}
	v4v6   = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	v6v4   = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
)

// kinds returns "Invalid spec.ports[0].port" for each error, sorted. Wording is not compared.
func kinds(errs field.ErrorList) []string {
	out := []string{}
	for _, err := range errs {
		kind := strings.TrimPrefix(string(err.Type), "FieldValue")
		out = append(out, kind+" "+err.Field)
	}
	slices.Sort(out)
	return out
}

// wantErrors compares kinds and paths.
func wantErrors(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	slices.Sort(want)
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, kinds(errs)); diff != "" {
		t.Errorf("errors (-want +got):\n%s\n%v", diff, errs.ToAggregate())
	}
}

type edit = func(*corev1.Service)

// newService is a valid ClusterIP Service as a client writes it, edited.
func newService(edits ...edit) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blue"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "blue"},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

// stored is the Service as the server keeps it, with an address for each family that it has.
func stored(families []corev1.IPFamily, edits ...edit) *corev1.Service {
	svc := newService(edits...)
	svc.UID, svc.ResourceVersion = "u1", "1"
	DefaultService(svc)
	NormalizeClusterIPs(svc, nil)
	if errs := DefaultFamilies(svc, nil, families); len(errs) > 0 {
		panic(errs.ToAggregate())
	}
	if HasClusterIP(svc) && !IsHeadless(svc) {
		for i, family := range svc.Spec.IPFamilies {
			if i < len(svc.Spec.ClusterIPs) {
				continue
			}
			svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, map[corev1.IPFamily]string{
				corev1.IPv4Protocol: "10.96.0.7", corev1.IPv6Protocol: "2001:db8::7",
			}[family])
		}
		svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	}
	if HasNodePorts(svc) {
		for i := range svc.Spec.Ports {
			if svc.Spec.Ports[i].NodePort == 0 && AllocatesNodePorts(svc) {
				svc.Spec.Ports[i].NodePort = 30000 + int32(i)
			}
		}
	}
	if HasHealthCheckNodePort(svc) {
		svc.Spec.HealthCheckNodePort = 30500
	}
	return svc
}

func typed(typ corev1.ServiceType) edit {
	return func(svc *corev1.Service) { svc.Spec.Type = typ }
}

func externalName(svc *corev1.Service) {
	svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeExternalName, "blue.example.com"
}

func headless(svc *corev1.Service) { svc.Spec.ClusterIP = corev1.ClusterIPNone }

func manual(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.Selector = corev1.ClusterIPNone, nil }

func policy(p corev1.IPFamilyPolicy) edit {
	return func(svc *corev1.Service) { svc.Spec.IPFamilyPolicy = &p }
}

func withFamilies(families ...corev1.IPFamily) edit {
	return func(svc *corev1.Service) { svc.Spec.IPFamilies = families }
}

func addresses(a ...string) edit {
	return func(svc *corev1.Service) {
		svc.Spec.ClusterIPs = a
		if len(a) > 0 {
			svc.Spec.ClusterIP = a[0]
		}
	}
}

func withPorts(ports ...corev1.ServicePort) edit {
	return func(svc *corev1.Service) { svc.Spec.Ports = ports }
}

func local(svc *corev1.Service) {
	svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

func newServiceCIDR(cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "range"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

func newIPAddress(name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "blue"},
		},
	}
}

var (
	http  = corev1.ServicePort{Name: "http", Port: 80}
	https = corev1.ServicePort{Name: "https", Port: 443, TargetPort: intstr.FromString("tls")}
)
