// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// scenario is a story of a few calls. Its addresses, and the names of its cluster-scoped objects, are its own.
type scenario struct {
	name  string
	steps []step
}

func typed(typ corev1.ServiceType) edit { return spec(func(s *corev1.ServiceSpec) { s.Type = typ }) }

func spec(change func(*corev1.ServiceSpec)) edit {
	return func(svc *corev1.Service) { change(&svc.Spec) }
}

func addresses(a ...string) edit {
	return spec(func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = a[0], a })
}

// one sets clusterIP alone, as old clients do.
func one(a string) edit { return spec(func(s *corev1.ServiceSpec) { s.ClusterIP = a }) }

func policy(p corev1.IPFamilyPolicy) edit {
	return spec(func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &p })
}

func families(f ...corev1.IPFamily) edit {
	return spec(func(s *corev1.ServiceSpec) { s.IPFamilies = f })
}

func ports(p ...corev1.ServicePort) edit { return spec(func(s *corev1.ServiceSpec) { s.Ports = p }) }

func externalIPs(a ...string) edit { return spec(func(s *corev1.ServiceSpec) { s.ExternalIPs = a }) }

func named(port string, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: port, Port: number}
}

func nodePort(number int32) edit {
	return spec(func(s *corev1.ServiceSpec) { s.Ports[0].NodePort = number })
}

const (
	single  = corev1.IPFamilyPolicySingleStack
	prefer  = corev1.IPFamilyPolicyPreferDualStack
	require = corev1.IPFamilyPolicyRequireDualStack
	v4      = corev1.IPv4Protocol
	v6      = corev1.IPv6Protocol
)

var (
	clusterIP    = typed(corev1.ServiceTypeClusterIP)
	asNodePort   = typed(corev1.ServiceTypeNodePort)
	loadBalancer = typed(corev1.ServiceTypeLoadBalancer)
	externalName = spec(func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "blue.example.com"
	})
	headless     = one(corev1.ClusterIPNone)
	noSelector   = spec(func(s *corev1.ServiceSpec) { s.Selector = nil })
	local        = spec(func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	labelled     = edit(func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b"} })
	noAddress    = spec(func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "", nil })
	noFamilies   = spec(func(s *corev1.ServiceSpec) { s.IPFamilies, s.IPFamilyPolicy = nil, nil })
	noPorts      = ports()
	finalizer    = edit(func(svc *corev1.Service) { svc.Finalizers = []string{"example.com/hold"} })
	noFinalizers = edit(func(svc *corev1.Service) { svc.Finalizers = nil })
	ingress      = edit(func(svc *corev1.Service) {
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	})
)

func class(name string) edit {
	return spec(func(s *corev1.ServiceSpec) { s.LoadBalancerClass = &name })
}

// alone are the scenarios for a server of one family, IPv4.
var alone = []scenario{
	{"single: what a plain Service gets", []step{create("blue"), get("blue")}},
	{"single: dual-stack is preferred, required", []step{create("blue", policy(prefer)), create("green", policy(require))}},
	{"single: IPv6 is asked for", []step{create("blue", families(v6)), create("green", one("fd00:10:96::5")), create("red", policy(prefer), families(v4, v6))}},
	{"single: headless without selector has both families", []step{create("blue", headless, noSelector), create("green", headless, noSelector, families(v6))}},
	{"single: turned dual-stack", []step{create("blue"), update("blue", policy(prefer)), update("blue", policy(require))}},
}

// dual are the scenarios for a server of both families, IPv4 first.
var dual = []scenario{
	// Creation.
	{"a plain Service", []step{create("blue"), get("blue")}},
	{"a static address", []step{create("blue", one("10.96.4.1")), get("blue")}},
	{"a static address in the dynamic band", []step{create("blue", one("10.96.200.1"))}},
	{"a static address of IPv6", []step{create("blue", one("fd00:10:96::4:1"))}},
	{"a static address out of range", []step{create("blue", one("10.99.0.1"))}},
	{"the network and the broadcast address", []step{create("blue", one("10.96.0.0")), create("green", one("10.96.255.255"))}},
	{"an address that is taken", []step{create("blue", one("10.96.4.2")), create("green", one("10.96.4.2")), create("red", addresses("10.96.4.2"))}},
	{"an address that an IPAddress of another has", []step{createIP("10.96.4.3"), create("blue", one("10.96.4.3")), removeIP("10.96.4.3"), create("green", one("10.96.4.3"))}},
	{"an address after its Service was deleted", []step{create("blue", one("10.96.4.4")), remove("blue"), create("green", one("10.96.4.4"))}},
	{"spellings of an address", []step{create("blue", one("FD00:10:96::0004:0003")), create("green", one("10.096.0.5")), create("red", one("::ffff:10.96.0.5")), create("white", one("fe80::1%eth0"))}},
	{"one address in two spellings", []step{create("blue", one("FD00:10:96::4:4")), create("green", one("fd00:10:96::4:4"))}},
	{"dual-stack", []step{create("blue", policy(require)), create("green", policy(prefer)), create("red", policy(require), families(v6))}},
	{"dual-stack, both addresses given", []step{create("blue", policy(require), addresses("10.96.4.5", "fd00:10:96::4:5"))}},
	{"dual-stack, first address given", []step{create("blue", policy(prefer), one("10.96.4.6"))}},
	{"dual-stack, the second address is taken", []step{create("blue", one("fd00:10:96::4:7")), create("green", policy(require), addresses("10.96.4.7", "fd00:10:96::4:7")), create("red", one("10.96.4.7"))}},
	{"two addresses, no policy", []step{create("blue", addresses("10.96.4.8", "fd00:10:96::4:8"))}},
	{"two addresses of one family", []step{create("blue", policy(require), addresses("10.96.4.9", "10.96.4.10"))}},
	{"three addresses", []step{create("blue", policy(require), addresses("10.96.4.9", "fd00:10:96::4:9", "10.96.4.10"))}},
	{"clusterIP and clusterIPs differ", []step{create("blue", addresses("10.96.4.11"), one("10.96.4.12"))}},
	{"clusterIPs alone", []step{create("blue", addresses("10.96.4.13"), one(""))}},
	{"family against address", []step{create("blue", one("10.96.4.14"), families(v6))}},
	{"unknown family, unknown policy", []step{create("blue", families("IPv5")), create("green", policy("TripleStack")), create("red", families(v4, v4))}},
	{"headless", []step{create("blue", headless), create("green", headless, noPorts), create("red", headless, policy(require)), create("white", addresses("None", "10.96.4.15"))}},
	{"headless without selector", []step{create("blue", headless, noSelector), create("green", headless, noSelector, policy(single))}},
	{"None with another type", []step{create("blue", asNodePort, headless), create("green", loadBalancer, headless)}},
	{"external name", []step{create("blue", externalName), create("green", externalName, noPorts), get("blue")}},
	{"external name, refused", []step{
		create("blue", typed(corev1.ServiceTypeExternalName)),
		create("green", externalName, one("10.96.4.16")),
		create("red", externalName, families(v4), policy(single)),
		create("white", externalName, spec(func(s *corev1.ServiceSpec) { s.ExternalName = "a_b" })),
	}},
	{"names", []step{create("1blue"), create("blue.green"), create("Blue")}},
	{"an unknown type", []step{create("blue", typed("Cloud"))}},
	{"ports, missing and out of range", []step{
		create("blue", noPorts), create("green", ports(corev1.ServicePort{Port: 0})), create("red", ports(corev1.ServicePort{Port: 65536})),
		create("white", ports(corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("Not_A_Name")})),
		create("black", ports(corev1.ServicePort{Port: 80, Protocol: "ICMP"})),
	}},
	{"ports, names and duplicates", []step{
		create("blue", ports(named("", 80), named("b", 81))),
		create("green", ports(named("a", 80), named("a", 81))),
		create("red", ports(named("a", 80), named("b", 80))),
		create("white", ports(named("HTTP", 80))),
		create("black", ports(corev1.ServicePort{Port: 80, AppProtocol: new("a b")})),
		create("grey", ports(corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, named("dns-tcp", 53))),
	}},
	{"session affinity", []step{
		create("blue", spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })),
		create("green", affinityTimeout(0)), create("red", affinityTimeout(86401)),
		create("white", spec(func(s *corev1.ServiceSpec) { s.SessionAffinity = "Cookie" })),
	}},
	{"selector and labels", []step{
		create("blue", spec(func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"a b": "c"} })),
		create("green", func(svc *corev1.Service) { svc.Labels = map[string]string{"a": "b c"} }),
		create("red", func(svc *corev1.Service) { svc.Annotations = map[string]string{"a b": "c"} }),
	}},
	{"node ports", []step{
		create("blue", asNodePort), create("green", asNodePort, nodePort(30123)), create("red", asNodePort, nodePort(30123)),
		create("white", asNodePort, nodePort(29999)), create("black", nodePort(30124)), remove("green"), create("grey", asNodePort, nodePort(30123)),
	}},
	{"load balancer", []step{
		create("blue", loadBalancer), create("green", loadBalancer, local), get("green"),
		create("red", loadBalancer, spec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = new(false) })),
		create("white", loadBalancer, class("example.com/one")), create("black", loadBalancer, class("a/b/c")), create("grey", class("example.com/one")),
	}},
	{"fields of a load balancer elsewhere", []step{
		create("blue", spec(func(s *corev1.ServiceSpec) { s.AllocateLoadBalancerNodePorts = new(true) })),
		create("green", spec(func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })),
		create("red", spec(func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30125 })),
		create("white", loadBalancer, spec(func(s *corev1.ServiceSpec) { s.LoadBalancerSourceRanges = []string{" 192.0.2.0/24", "x"} })),
	}},
	{"traffic policies", []step{
		create("blue", local), create("green", local, externalIPs("192.0.2.1")),
		create("red", spec(func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy("Far")) })),
		create("white", spec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferSameZone") })),
		create("black", spec(func(s *corev1.ServiceSpec) { s.TrafficDistribution = new("PreferFar") })),
	}},
	{"external IPs", []step{
		create("blue", externalIPs("192.0.2.1", "127.0.0.1")), create("green", externalIPs("blue")), create("red", externalIPs("169.254.1.1")),
		create("white", externalIPs("192.0.2.01")),
	}},
	{"a name twice", []step{create("blue", one("10.96.4.17")), create("blue", one("10.96.4.18")), create("green", one("10.96.4.18"))}},
	{"a generated name", []step{createGenerated()}},
	{"no such Service", []step{get("blue"), update("blue"), remove("blue"), merge("blue", `{}`)}},

	// Dry run.
	{"dry-run creation", []step{dryCreate("blue", one("10.96.4.19")), dryCreate("green"), get("green"), create("red", one("10.96.4.19")), dryCreate("white", one("10.96.4.19")), dryCreate("black", one("10.99.0.1"))}},
	{"dry-run update and deletion", []step{create("blue", one("10.96.4.20")), dryUpdate("blue", policy(require)), dryUpdate("blue", externalName), dryRemove("blue"), get("blue"), create("green", one("10.96.4.20"))}},

	// Update.
	{"labels change", []step{create("blue", one("10.96.4.21")), update("blue", labelled)}},
	{"the manifest again", []step{create("blue"), replace("blue"), replace("blue", one("10.96.4.22"))}},
	{"the manifest again, node ports", []step{create("blue", asNodePort, ports(named("a", 80), named("b", 81))), replace("blue", asNodePort, ports(named("b", 81), named("a", 80)))}},
	{"replace what is not there", []step{replace("blue")}},
	{"another address", []step{create("blue", one("10.96.4.23")), update("blue", one("10.96.4.24")), update("blue", addresses("10.96.4.24")), create("green", one("10.96.4.24"))}},
	{"the address is unset", []step{create("blue", one("10.96.4.25")), update("blue", noAddress), merge("blue", `{"spec":{"clusterIP":null}}`), merge("blue", `{"spec":{"clusterIPs":null,"clusterIP":""}}`)}},
	{"to and from None", []step{create("blue", one("10.96.4.26")), update("blue", addresses("None")), create("green", headless), update("green", addresses("10.96.4.27"))}},
	{"to external name and back", []step{create("blue", one("10.96.4.28")), update("blue", externalName), create("green", one("10.96.4.28")), update("blue", clusterIP), update("blue", labelled)}},
	{"to external name as clients write it", []step{create("blue", one("10.96.4.29")), update("blue", externalName, noAddress, noFamilies), update("blue", clusterIP, one("10.96.4.29"))}},
	{"to external name, keeping an address", []step{create("blue", one("10.96.4.30")), update("blue", externalName, addresses("10.96.4.31")), create("green", one("10.96.4.30"))}},
	{"from external name to a taken address", []step{create("blue", externalName), create("green", one("10.96.4.32")), update("blue", clusterIP, one("10.96.4.32")), get("blue")}},
	{"dual-stack to external name and back", []step{create("blue", policy(require), addresses("10.96.4.33", "fd00:10:96::4:33")), update("blue", externalName), create("green", policy(require), addresses("10.96.4.33", "fd00:10:96::4:33")), update("blue", clusterIP, policy(require), families(v6, v4))}},
	{"node port to external name and back", []step{create("blue", asNodePort, nodePort(30126)), update("blue", externalName), create("green", asNodePort, nodePort(30126)), update("blue", asNodePort)}},
	{"load balancer to cluster IP", []step{create("blue", loadBalancer, local, class("example.com/one")), updateStatus("blue", ingress), update("blue", clusterIP)}},
	{"cluster IP to load balancer", []step{create("blue"), update("blue", loadBalancer), update("blue", local), update("blue", asNodePort)}},
	{"the class changes", []step{create("blue", loadBalancer, class("example.com/one")), update("blue", class("example.com/two"))}},
	{"single to dual", []step{create("blue", one("10.96.4.34")), update("blue", policy(require)), update("blue", policy(single))}},
	{"single to dual, second address given", []step{create("blue", one("10.96.4.35")), update("blue", policy(prefer), addresses("10.96.4.35", "fd00:10:96::4:35")), create("green", one("fd00:10:96::4:35"))}},
	{"single to dual, second address taken", []step{create("green", one("fd00:10:96::4:36")), create("blue", one("10.96.4.36")), update("blue", policy(require), addresses("10.96.4.36", "fd00:10:96::4:36")), get("blue")}},
	{"two addresses, still single", []step{create("blue", one("10.96.4.37")), update("blue", addresses("10.96.4.37", "fd00:10:96::4:37"))}},
	{"dual to single, in each way", []step{
		create("blue", policy(require)), merge("blue", `{"spec":{"ipFamilyPolicy":"SingleStack"}}`),
		create("green", policy(require), addresses("10.96.4.38", "fd00:10:96::4:38")), update("green", addresses("10.96.4.38")), update("green", families(v4)),
		update("green", policy(single), addresses("10.96.4.38"), families(v4)), create("red", one("fd00:10:96::4:38")),
	}},
	{"the first family changes", []step{create("blue", one("10.96.4.39")), update("blue", families(v6)), update("blue", policy(require), families(v6, v4)), create("green", policy(require)), update("green", families(v6, v4))}},
	{"headless families", []step{create("blue", headless), update("blue", families(v6)), update("blue", policy(require))}},
	{"prefer dual-stack", []step{create("blue", policy(prefer)), update("blue", labelled), update("blue", families(v4)), update("blue", policy(single))}},
	{"status", []step{create("blue"), updateStatus("blue", ingress), create("green", loadBalancer), updateStatus("green", ingress), update("green", func(svc *corev1.Service) { svc.Status.LoadBalancer.Ingress = nil }), updateStatus("green", clusterIP)}},

	// Patch and server-side apply.
	{"strategic merge of ports", []step{create("blue", ports(named("a", 80), named("b", 81))), strategic("blue", `{"spec":{"ports":[{"port":82,"name":"c"}]}}`), strategic("blue", `{"spec":{"ports":[{"port":80,"$patch":"delete"}]}}`)}},
	{"merge patch", []step{create("blue"), merge("blue", `{"metadata":{"labels":{"a":"b"}},"spec":{"selector":{"x":"y"}}}`), merge("blue", `{"spec":{"clusterIP":"10.96.4.40"}}`), merge("blue", `{"spec":{"type":"ExternalName","externalName":"blue.example.com"}}`)}},
	{"apply", []step{apply("one", "blue", `{"ports":[{"port":80}],"selector":{"a":"b"}}`), apply("one", "blue", `{"ports":[{"port":80}],"selector":{"a":"c"}}`), get("blue")}},
	{"apply by two, ports merge by key", []step{
		apply("one", "blue", `{"ports":[{"name":"a","port":80,"protocol":"TCP"}]}`),
		apply("two", "blue", `{"ports":[{"name":"b","port":81,"protocol":"TCP"}]}`),
		apply("one", "blue", `{"ports":[{"name":"a","port":80,"protocol":"TCP","targetPort":8080}]}`),
		apply("two", "blue", `{}`),
	}},
	{"apply, conflict", []step{
		apply("one", "blue", `{"ports":[{"port":80,"protocol":"TCP","targetPort":8080}],"sessionAffinity":"None"}`),
		apply("two", "blue", `{"ports":[{"port":80,"protocol":"TCP","targetPort":8081}],"sessionAffinity":"ClientIP"}`),
		forceApply("two", "blue", `{"ports":[{"port":80,"protocol":"TCP","targetPort":8081}],"sessionAffinity":"ClientIP"}`),
	}},
	{"apply an address", []step{apply("one", "blue", `{"clusterIP":"10.96.4.41","ports":[{"port":80}]}`), apply("one", "blue", `{"clusterIP":"10.96.4.42","ports":[{"port":80}]}`), apply("one", "blue", `{"ports":[{"port":80}]}`), create("green", one("10.96.4.41"))}},
	{"apply external name and back", []step{apply("one", "blue", `{"ports":[{"port":80}]}`), apply("one", "blue", `{"type":"ExternalName","externalName":"blue.example.com","ports":[{"port":80}]}`), apply("one", "blue", `{"ports":[{"port":80}]}`)}},
	{"apply dual-stack", []step{apply("one", "blue", `{"ipFamilyPolicy":"RequireDualStack","ports":[{"port":80}]}`), apply("one", "blue", `{"ports":[{"port":80}]}`), apply("one", "blue", `{"ipFamilyPolicy":"SingleStack","ports":[{"port":80}]}`)}},
	{"apply what is refused", []step{apply("one", "blue", `{"ports":[{"port":0}]}`), apply("one", "blue", `{"clusterIP":"10.99.0.1","ports":[{"port":80}]}`), apply("one", "blue", `{"colour":"blue"}`)}},

	// Deletion.
	{"deletion", []step{create("blue", policy(require), addresses("10.96.4.43", "fd00:10:96::4:43")), remove("blue"), create("green", policy(require), addresses("10.96.4.43", "fd00:10:96::4:43"))}},
	{"deletion that a finalizer holds up", []step{create("blue", one("10.96.4.44"), finalizer), remove("blue"), create("green", one("10.96.4.44")), update("blue", noFinalizers), create("green", one("10.96.4.44"))}},
	{"deletion of all", []step{create("blue", one("10.96.4.45")), create("green", policy(require)), removeAll(), get("green"), create("red", one("10.96.4.45"))}},

	// IPAddress.
	{"IPAddress names", []step{createIP("10.96.5.1"), createIP("10.096.5.2"), createIP("FD00:10:96::5:1"), createIP("::ffff:10.96.5.3"), createIP("blue"), createIP("10.96.5.1"), createIP("192.0.2.7")}},
	{"IPAddress owners", []step{
		createIP("10.96.5.4", func(a *networkingv1.IPAddress) { a.Spec.ParentRef = nil }),
		createIP("10.96.5.4", func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "" }),
		createIP("10.96.5.4", func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = "" }),
		createIP("10.96.5.4", func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Group, a.Spec.ParentRef.Name = "A_B", "a/b" }),
	}},
	{"IPAddress changes hands", []step{createIP("10.96.5.5"), updateIP("10.96.5.5", func(a *networkingv1.IPAddress) { a.Labels = map[string]string{"a": "b"} }), updateIP("10.96.5.5", func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "green" }), removeIP("10.96.5.5")}},

	// ServiceCIDR.
	{"ServiceCIDR, prefixes", []step{
		createCIDR("c-none"), createCIDR("c-bits", "10.120.0.1/24"), createCIDR("c-zeros", "10.120.00.0/24"), createCIDR("c-two", "10.120.0.0/24", "10.121.0.0/24"),
		createCIDR("c-three", "10.120.0.0/24", "fd00:120::/64", "10.121.0.0/24"), createCIDR("c-text", "blue"), createCIDR("C", "10.120.0.0/24"), createCIDR("c-mapped", "::ffff:10.120.0.0/120"),
	}},
	{"ServiceCIDR, immutable", []step{
		createCIDR("c-one", "192.0.2.0/24"), createCIDR("c-one", "192.0.2.0/24"), updateCIDR("c-one", "198.51.100.0/24"), updateCIDR("c-one"), updateCIDR("c-one", "fd00:121::/64", "192.0.2.0/24"),
		updateCIDR("c-one", "192.0.2.0/24", "fd00:121::/64"), updateCIDR("c-one", "fd00:121::/64", "192.0.2.0/24"), updateCIDR("c-one", "192.0.2.0/24"),
	}},
	{"ServiceCIDR, an address from a second one", []step{createCIDR("c-more", "203.0.113.0/24"), eventually(create("blue", one("203.0.113.7")))}},
}

func affinityTimeout(seconds int32) edit {
	return spec(func(s *corev1.ServiceSpec) {
		s.SessionAffinity = corev1.ServiceAffinityClientIP
		s.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	})
}

// createGenerated is a creation whose name the server completes.
func createGenerated() step {
	st := create("", func(svc *corev1.Service) {
		svc.ObjectMeta = metav1.ObjectMeta{GenerateName: "blue-"}
		svc.Spec.Selector = nil
	})
	st.name = "create blue-..."
	return st
}
