// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/metacidr/metacidr/cidr"
)

// HasClusterIP reports whether a Service of svc's type has a clusterIP, be it "None".
func HasClusterIP(svc *corev1.Service) bool { return svc.Spec.Type != corev1.ServiceTypeExternalName }

// IsHeadless reports whether svc asks for no address.
func IsHeadless(svc *corev1.Service) bool {
	return len(svc.Spec.ClusterIPs) == 1 && svc.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// HasNodePorts reports whether a Service of svc's type has node ports, even if it forgoes the allocation.
func HasNodePorts(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeNodePort || svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// AllocatesNodePorts reports whether the ports of svc get node ports that it does not name.
func AllocatesNodePorts(svc *corev1.Service) bool {
	switch svc.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return svc.Spec.AllocateLoadBalancerNodePorts == nil || *svc.Spec.AllocateLoadBalancerNodePorts
	}
	return false
}

// HasHealthCheckNodePort reports whether svc has a port for the health checks of its load balancer.
func HasHealthCheckNodePort(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// isExternal reports whether svc can be reached from outside of the cluster.
func isExternal(svc *corev1.Service) bool {
	return HasNodePorts(svc) || svc.Spec.Type == corev1.ServiceTypeClusterIP && len(svc.Spec.ExternalIPs) > 0
}

// FamilyOf returns the family of an address in any spelling that a Service may have it in, "" if it is none.
func FamilyOf(address string) corev1.IPFamily {
	addr, _, err := cidr.ParseAddrLenient(address)
	if err != nil {
		return ""
	}
	return familyOfAddr(addr)
}

func familyOfAddr(addr netip.Addr) corev1.IPFamily {
	switch cidr.FamilyOf(addr) {
	case cidr.IPv4:
		return corev1.IPv4Protocol
	case cidr.IPv6:
		return corev1.IPv6Protocol
	}
	return ""
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// policyOf returns the policy, "" if there is none.
func policyOf(svc *corev1.Service) corev1.IPFamilyPolicy { return deref(svc.Spec.IPFamilyPolicy) }

// deref returns what p points to, or the zero value.
func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

// equalPtr reports whether both are nil, or point to equal values.
func equalPtr[T comparable](a, b *T) bool {
	return (a == nil) == (b == nil) && deref(a) == deref(b)
}

// sameClusterIPs compares clusterIPs alone: clusterIP is what may differ from it before it is normalised.
func sameClusterIPs(a, b *corev1.Service) bool {
	return slices.Equal(a.Spec.ClusterIPs, b.Spec.ClusterIPs)
}

func sameFamilies(a, b *corev1.Service) bool {
	return slices.Equal(a.Spec.IPFamilies, b.Spec.IPFamilies)
}
