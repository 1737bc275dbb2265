// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// update does to now, which was read as old and then changed, what the storage does, allocation aside.
func update(now, old *corev1.Service, server []corev1.IPFamily) field.ErrorList {
	DefaultService(now)
	KeepAllocated(now, old)
	NormalizeClusterIPs(now, old)
	if errs := DefaultFamilies(now, old, server); len(errs) > 0 {
		return errs
	}
	ClearUnused(now, old)
	return ServiceUpdate(now, old)
}

func noAddress(svc *corev1.Service) { svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil }

// bare takes away what the server had filled in, as a client does that sends its own manifest again.
func bare(svc *corev1.Service) {
	noAddress(svc)
	svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = nil, nil
	svc.Spec.HealthCheckNodePort = 0
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].NodePort = 0
	}
}

// What may become of a stored Service. addresses: those that are left for the allocator to add to, nil for none.
func TestServiceUpdate(t *testing.T) {
	lb, nodePort, clusterIP := typed(corev1.ServiceTypeLoadBalancer), typed(corev1.ServiceTypeNodePort), typed(corev1.ServiceTypeClusterIP)
	v4, v6 := []string{"10.96.0.7"}, []string{"2001:db8::7"}
	both := []string{"10.96.0.7", "2001:db8::7"}
	class := func(name string) edit { return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name } }
	only := func(address string) edit { return func(svc *corev1.Service) { svc.Spec.ClusterIP = address } }
	for name, tc := range map[string]struct {
		server    []corev1.IPFamily
		before    []edit
		change    []edit
		errs      []string
		addresses []string
		families  []corev1.IPFamily
	}{
		"nothing":            {addresses: v4, families: v4Only},
		"manifest again":     {change: []edit{bare}, addresses: v4, families: v4Only},
		"address again":      {change: []edit{bare, only("10.96.0.7")}, addresses: v4, families: v4Only},
		"other address":      {change: []edit{only("10.96.0.8")}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"other clusterIPs":   {change: []edit{addresses("10.96.0.8")}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"address to None":    {change: []edit{only("None")}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"None to address":    {before: []edit{headless}, change: []edit{only("10.96.0.8")}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"None stays":         {before: []edit{headless}, change: []edit{bare}, addresses: []string{"None"}, families: v4Only},
		"clusterIPs against": {change: []edit{func(svc *corev1.Service) { svc.Spec.ClusterIPs = []string{"10.96.0.8"} }}, errs: []string{"Invalid spec.clusterIPs"}},

		"second family":            {server: v4v6, change: []edit{policy(require)}, addresses: v4, families: v4v6},
		"second family preferred":  {server: v4v6, change: []edit{policy(prefer)}, addresses: v4, families: v4v6},
		"second family, of one":    {server: v4Only, change: []edit{policy(require)}, errs: []string{"Invalid spec.ipFamilyPolicy"}},
		"second address":           {server: v4v6, change: []edit{policy(require), addresses(both...)}, addresses: both, families: v4v6},
		"second address, single":   {server: v4v6, change: []edit{addresses(both...)}, errs: []string{"Invalid spec.ipFamilyPolicy"}},
		"other family":             {server: v4v6, change: []edit{withFamilies(corev1.IPv6Protocol)}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"other family first":       {server: v4v6, change: []edit{policy(require), withFamilies(v6v4...)}, errs: []string{"Invalid spec.clusterIPs[0]"}},
		"dual to single":           {server: v4v6, before: []edit{policy(require)}, change: []edit{policy(single)}, addresses: v4, families: v4Only},
		"dual to single, explicit": {server: v4v6, before: []edit{policy(require)}, change: []edit{policy(single), addresses(v4...), withFamilies(v4Only...)}, addresses: v4, families: v4Only},
		"dual loses an address":    {server: v4v6, before: []edit{policy(require)}, change: []edit{addresses(v4...)}, errs: []string{"Invalid spec.ipFamilyPolicy"}},
		"dual loses a family":      {server: v4v6, before: []edit{policy(require)}, change: []edit{withFamilies(v4Only...)}, errs: []string{"Invalid spec.ipFamilyPolicy"}},
		"dual loses the first":     {server: v4v6, before: []edit{policy(require)}, change: []edit{policy(single), addresses(v6...), withFamilies(corev1.IPv6Protocol)}, errs: []string{"Invalid spec.clusterIPs[0]", "Invalid spec.ipFamilies[0]"}},
		"dual, other second":       {server: v4v6, before: []edit{policy(require)}, change: []edit{addresses("10.96.0.7", "2001:db8::8")}, errs: []string{"Invalid spec.clusterIPs[1]"}},
		"dual, swapped":            {server: v4v6, before: []edit{policy(require)}, change: []edit{addresses("2001:db8::7", "10.96.0.7"), withFamilies(v6v4...)}, errs: []string{"Invalid spec.clusterIPs[0]", "Invalid spec.clusterIPs[1]", "Invalid spec.ipFamilies[0]", "Invalid spec.ipFamilies[0]"}},
		"headless families":        {server: v4v6, before: []edit{headless}, change: []edit{withFamilies(corev1.IPv6Protocol)}, addresses: []string{"None"}, families: []corev1.IPFamily{corev1.IPv6Protocol}},

		"to external name":          {change: []edit{externalName}},
		"to external name, dual":    {server: v4v6, before: []edit{policy(require)}, change: []edit{externalName}},
		"to external name, bare":    {change: []edit{externalName, bare}},
		"to external name, address": {change: []edit{externalName, addresses("10.96.0.8")}, errs: []string{"Forbidden spec.clusterIPs"}},
		"from external name":        {before: []edit{externalName}, change: []edit{clusterIP}, families: v4Only},
		"from external name, dual":  {server: v6v4, before: []edit{externalName}, change: []edit{clusterIP, policy(require)}, families: v6v4},
		"from external name, given": {before: []edit{externalName}, change: []edit{clusterIP, only("10.96.0.9")}, addresses: []string{"10.96.0.9"}, families: v4Only},
		"from external name, None":  {before: []edit{externalName}, change: []edit{clusterIP, headless}, addresses: []string{"None"}, families: v4Only},
		"None to external name":     {before: []edit{headless}, change: []edit{externalName}},

		"to node port":             {change: []edit{nodePort}, addresses: v4, families: v4Only},
		"from node port":           {before: []edit{nodePort}, change: []edit{clusterIP}, addresses: v4, families: v4Only},
		"from node port, another":  {before: []edit{nodePort}, change: []edit{clusterIP, func(svc *corev1.Service) { svc.Spec.Ports[0].NodePort = 31000 }}, errs: []string{"Forbidden spec.ports[0].nodePort"}},
		"from load balancer":       {before: []edit{lb, local, class("example.com/one")}, change: []edit{clusterIP}, addresses: v4, families: v4Only},
		"from load balancer, bare": {before: []edit{lb}, change: []edit{bare, externalName}},
		"class changes":            {before: []edit{lb, class("example.com/one")}, change: []edit{class("example.com/two")}, errs: []string{"Invalid spec.loadBalancerClass"}},
		"class appears":            {before: []edit{lb}, change: []edit{class("example.com/two")}, errs: []string{"Invalid spec.loadBalancerClass"}},
		"health check changes":     {before: []edit{lb, local}, change: []edit{func(svc *corev1.Service) { svc.Spec.HealthCheckNodePort = 30501 }}, errs: []string{"Forbidden spec.healthCheckNodePort"}},
		"health check, bare":       {before: []edit{lb, local}, change: []edit{bare}, addresses: v4, families: v4Only},
		"local to cluster":         {before: []edit{lb, local}, change: []edit{func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = "Cluster" }}, addresses: v4, families: v4Only},
		"name changes":             {change: []edit{func(svc *corev1.Service) { svc.Name = "green" }}, errs: []string{"Invalid metadata.name"}},
		"ports go":                 {change: []edit{withPorts()}, errs: []string{"Required spec.ports"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := tc.server
			if server == nil {
				server = v4Only
			}
			old := stored(server, tc.before...)
			wantErrors(t, ServiceUpdate(old.DeepCopy(), old))
			untouched := old.DeepCopy()
			now := old.DeepCopy()
			for _, e := range tc.change {
				e(now)
			}
			errs := update(now, old, server)
			wantErrors(t, errs, tc.errs...)
			if diff := cmp.Diff(untouched, old); diff != "" {
				t.Errorf("the stored object was changed (-want +got):\n%s", diff)
			}
			if len(errs) > 0 {
				return
			}
			if !slices.Equal(now.Spec.ClusterIPs, tc.addresses) || !slices.Equal(now.Spec.IPFamilies, tc.families) {
				t.Errorf("addresses %v, families %v; want %v, %v", now.Spec.ClusterIPs, now.Spec.IPFamilies, tc.addresses, tc.families)
			}
		})
	}
}

// A server that gains or loses a family changes no Service that its author does not.
func TestServiceUpdate_PreferDualStackStaysAsItIs(t *testing.T) {
	for name, server := range map[string][2][]corev1.IPFamily{
		"gains": {v4Only, v4v6},
		"loses": {v4v6, v4Only},
	} {
		t.Run(name, func(t *testing.T) {
			old := stored(server[0], policy(prefer))
			now := old.DeepCopy()
			now.Labels = map[string]string{"a": "b"}
			wantErrors(t, update(now, old, server[1]))
			if diff := cmp.Diff(old.Spec, now.Spec); diff != "" {
				t.Errorf("(-old +now):\n%s", diff)
			}
		})
	}
}

// The node ports of a manifest that is sent again are found by the ports' names; one that is named elsewhere stays there.
func TestKeepAllocated_NodePorts(t *testing.T) {
	old := stored(v4Only, typed(corev1.ServiceTypeNodePort), withPorts(http, https))
	now := newService(typed(corev1.ServiceTypeNodePort), withPorts(https, http))
	KeepAllocated(now, old)
	if a, b := now.Spec.Ports[0].NodePort, now.Spec.Ports[1].NodePort; a != 30001 || b != 30000 {
		t.Errorf("https %d, http %d; want 30001, 30000", a, b)
	}
	now = newService(typed(corev1.ServiceTypeNodePort), withPorts(https, http))
	now.Spec.Ports[0].NodePort = 30000
	KeepAllocated(now, old)
	if a, b := now.Spec.Ports[0].NodePort, now.Spec.Ports[1].NodePort; a != 30000 || b != 0 {
		t.Errorf("https %d, http %d; want 30000, none", a, b)
	}
}

func TestClearUnused_WhatTheOldTypeHad(t *testing.T) {
	old := stored(v4Only, typed(corev1.ServiceTypeLoadBalancer), local, func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = new("example.com/one")
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	})
	now := old.DeepCopy()
	externalName(now)
	ClearUnused(now, old)
	want := newService(externalName)
	want.UID, want.ResourceVersion = old.UID, old.ResourceVersion
	DefaultService(want)
	DefaultService(now)
	if diff := cmp.Diff(want, now); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What an older rule let in is no reason to refuse a change of something else.
func TestServiceUpdate_StoredAddressesAreTakenAsTheyAre(t *testing.T) {
	old := stored(v4Only, externalIPsOf("192.0.2.01"), typed(corev1.ServiceTypeLoadBalancer), sourceRangesOf("192.0.2.01/24"))
	addresses("10.096.0.7")(old)
	now := old.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	wantErrors(t, update(now, old, v4Only))
	now.Spec.ExternalIPs = append(now.Spec.ExternalIPs, "192.0.2.02")
	wantErrors(t, update(now, old, v4Only), "Invalid spec.externalIPs[1]")
}

func TestServiceStatusUpdate(t *testing.T) {
	vip := new(corev1.LoadBalancerIPModeVIP)
	for name, tc := range map[string]struct {
		typ     corev1.ServiceType
		ingress corev1.LoadBalancerIngress
		want    []string
	}{
		"address":         {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: vip}, nil},
		"name":            {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{Hostname: "lb.example.com"}, nil},
		"ClusterIP":       {corev1.ServiceTypeClusterIP, corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: vip}, []string{"Forbidden status.loadBalancer.ingress"}},
		"no address":      {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "x", IPMode: vip}, []string{"Invalid status.loadBalancer.ingress[0].ip"}},
		"no mode":         {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1"}, []string{"Required status.loadBalancer.ingress[0].ipMode"}},
		"mode only":       {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IPMode: vip}, []string{"Forbidden status.loadBalancer.ingress[0].ipMode"}},
		"unknown mode":    {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "192.0.2.1", IPMode: new(corev1.LoadBalancerIPMode("x"))}, []string{"NotSupported status.loadBalancer.ingress[0].ipMode"}},
		"name is address": {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{Hostname: "192.0.2.1"}, []string{"Invalid status.loadBalancer.ingress[0].hostname"}},
		"bad name":        {corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{Hostname: "a_b"}, []string{"Invalid status.loadBalancer.ingress[0].hostname"}},
	} {
		t.Run(name, func(t *testing.T) {
			old := stored(v4Only, typed(tc.typ))
			now := old.DeepCopy()
			now.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{tc.ingress}
			wantErrors(t, ServiceStatusUpdate(now, old), tc.want...)
		})
	}
}
