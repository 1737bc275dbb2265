// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// pick draws one of the values, mostly the first: a Service with many odd fields is refused, and says nothing.
func pick[T any](t *rapid.T, label string, values ...T) T {
	if rapid.IntRange(0, 3).Draw(t, label+" as usual") > 0 {
		return values[0]
	}
	return rapid.SampledFrom(values).Draw(t, label)
}

// draw draws one of the values.
func draw[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

// drawService draws a Service as a client might write it: often valid, often nearly so.
func drawService(t *rapid.T) *corev1.Service {
	svc := newService()
	spec := &svc.Spec
	spec.Type = draw(t, "type", "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName)
	spec.Selector = draw(t, "selector", nil, map[string]string{"a": "b"})
	spec.ExternalName = pick(t, "externalName", "blue.example.com", "", "a_b")
	list := pick(t, "clusterIPs", nil, []string{"None"}, []string{"10.96.0.7"}, []string{"2001:db8::7"}, []string{"10.96.0.7", "2001:db8::7"},
		[]string{"2001:db8::7", "10.96.0.7"}, []string{"10.96.0.8"}, []string{"10.96.0.7", "10.96.0.8"}, []string{""}, []string{"x"}, []string{"None", "10.96.0.7"},
		[]string{"10.96.0.7", "2001:db8::7", "10.96.0.8"}, []string{"10.96.0.7", ""})
	spec.ClusterIPs = slices.Clone(list)
	if len(list) > 0 {
		spec.ClusterIP = list[0]
	}
	if pick(t, "clusterIP by itself", false, true) {
		spec.ClusterIP = pick(t, "clusterIP", "", "None", "10.96.0.7", "2001:db8::7", "x")
	}
	spec.IPFamilies = slices.Clone(pick(t, "families", nil, v4Only, v4v6, v6v4, []corev1.IPFamily{"IPv6"}, []corev1.IPFamily{"IPv5"}, []corev1.IPFamily{"IPv4", "IPv4"}))
	if p := draw(t, "policy", "", single, prefer, require, "TripleStack"); p != "" {
		spec.IPFamilyPolicy = &p
	}
	spec.Ports = nil
	for i := range pick(t, "ports", 1, 0, 2) {
		spec.Ports = append(spec.Ports, corev1.ServicePort{
			Name: pick(t, "name", string("ab"[i]), "", "A"), Port: pick(t, "port", 80+int32(i), 80, 0), NodePort: pick[int32](t, "nodePort", 0, 30000, 30001),
			Protocol: pick(t, "protocol", "", corev1.ProtocolTCP, corev1.ProtocolUDP), TargetPort: pick(t, "target", intstr.IntOrString{}, intstr.FromString("http")),
		})
	}
	spec.SessionAffinity = pick(t, "affinity", "", corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP)
	spec.ExternalTrafficPolicy = pick(t, "external", "", corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	spec.HealthCheckNodePort = pick[int32](t, "healthCheck", 0, 30500)
	spec.LoadBalancerClass = pick(t, "class", nil, new("example.com/one"))
	spec.AllocateLoadBalancerNodePorts = pick(t, "allocate", nil, new(true), new(false))
	spec.InternalTrafficPolicy = pick(t, "internal", nil, new(corev1.ServiceInternalTrafficPolicyLocal))
	return svc
}

// accept does what the storage does, with an allocator that always has an address. It reports whether svc is accepted.
func accept(svc, old *corev1.Service, server []corev1.IPFamily) bool {
	DefaultService(svc)
	KeepAllocated(svc, old)
	NormalizeClusterIPs(svc, old)
	if len(DefaultFamilies(svc, old, server)) > 0 {
		return false
	}
	spec := &svc.Spec
	if HasClusterIP(svc) && !(len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] == corev1.ClusterIPNone) {
		for i := len(spec.ClusterIPs); i < len(spec.IPFamilies); i++ {
			spec.ClusterIPs = append(slices.Clip(spec.ClusterIPs), map[corev1.IPFamily]string{"IPv4": "10.96.0.9", "IPv6": "2001:db8::9"}[spec.IPFamilies[i]])
		}
		if len(spec.ClusterIPs) > 0 && spec.ClusterIP == "" {
			spec.ClusterIP = spec.ClusterIPs[0]
		}
	}
	if HasHealthCheckNodePort(svc) && spec.HealthCheckNodePort == 0 {
		spec.HealthCheckNodePort = 30555
	}
	if old == nil {
		return len(Service(svc)) == 0
	}
	ClearUnused(svc, old)
	return len(ServiceUpdate(svc, old)) == 0
}

// Whatever clients send, what is accepted is sound, and keeps its first address for as long as it has addresses.
func TestWhatIsAcceptedIsSound(t *testing.T) {
	created, updated := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		server := draw(t, "server", v4Only, v4v6, v6v4)
		svc := drawService(t)
		if !accept(svc, nil, server) {
			return
		}
		created++
		sound(t, svc)
		svc.ResourceVersion = "1"
		again := svc.DeepCopy()
		if !accept(again, svc, server) || !cmp.Equal(svc, again) {
			t.Fatalf("written again it is not the same:\n%s", cmp.Diff(svc, again))
		}

		now := drawService(t)
		if rapid.Bool().Draw(t, "read, modify, write") {
			changed := now
			now = svc.DeepCopy()
			now.Spec.Type, now.Spec.ExternalName = changed.Spec.Type, changed.Spec.ExternalName
			if rapid.Bool().Draw(t, "families too") {
				now.Spec.IPFamilyPolicy, now.Spec.IPFamilies = changed.Spec.IPFamilyPolicy, changed.Spec.IPFamilies
			}
		}
		now.ResourceVersion = "1"
		before := svc.DeepCopy()
		ok := accept(now, svc, server)
		if !cmp.Equal(before, svc) {
			t.Fatalf("the stored object was changed:\n%s", cmp.Diff(before, svc))
		}
		if !ok {
			return
		}
		updated++
		sound(t, now)
		if HasClusterIP(svc) && HasClusterIP(now) && now.Spec.ClusterIP != svc.Spec.ClusterIP {
			t.Fatalf("clusterIP %q became %q", svc.Spec.ClusterIP, now.Spec.ClusterIP)
		}
	})
	if created == 0 {
		t.Error("no creation was accepted: that says nothing")
	}
	t.Logf("accepted: %d creations, %d updates", created, updated)
}

// sound fails unless addresses, families and type go together.
func sound(t *rapid.T, svc *corev1.Service) {
	spec := &svc.Spec
	if !HasClusterIP(svc) {
		if spec.ClusterIP != "" || len(spec.ClusterIPs) > 0 || len(spec.IPFamilies) > 0 || spec.IPFamilyPolicy != nil {
			t.Fatalf("ExternalName with %q, %v, %v, %v", spec.ClusterIP, spec.ClusterIPs, spec.IPFamilies, policyOf(svc))
		}
		return
	}
	if len(spec.ClusterIPs) == 0 || spec.ClusterIP != spec.ClusterIPs[0] {
		t.Fatalf("clusterIP %q, clusterIPs %v", spec.ClusterIP, spec.ClusterIPs)
	}
	if policyOf(svc) == "" || len(spec.IPFamilies) == 0 || len(spec.IPFamilies) > 2 || policyOf(svc) == single && len(spec.IPFamilies) > 1 {
		t.Fatalf("policy %q, families %v", policyOf(svc), spec.IPFamilies)
	}
	if IsHeadless(svc) {
		return
	}
	if len(spec.ClusterIPs) != len(spec.IPFamilies) {
		t.Fatalf("addresses %v, families %v", spec.ClusterIPs, spec.IPFamilies)
	}
	for i, a := range spec.ClusterIPs {
		if FamilyOf(a) != spec.IPFamilies[i] {
			t.Fatalf("addresses %v, families %v", spec.ClusterIPs, spec.IPFamilies)
		}
	}
}
