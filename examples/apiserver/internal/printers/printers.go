// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package printers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"
)

// ServiceCIDRs makes tables of ServiceCIDRs, whose ages clock tells.
func ServiceCIDRs(clock clock.PassiveClock) rest.TableConvertor {
	return &converter[networkingv1.ServiceCIDR, *networkingv1.ServiceCIDR]{clock: clock, columns: []column[networkingv1.ServiceCIDR]{
		name[networkingv1.ServiceCIDR](),
		text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"],
			func(obj *networkingv1.ServiceCIDR) string { return strings.Join(obj.Spec.CIDRs, ",") }),
		age[networkingv1.ServiceCIDR](),
	}}
}

// IPAddresses makes tables of IPAddresses, whose ages clock tells.
func IPAddresses(clock clock.PassiveClock) rest.TableConvertor {
	return &converter[networkingv1.IPAddress, *networkingv1.IPAddress]{clock: clock, columns: []column[networkingv1.IPAddress]{
		name[networkingv1.IPAddress](),
		text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"],
			func(obj *networkingv1.IPAddress) string { return parent(obj.Spec.ParentRef) }),
		age[networkingv1.IPAddress](),
	}}
}

// Namespaces makes tables of Namespaces, whose ages clock tells.
func Namespaces(clock clock.PassiveClock) rest.TableConvertor {
	return &converter[corev1.Namespace, *corev1.Namespace]{clock: clock, columns: []column[corev1.Namespace]{
		name[corev1.Namespace](),
		text("Status", "Whether objects may be created in the namespace.",
			func(obj *corev1.Namespace) string { return string(obj.Status.Phase) }),
		age[corev1.Namespace](),
	}}
}

// parent is "resource.group/namespace/name", less what is empty.
func parent(ref *networkingv1.ParentReference) string {
	if ref == nil {
		return none
	}
	parts := []string{strings.ToLower(schema.GroupResource{Group: ref.Group, Resource: ref.Resource}.String())}
	if ref.Namespace != "" {
		parts = append(parts, ref.Namespace)
	}
	return strings.Join(append(parts, ref.Name), "/")
}
