// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestDefaultService(t *testing.T) {
	base := func(change func(*corev1.ServiceSpec)) corev1.ServiceSpec {
		spec := corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			Selector:              map[string]string{"app": "blue"},
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
			Ports:                 []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}},
		}
		change(&spec)
		return spec
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  func(*corev1.ServiceSpec)
	}{
		"plain": {want: func(*corev1.ServiceSpec) {}},
		"target by name stays": {
			edits: []edit{withPorts(corev1.ServicePort{Port: 443, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("tls")})},
			want: func(s *corev1.ServiceSpec) {
				s.Ports = []corev1.ServicePort{{Port: 443, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromString("tls")}}
			},
		},
		"empty target name": {
			edits: []edit{withPorts(corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("")})},
			want:  func(*corev1.ServiceSpec) {},
		},
		"client affinity": {
			edits: []edit{func(svc *corev1.Service) { svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }},
			want: func(s *corev1.ServiceSpec) {
				s.SessionAffinity = corev1.ServiceAffinityClientIP
				s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(10800))}}
			},
		},
		"no affinity, but its config": {
			edits: []edit{affinityTimeout(7), func(svc *corev1.Service) { svc.Spec.SessionAffinity = "" }},
			want:  func(*corev1.ServiceSpec) {},
		},
		"external IPs": {
			edits: []edit{externalIPsOf("192.0.2.1")},
			want: func(s *corev1.ServiceSpec) {
				s.ExternalIPs = []string{"192.0.2.1"}
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
			},
		},
		"load balancer": {
			edits: []edit{typed(corev1.ServiceTypeLoadBalancer)},
			want: func(s *corev1.ServiceSpec) {
				s.Type = corev1.ServiceTypeLoadBalancer
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
				s.AllocateLoadBalancerNodePorts = new(true)
			},
		},
		"load balancer that forgoes node ports": {
			edits: []edit{typed(corev1.ServiceTypeLoadBalancer), local, func(svc *corev1.Service) { svc.Spec.AllocateLoadBalancerNodePorts = new(false) }},
			want: func(s *corev1.ServiceSpec) {
				s.Type = corev1.ServiceTypeLoadBalancer
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
				s.AllocateLoadBalancerNodePorts = new(false)
			},
		},
		"external name": {
			edits: []edit{externalName, func(svc *corev1.Service) {
				svc.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
			}},
			want: func(s *corev1.ServiceSpec) {
				s.Type, s.ExternalName, s.InternalTrafficPolicy = corev1.ServiceTypeExternalName, "blue.example.com", nil
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			svc := newService(tc.edits...)
			DefaultService(svc)
			if diff := cmp.Diff(base(tc.want), svc.Spec); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := svc.DeepCopy()
			DefaultService(again)
			if diff := cmp.Diff(svc, again); diff != "" {
				t.Errorf("the second time it changed (-first +second):\n%s", diff)
			}
		})
	}
}

func TestDefaultService_IngressMode(t *testing.T) {
	svc := newService(typed(corev1.ServiceTypeLoadBalancer))
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com"}}
	DefaultService(svc)
	in := svc.Status.LoadBalancer.Ingress
	if deref(in[0].IPMode) != corev1.LoadBalancerIPModeVIP || in[1].IPMode != nil {
		t.Errorf("ingress %+v", in)
	}
}

// What families a new Service gets, and what is refused, for servers of one and of two families.
func TestDefaultFamilies_Create(t *testing.T) {
	type outcome struct {
		policy   corev1.IPFamilyPolicy
		families []corev1.IPFamily
		errs     []string
	}
	v6Only := []corev1.IPFamily{corev1.IPv6Protocol}
	for name, tc := range map[string]struct {
		edits  []edit
		server []corev1.IPFamily
		want   outcome
	}{
		"default, v4":        {server: v4Only, want: outcome{policy: single, families: v4Only}},
		"default, v4 and v6": {server: v4v6, want: outcome{policy: single, families: v4Only}},
		"default, v6 and v4": {server: v6v4, want: outcome{policy: single, families: v6Only}},
		"prefer, v4":         {edits: []edit{policy(prefer)}, server: v4Only, want: outcome{policy: prefer, families: v4Only}},
		"prefer, v4 and v6":  {edits: []edit{policy(prefer)}, server: v4v6, want: outcome{policy: prefer, families: v4v6}},
		"prefer v6":          {edits: []edit{policy(prefer), withFamilies(corev1.IPv6Protocol)}, server: v4v6, want: outcome{policy: prefer, families: v6v4}},
		"require, v6 and v4": {edits: []edit{policy(require)}, server: v6v4, want: outcome{policy: require, families: v6v4}},
		"require, v4":        {edits: []edit{policy(require)}, server: v4Only, want: outcome{errs: []string{"Invalid spec.ipFamilyPolicy"}}},
		"v6 of v4":           {edits: []edit{withFamilies(corev1.IPv6Protocol)}, server: v4Only, want: outcome{errs: []string{"Invalid spec.ipFamilies[0]"}}},
		"v6 of both":         {edits: []edit{withFamilies(corev1.IPv6Protocol)}, server: v4v6, want: outcome{policy: single, families: v6Only}},
		"two, no policy":     {edits: []edit{withFamilies(v4v6...)}, server: v4v6, want: outcome{errs: []string{"Invalid spec.ipFamilyPolicy"}}},
		"two, prefer, v4": {edits: []edit{withFamilies(v4v6...), policy(prefer)}, server: v4Only,
			want: outcome{errs: []string{"Invalid spec.ipFamilies[1]"}}},

		"address of v6":        {edits: []edit{addresses("2001:db8::5")}, server: v4v6, want: outcome{policy: single, families: v6Only}},
		"address of v6, of v4": {edits: []edit{addresses("2001:db8::5")}, server: v4Only, want: outcome{errs: []string{"Invalid spec.clusterIPs[0]"}}},
		"two addresses": {edits: []edit{addresses("2001:db8::5", "10.96.0.5"), policy(require)}, server: v4v6,
			want: outcome{policy: require, families: v6v4}},
		"two addresses, no policy": {edits: []edit{addresses("2001:db8::5", "10.96.0.5")}, server: v4v6,
			want: outcome{errs: []string{"Invalid spec.ipFamilyPolicy"}}},
		"address against family": {edits: []edit{addresses("10.96.0.5"), withFamilies(corev1.IPv6Protocol)}, server: v4v6,
			want: outcome{errs: []string{"Invalid spec.clusterIPs[0]"}}},
		"address and second family": {edits: []edit{addresses("10.96.0.5"), policy(prefer)}, server: v4v6,
			want: outcome{policy: prefer, families: v4v6}},

		"headless":          {edits: []edit{headless}, server: v4v6, want: outcome{policy: single, families: v4Only}},
		"headless, require": {edits: []edit{headless, policy(require)}, server: v4Only, want: outcome{errs: []string{"Invalid spec.ipFamilyPolicy"}}},
		"manual, v4":        {edits: []edit{manual}, server: v4Only, want: outcome{policy: require, families: v4v6}},
		"manual, v6 first":  {edits: []edit{manual, withFamilies(corev1.IPv6Protocol)}, server: v4Only, want: outcome{policy: require, families: v6v4}},
		"manual, single":    {edits: []edit{manual, policy(single)}, server: v4v6, want: outcome{policy: single, families: v4Only}},
		"external name":     {edits: []edit{externalName}, server: v4v6},
	} {
		t.Run(name, func(t *testing.T) {
			svc := newService(tc.edits...)
			DefaultService(svc)
			NormalizeClusterIPs(svc, nil)
			errs := DefaultFamilies(svc, nil, tc.server)
			wantErrors(t, errs, tc.want.errs...)
			if len(errs) > 0 {
				return
			}
			if got := policyOf(svc); got != tc.want.policy {
				t.Errorf("policy %q, want %q", got, tc.want.policy)
			}
			if diff := cmp.Diff(tc.want.families, svc.Spec.IPFamilies); diff != "" {
				t.Errorf("families (-want +got):\n%s", diff)
			}
			wantErrors(t, Service(svc))
		})
	}
}

// The families that the server was configured for are the caller's: no Service writes into them.
func TestDefaultFamilies_LeavesTheServersFamilies(t *testing.T) {
	server := append(make([]corev1.IPFamily, 0, 8), v4v6...)
	svc := stored(server)
	svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, "x")
	if diff := cmp.Diff(v4v6, server); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
