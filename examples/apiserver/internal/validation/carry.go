// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// KeepAllocated puts into svc what had been allocated for old and what the client did not send: who sends the manifest
// of a Service again, without clusterIP and node ports, keeps them. Without an old Service there is nothing to keep.
func KeepAllocated(svc, old *corev1.Service) {
	if old == nil {
		return
	}
	if HasClusterIP(old) && HasClusterIP(svc) {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(svc.Spec.ClusterIPs) == 0 {
			svc.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	}
	if AllocatesNodePorts(old) && AllocatesNodePorts(svc) {
		keepNodePorts(svc, old)
	}
	if HasHealthCheckNodePort(old) && HasHealthCheckNodePort(svc) && svc.Spec.HealthCheckNodePort == 0 {
		svc.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// keepNodePorts matches ports by name, and leaves a node port alone that svc names for another port.
func keepNodePorts(svc, old *corev1.Service) {
	named := nodePortsOf(svc)
	before := make(map[string]int32, len(old.Spec.Ports))
	for _, port := range old.Spec.Ports {
		before[port.Name] = port.NodePort
	}
	for i := range svc.Spec.Ports {
		if port := &svc.Spec.Ports[i]; port.NodePort == 0 && !named.Has(before[port.Name]) {
			port.NodePort = before[port.Name]
		}
	}
}

// nodePortsOf returns the node ports that svc names.
func nodePortsOf(svc *corev1.Service) sets.Set[int32] {
	named := sets.New[int32]()
	for _, port := range svc.Spec.Ports {
		if port.NodePort != 0 {
			named.Insert(port.NodePort)
		}
	}
	return named
}

// NormalizeClusterIPs brings clusterIP and clusterIPs in step where the client changed one of them, old being what is
// stored (nil at a creation). Where it changed both, they are left as they are, and validated.
func NormalizeClusterIPs(svc, old *corev1.Service) {
	one, all := svc.Spec.ClusterIP, svc.Spec.ClusterIPs
	if old == nil {
		if one != "" && len(all) == 0 {
			svc.Spec.ClusterIPs = []string{one}
		}
		return
	}
	switch {
	case one == old.Spec.ClusterIP:
		// A client that does not know clusterIPs sends none.
		if len(all) == 0 && len(old.Spec.ClusterIPs) > 0 {
			svc.Spec.ClusterIPs = old.Spec.ClusterIPs
		}
	case !sameClusterIPs(svc, old):
		// It changed both.
	case one == "":
		svc.Spec.ClusterIPs = nil
	default:
		svc.Spec.ClusterIPs = []string{one}
	}
}

// ClearUnused clears what a change from old's type to svc's leaves without meaning, if the client sent it as it was
// stored. What it clears may be allocated: compare old, not svc, to see what to release.
func ClearUnused(svc, old *corev1.Service) {
	if old == nil {
		return
	}
	now, before := &svc.Spec, &old.Spec
	if HasClusterIP(old) && !HasClusterIP(svc) {
		if now.ClusterIP == before.ClusterIP && sameClusterIPs(svc, old) {
			now.ClusterIP, now.ClusterIPs = "", nil
		}
		if sameFamilies(svc, old) {
			now.IPFamilies = nil
		}
		if policyOf(svc) == policyOf(old) {
			now.IPFamilyPolicy = nil
		}
	}
	if HasNodePorts(old) && !HasNodePorts(svc) && nodePortsOf(old).IsSuperset(nodePortsOf(svc)) {
		for i := range now.Ports {
			now.Ports[i].NodePort = 0
		}
	}
	if HasHealthCheckNodePort(old) && !HasHealthCheckNodePort(svc) && now.HealthCheckNodePort == before.HealthCheckNodePort {
		now.HealthCheckNodePort = 0
	}
	if before.Type == corev1.ServiceTypeLoadBalancer && now.Type != corev1.ServiceTypeLoadBalancer {
		if equalPtr(now.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts) {
			now.AllocateLoadBalancerNodePorts = nil
		}
		if equalPtr(now.LoadBalancerClass, before.LoadBalancerClass) {
			now.LoadBalancerClass = nil
		}
	}
	if isExternal(old) && !isExternal(svc) && now.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		now.ExternalTrafficPolicy = ""
	}
	if now.Type != corev1.ServiceTypeLoadBalancer {
		svc.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}
