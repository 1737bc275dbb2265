// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	single  = corev1.IPFamilyPolicySingleStack
	prefer  = corev1.IPFamilyPolicyPreferDualStack
	require = corev1.IPFamilyPolicyRequireDualStack
)

// What a client may create, and what it may not: kind of error and path as kube-apiserver 1.37 has them.
func TestService(t *testing.T) {
	lb := typed(corev1.ServiceTypeLoadBalancer)
	nodePort := typed(corev1.ServiceTypeNodePort)
	healthCheck := func(n int32) edit { return func(svc *corev1.Service) { svc.Spec.HealthCheckNodePort = n } }
	set := func(change func(*corev1.ServiceSpec)) edit { return func(svc *corev1.Service) { change(&svc.Spec) } }
	annotated := func(key, value string) edit {
		return func(svc *corev1.Service) { svc.Annotations = map[string]string{key: value} }
	}
	for name, tc := range map[string]struct {
		edits []edit
		want  []string
	}{
		"plain":                   {},
		"node port":               {edits: []edit{nodePort}},
		"load balancer":           {edits: []edit{lb}},
		"external name":           {edits: []edit{externalName}},
		"external name, dot":      {edits: []edit{externalName, set(func(s *corev1.ServiceSpec) { s.ExternalName += "." })}},
		"external name, portless": {edits: []edit{externalName, withPorts()}},
		"headless":                {edits: []edit{headless}},
		"headless, portless":      {edits: []edit{headless, withPorts()}},
		"two ports":               {edits: []edit{withPorts(http, https)}},
		"one number, two protocols": {edits: []edit{withPorts(
			corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, corev1.ServicePort{Name: "dns-tcp", Port: 53})}},
		"name that begins with a digit": {edits: []edit{func(svc *corev1.Service) { svc.Name = "1blue" }}},

		"name with a dot":   {edits: []edit{func(svc *corev1.Service) { svc.Name = "a.b" }}, want: []string{"Invalid metadata.name"}},
		"no name":           {edits: []edit{func(svc *corev1.Service) { svc.Name = "" }}, want: []string{"Required metadata.name"}},
		"no namespace":      {edits: []edit{func(svc *corev1.Service) { svc.Namespace = "" }}, want: []string{"Required metadata.namespace"}},
		"unknown type":      {edits: []edit{typed("Cloud")}, want: []string{"NotSupported spec.type"}},
		"no ports":          {edits: []edit{withPorts()}, want: []string{"Required spec.ports"}},
		"port 0":            {edits: []edit{withPorts(corev1.ServicePort{TargetPort: intstr.FromInt32(1)})}, want: []string{"Invalid spec.ports[0].port"}},
		"port 65536":        {edits: []edit{withPorts(corev1.ServicePort{Port: 65536, TargetPort: intstr.FromInt32(1)})}, want: []string{"Invalid spec.ports[0].port"}},
		"target port":       {edits: []edit{withPorts(corev1.ServicePort{Port: 80, TargetPort: intstr.FromInt32(70000)})}, want: []string{"Invalid spec.ports[0].targetPort"}},
		"target port name":  {edits: []edit{withPorts(corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("Not_A_Name")})}, want: []string{"Invalid spec.ports[0].targetPort"}},
		"protocol":          {edits: []edit{withPorts(corev1.ServicePort{Port: 80, Protocol: "ICMP"})}, want: []string{"NotSupported spec.ports[0].protocol"}},
		"app protocol":      {edits: []edit{withPorts(corev1.ServicePort{Port: 80, AppProtocol: new("a b")})}, want: []string{"Invalid spec.ports[0].appProtocol"}},
		"port name":         {edits: []edit{withPorts(corev1.ServicePort{Port: 80, Name: "HTTP"})}, want: []string{"Invalid spec.ports[0].name"}},
		"nameless of two":   {edits: []edit{withPorts(http, corev1.ServicePort{Port: 81})}, want: []string{"Required spec.ports[1].name"}},
		"two of one name":   {edits: []edit{withPorts(http, corev1.ServicePort{Name: "http", Port: 81})}, want: []string{"Duplicate spec.ports[1].name"}},
		"two of one number": {edits: []edit{withPorts(http, corev1.ServicePort{Name: "web", Port: 80})}, want: []string{"Duplicate spec.ports[1]"}},
		"node port of a ClusterIP": {edits: []edit{withPorts(corev1.ServicePort{Port: 80, NodePort: 30000})},
			want: []string{"Forbidden spec.ports[0].nodePort"}},
		"node port twice": {edits: []edit{nodePort, withPorts(
			corev1.ServicePort{Name: "a", Port: 80, NodePort: 30000}, corev1.ServicePort{Name: "b", Port: 81, NodePort: 30000})},
			want: []string{"Duplicate spec.ports[1].nodePort"}},
		"selector key":   {edits: []edit{set(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a b": "c"} })}, want: []string{"Invalid spec.selector"}},
		"selector value": {edits: []edit{set(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a": "b c"} })}, want: []string{"Invalid spec.selector"}},
		"affinity":       {edits: []edit{set(func(s *corev1.ServiceSpec) { s.SessionAffinity = "Cookie" })}, want: []string{"NotSupported spec.sessionAffinity"}},
		"affinity timeout 0": {edits: []edit{affinityTimeout(0)},
			want: []string{"Invalid spec.sessionAffinityConfig.clientIP.timeoutSeconds"}},
		"affinity timeout of a day": {edits: []edit{affinityTimeout(86400)}},
		"affinity timeout beyond a day": {edits: []edit{affinityTimeout(86401)},
			want: []string{"Invalid spec.sessionAffinityConfig.clientIP.timeoutSeconds"}},

		"no external name":       {edits: []edit{typed(corev1.ServiceTypeExternalName)}, want: []string{"Required spec.externalName"}},
		"external name, bad":     {edits: []edit{externalName, set(func(s *corev1.ServiceSpec) { s.ExternalName = "a_b" })}, want: []string{"Invalid spec.externalName"}},
		"external name, address": {edits: []edit{externalName, addresses("10.96.0.5")}, want: []string{"Forbidden spec.clusterIPs"}},
		"external name, families": {edits: []edit{externalName, withFamilies(corev1.IPv4Protocol), policy(single)},
			want: []string{"Forbidden spec.ipFamilies", "Forbidden spec.ipFamilyPolicy"}},
		"external name, bad internal policy": {edits: []edit{externalName, set(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Far")) })},
			want: []string{"NotSupported spec.internalTrafficPolicy"}},

		"None with node ports":     {edits: []edit{nodePort, headless}, want: []string{"Invalid spec.clusterIPs[0]"}},
		"None with load balancer":  {edits: []edit{lb, headless}, want: []string{"Invalid spec.clusterIPs[0]"}},
		"external IP":              {edits: []edit{externalIPsOf("192.0.2.1")}},
		"external IP, no address":  {edits: []edit{externalIPsOf("blue")}, want: []string{"Invalid spec.externalIPs[0]"}},
		"external IP, loopback":    {edits: []edit{externalIPsOf("127.0.0.1")}, want: []string{"Invalid spec.externalIPs[0]"}},
		"external IP, unspecified": {edits: []edit{externalIPsOf("::")}, want: []string{"Invalid spec.externalIPs[0]"}},
		"external IP, link-local":  {edits: []edit{externalIPsOf("192.0.2.1", "169.254.1.1")}, want: []string{"Invalid spec.externalIPs[1]"}},
		"external IP, multicast":   {edits: []edit{externalIPsOf("224.0.0.5")}, want: []string{"Invalid spec.externalIPs[0]"}},

		"source ranges":                {edits: []edit{lb, sourceRangesOf(" 192.0.2.0/24 ")}},
		"bad source range":             {edits: []edit{lb, sourceRangesOf("192.0.2.0")}, want: []string{"Invalid spec.LoadBalancerSourceRanges[0]"}},
		"source ranges of a ClusterIP": {edits: []edit{sourceRangesOf("192.0.2.0/24")}, want: []string{"Forbidden spec.LoadBalancerSourceRanges"}},
		"source ranges, annotation":    {edits: []edit{lb, annotated(corev1.AnnotationLoadBalancerSourceRangesKey, "192.0.2.0/24, 198.51.100.0/24")}},
		"bad source range, annotation": {edits: []edit{lb, annotated(corev1.AnnotationLoadBalancerSourceRangesKey, "192.0.2.0/24,x")},
			want: []string{"Invalid metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]"}},
		"source ranges of a ClusterIP, annotation": {edits: []edit{annotated(corev1.AnnotationLoadBalancerSourceRangesKey, "")},
			want: []string{"Forbidden metadata.annotations[service.beta.kubernetes.io/load-balancer-source-ranges]"}},
		"topology, two minds": {edits: []edit{func(svc *corev1.Service) {
			svc.Annotations = map[string]string{corev1.AnnotationTopologyMode: "Auto", corev1.DeprecatedAnnotationTopologyAwareHints: "Disabled"}
		}}, want: []string{"Invalid metadata.annotations[service.kubernetes.io/topology-mode]"}},

		"class":                {edits: []edit{lb, set(func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/one") })}},
		"bad class":            {edits: []edit{lb, set(func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("a/b/c") })}, want: []string{"Invalid spec.loadBalancerClass"}},
		"class of a ClusterIP": {edits: []edit{set(func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/one") })}, want: []string{"Forbidden spec.loadBalancerClass"}},
		"allocation of a ClusterIP": {edits: []edit{set(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = new(false) })},
			want: []string{"Forbidden spec.allocateLoadBalancerNodePorts"}},
		"external policy of a ClusterIP": {edits: []edit{local}, want: []string{"Invalid spec.externalTrafficPolicy"}},
		"external policy, externalIPs":   {edits: []edit{local, externalIPsOf("192.0.2.1")}},
		"external policy":                {edits: []edit{nodePort, set(func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = "Far" })}, want: []string{"NotSupported spec.externalTrafficPolicy"}},
		"health check":                   {edits: []edit{lb, local, healthCheck(30500)}},
		"health check, none":             {edits: []edit{lb, local}, want: []string{"Required spec.healthCheckNodePort"}},
		"health check, not a port":       {edits: []edit{lb, local, healthCheck(70000)}, want: []string{"Invalid spec.healthCheckNodePort"}},
		"health check, policy Cluster":   {edits: []edit{lb, healthCheck(30500)}, want: []string{"Invalid spec.healthCheckNodePort"}},
		"internal policy":                {edits: []edit{set(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Far")) })}, want: []string{"NotSupported spec.internalTrafficPolicy"}},
		"distribution":                   {edits: []edit{set(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferSameNode") })}},
		"bad distribution":               {edits: []edit{set(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferFar") })}, want: []string{"NotSupported spec.trafficDistribution"}},

		"clusterIP, no address":  {edits: []edit{addresses("blue")}, want: []string{"Invalid spec.clusterIPs[0]"}},
		"clusterIPs differ":      {edits: []edit{addresses("10.96.0.5"), set(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.6" })}, want: []string{"Invalid spec.clusterIPs"}},
		"clusterIPs alone":       {edits: []edit{addresses("10.96.0.5"), set(func(s *corev1.ServiceSpec) { s.ClusterIP = "" })}, want: []string{"Invalid spec.clusterIPs"}},
		"three":                  {edits: []edit{addresses("10.96.0.5", "2001:db8::5", "10.96.0.6")}, want: []string{"Invalid spec.clusterIPs"}},
		"two of one family":      {edits: []edit{addresses("10.96.0.5", "10.96.0.6")}, want: []string{"Invalid spec.clusterIPs"}},
		"None and one":           {edits: []edit{addresses("None", "10.96.0.5")}, want: []string{"Invalid spec.clusterIPs"}},
		"one and None":           {edits: []edit{addresses("10.96.0.5", "None")}, want: []string{"Invalid spec.clusterIPs[1]"}},
		"family against address": {edits: []edit{addresses("10.96.0.5"), withFamilies(corev1.IPv6Protocol)}, want: []string{"Invalid spec.clusterIPs[0]"}},
		"unknown family":         {edits: []edit{withFamilies("IPv5")}, want: []string{"NotSupported spec.ipFamilies[0]"}},
		"family twice":           {edits: []edit{withFamilies(corev1.IPv4Protocol, corev1.IPv4Protocol)}, want: []string{"Duplicate spec.ipFamilies[1]"}},
		"unknown policy":         {edits: []edit{policy("TripleStack")}, want: []string{"NotSupported spec.ipFamilyPolicy"}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := newService(tc.edits...)
			DefaultService(svc)
			NormalizeClusterIPs(svc, nil)
			wantErrors(t, Service(svc), tc.want...)
		})
	}
}

func affinityTimeout(seconds int32) edit {
	return func(svc *corev1.Service) {
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
}

func externalIPsOf(a ...string) edit {
	return func(svc *corev1.Service) { svc.Spec.ExternalIPs = a }
}

func sourceRangesOf(r ...string) edit {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerSourceRanges = r }
}

// Nothing is filled in by validation: what the defaults would have set is missed.
func TestService_WithoutDefaults(t *testing.T) {
	wantErrors(t, Service(newService()),
		"Required spec.type", "Required spec.sessionAffinity", "Required spec.ports[0].protocol", "Invalid spec.ports[0].targetPort")
	svc := newService(typed(corev1.ServiceTypeLoadBalancer))
	svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	wantErrors(t, Service(svc),
		"Required spec.sessionAffinityConfig", "Required spec.ports[0].protocol", "Invalid spec.ports[0].targetPort",
		"Required spec.allocateLoadBalancerNodePorts", "Required spec.externalTrafficPolicy", "Required spec.internalTrafficPolicy")
}

// An address has one canonical name, or its spelling is refused. clusterIPs take the spellings that kube-apiserver
// takes, for which there is one canonical name of the IPAddress.
func TestS53_SpellingsOfAnAddress(t *testing.T) {
	for _, tc := range []struct {
		address   string
		clusterIP bool
		name      bool
	}{
		{"10.96.0.5", true, true},
		{"2001:db8::5", true, true},
		{"2001:DB8::0005", true, false},
		{"2001:db8:0:0:0:0:0:5", true, false},
		{"::ffff:10.96.0.5", false, false},
		{"10.096.0.5", false, false},
		{"fe80::1%eth0", false, false},
		{"10.96.0", false, false},
		{" 10.96.0.5", false, false},
		{"10.96.0.5/32", false, false},
	} {
		t.Run(tc.address, func(t *testing.T) {
			svc := newService(addresses(tc.address))
			DefaultService(svc)
			want := []string{}
			if !tc.clusterIP {
				want = append(want, "Invalid spec.clusterIPs[0]")
			}
			wantErrors(t, Service(svc), want...)

			want = []string{}
			if !tc.name {
				want = append(want, "Invalid metadata.name")
			}
			wantErrors(t, IPAddress(newIPAddress(tc.address)), want...)
			if tc.clusterIP && FamilyOf(tc.address) == "" {
				t.Errorf("%s is accepted, and of no family", tc.address)
			}
		})
	}
}
