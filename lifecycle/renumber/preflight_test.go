// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
)

// findingTest is a world that has a finding, beside one that has it not.
type findingTest struct {
	code Code
	name string
	// req is replace by 10.112.0.0/16 if empty; without the one of the world that has
	// not the finding, if another.
	req, without *Request
	// bad makes the world of small() bad.
	bad func(b *builder)
	// good makes another world the good one.
	good *builder
	// object, and what the message and the remedy must tell.
	object  string
	message []string
	remedy  []string
}

// small is a world in which nothing is wrong.
func small() *builder {
	b := newWorld("10.96.0.0/16")
	b.service("kube-system/kube-dns", "10.96.0.10")
	b.service("shop/web", "10.96.3.7")
	b.node("node-1", "192.0.2.10", "10.244.0.0/24")
	return b
}

func replaceBy(ranges ...string) *Request { return &Request{Playbook: Replace, To: ranges} }

func policy(peers ...string) networkingv1.NetworkPolicy {
	p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "egress"}}
	for _, c := range peers {
		p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: c}}}})
	}
	return p
}

func findingTests() []findingTest {
	many := func(n int, prefix string) func(*builder) {
		return func(b *builder) {
			for i := range n {
				b.service(fmt.Sprintf("many/s%d", i), fmt.Sprintf("%s%d", prefix, i))
			}
		}
	}
	lb := func(b *builder) { b.service("shop/lb", "10.96.1.3").Spec.Type = corev1.ServiceTypeLoadBalancer }
	condition := func(status metav1.ConditionStatus) func(*builder) {
		return func(b *builder) {
			b.serviceCIDR("slow", "10.98.0.0/16").Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "Why", Message: "because"}}
		}
	}
	return []findingTest{
		{code: CodeTargetTooSmall, req: replaceBy("10.112.0.0/27"), bad: many(28, "10.96.2."),
			object: "range 10.112.0.0/27", message: []string{"30 Services need an IPv4 address", "29 of 30 are free"}, remedy: []string{"larger range"}},
		{code: CodeTargetTooSmall, name: "what is there already counts", req: replaceBy("10.112.0.0/29"),
			bad: func(b *builder) {
				for i := 2; i < 7; i++ {
					b.address(fmt.Sprintf("10.112.0.%d", i), "gateways", "shop", "g")
				}
			}, object: "range 10.112.0.0/29", message: []string{"2 Services need", "0 of 6 are free"}},
		{code: CodeTargetTooSmall, name: "drain", req: &Request{Playbook: Drain, From: "extra"}, bad: func(b *builder) {
			*b = *newWorld("10.96.0.0/30")
			b.serviceCIDR("extra", "10.97.0.0/24")
			b.service("shop/a", "10.97.0.1")
			b.service("shop/b", "10.97.0.2")
		}, good: extra(), object: "range 10.96.0.0/30", message: []string{"2 Services need", "1 of 2 are free"}},
		{code: CodeTargetTooSmall, name: "drain, and no other range is ready", req: &Request{Playbook: Drain, From: "extra"}, bad: func(b *builder) {
			*b = *extra()
			b.ServiceCIDRs[0].Status.Conditions[0].Status = metav1.ConditionFalse
			b.ServiceCIDRs[2].Status.Conditions[0].Status = metav1.ConditionFalse
		}, good: extra(), object: "IPv4 ranges", message: []string{"3 Services need", "0 of 0 are free"}},
		{code: CodeTargetTight, req: replaceBy("10.112.0.0/27"), bad: many(24, "10.96.2."),
			object: "range 10.112.0.0/27", message: []string{"3 of 30 addresses will be free", "26 Services"}},
		{code: CodeDynamicBandTooSmall, req: replaceBy("10.112.0.0/27"), bad: many(18, "10.96.2."),
			object: "range 10.112.0.0/27", message: []string{"20 Services", "14 are free in the dynamic band", "6 will be of the static band"}},
		{code: CodeOverlapsPods, name: "S56", bad: func(b *builder) { b.node("node-2", "192.0.2.11", "10.112.7.0/24") },
			object: "range 10.112.0.0/16", message: []string{"10.112.7.0/24 of node node-2"}},
		{code: CodeOverlapsPods, name: "S56: one podCIDR only", bad: func(b *builder) {
			b.Nodes = append(b.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.NodeSpec{PodCIDR: "10.112.0.0/12"}})
		}, object: "range 10.112.0.0/16", message: []string{"10.112.0.0/12 of node old"}},
		{code: CodeOverlapsNodes, name: "S56", bad: func(b *builder) { b.node("node-2", "10.112.0.2", "10.244.1.0/24") },
			object: "range 10.112.0.0/16", message: []string{"10.112.0.2 of node node-2"}},
		{code: CodeOverlapsServiceCIDR, name: "S56", bad: func(b *builder) { b.serviceCIDR("extra", "10.112.8.0/24") },
			object: "ServiceCIDR extra", message: []string{"10.112.8.0/24 overlaps 10.112.0.0/16"}},
		{code: CodeOverlapsServiceCIDR, name: "S56: expand over another", req: &Request{Playbook: Expand, To: []string{"10.96.0.0/12"}},
			bad: func(b *builder) { b.serviceCIDR("extra", "10.97.0.0/16") }, object: "ServiceCIDR extra", message: []string{"10.96.0.0/12"}},
		{code: CodeOverlapsSpecial, name: "S56", req: replaceBy("169.254.0.0/16"), without: replaceBy("10.112.0.0/16"),
			object: "range 169.254.0.0/16", message: []string{"link-local"}},
		{code: CodePublicRange, req: replaceBy("8.8.0.0/16"), without: replaceBy("10.112.0.0/16"), object: "range 8.8.0.0/16"},
		{code: CodeRangeRefused, name: "as a flag", req: replaceBy("10.112.0.0/30"), without: replaceBy("10.112.0.0/29"), object: "range 10.112.0.0/30", message: []string{"8 addresses or more"}},
		{code: CodeRangeRefused, name: "by the allocator", req: &Request{Playbook: AddFamily, To: []string{"fd00::/63"}}, without: &Request{Playbook: AddFamily, To: []string{"fd00::/64"}},
			object: "range fd00::/63", message: []string{"shorter than /64"}},
		{code: CodeRangeRefused, name: "by an older server", req: replaceBy("100.64.0.0/11"), bad: func(b *builder) { b.Cluster.Version = "v1.33.5" },
			object: "range 100.64.0.0/11", message: []string{"/12 or longer"}},
		{code: CodeRangeRefused, name: "a further ServiceCIDR may be small", req: replaceBy("10.112.0.0/30"), without: &Request{Playbook: Expand, To: []string{"10.112.0.0/30"}}},
		{code: CodeOtherRangesDrawn, bad: func(b *builder) { b.serviceCIDR("extra", "10.97.0.0/16") },
			message: []string{"10.97.0.0/16 of ServiceCIDR extra"}, remedy: []string{"--map=random"}},
		{code: CodeOtherRangesDrawn, name: "not if the plan chooses", req: replaceBy("10.112.0.0/16"), without: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Mapping: MapRandom},
			bad: func(b *builder) { b.serviceCIDR("extra", "10.97.0.0/16") }},
		{code: CodeOffsetNotKept, name: "beyond the end", req: &Request{Playbook: Replace, To: []string{"10.112.0.0/24"}, Mapping: MapOffset},
			without: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Mapping: MapOffset},
			object:  "Service shop/web", message: []string{"775 from the start of 10.96.0.0/16", "10.112.0.0/24 is smaller"}},
		{code: CodeOffsetNotKept, name: "not usable", req: &Request{Playbook: Replace, To: []string{"10.112.0.0/24"}, Mapping: MapOffset},
			without: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Mapping: MapOffset},
			bad:     func(b *builder) { *b = *newWorld("10.96.0.0/16"); b.service("shop/last", "10.96.0.255") },
			object:  "Service shop/last", message: []string{"10.112.0.255 is not usable"}},
		{code: CodeOffsetNotKept, name: "taken", req: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Mapping: MapOffset},
			bad: func(b *builder) { b.address("10.112.3.7", "gateways", "shop", "g") }, object: "Service shop/web", message: []string{"10.112.3.7 is taken"}},
		{code: CodeFirstAddressTaken, req: &Request{Playbook: Shrink, To: []string{"10.96.3.0/24"}},
			bad: func(b *builder) { b.service("shop/first", "10.96.3.1") }, object: "Service shop/first", message: []string{"10.96.3.1"}},
		{code: CodeFirstAddressTaken, name: "by no Service", bad: func(b *builder) { b.address("10.112.0.1", "gateways", "shop", "g") },
			object: "IPAddress 10.112.0.1"},
		{code: CodeFirstAddressAtRisk, req: replaceBy("10.112.0.0/28"), without: replaceBy("10.112.0.0/24"), object: "range 10.112.0.0/28", message: []string{"10.112.0.1"}},

		{code: CodeServiceCIDRNotReady, bad: condition(metav1.ConditionFalse), object: "ServiceCIDR slow", message: []string{"10.98.0.0/16", "Why because"}},
		{code: CodeServiceCIDRNotReady, name: "unknown", bad: condition(metav1.ConditionUnknown), object: "ServiceCIDR slow"},
		{code: CodeServiceCIDRTerminating, bad: func(b *builder) {
			now := metav1.NewTime(noon)
			b.serviceCIDR("leaving", "10.98.0.0/16").DeletionTimestamp = &now
			b.service("shop/late", "10.98.0.1")
		}, object: "ServiceCIDR leaving", message: []string{"10.98.0.0/16", "1 address"}},
		{code: CodeAddressesOfOthers, name: "S30", bad: func(b *builder) { b.address("10.96.7.7", "gateways", "shop", "g").Spec.ParentRef.Group = "example.org" },
			object: "range 10.96.0.0/16", message: []string{"1 IPAddress", "10.96.7.7 of gateways.example.org shop/g"}},
		{code: CodeAddressesOfOthers, name: "S30: of nobody", bad: func(b *builder) { b.address("10.96.7.7", "", "", "").Spec.ParentRef = nil },
			object: "range 10.96.0.0/16", message: []string{"10.96.7.7 of nobody"}},
		{code: CodeAddressesOfOthers, name: "elsewhere does not matter", bad: func(b *builder) {
			b.address("10.97.7.7", "gateways", "shop", "g")
			b.address("10.96.7.7", "gateways", "shop", "g")
		}, good: func() *builder { b := small(); b.address("10.97.7.7", "gateways", "shop", "g"); return b }(),
			object: "range 10.96.0.0/16", message: []string{"1 IPAddress:"}},
		{code: CodeAddressesOrphaned, name: "S30: the Service is gone", bad: func(b *builder) { b.address("10.96.7.7", "services", "shop", "gone") },
			message: []string{"10.96.7.7 of services shop/gone"}},
		{code: CodeAddressesOrphaned, name: "S30: the Service has another", bad: func(b *builder) { b.address("10.96.7.7", "services", "shop", "web") },
			message: []string{"10.96.7.7 of services shop/web"}},
		{code: CodeAddressesUnmanaged, name: "S30", bad: func(b *builder) { b.address("10.96.7.7", "services", "shop", "gone").Labels = nil },
			message: []string{"10.96.7.7"}},
		{code: CodeAddressesMissing, bad: func(b *builder) {
			b.service("shop/bare", "10.96.5.5")
			b.IPAddresses = slices.DeleteFunc(b.IPAddresses, func(ip networkingv1.IPAddress) bool { return ip.Name == "10.96.5.5" })
		}, message: []string{"10.96.5.5 of Service shop/bare"}},

		{code: CodeServicesByClass, good: &builder{World{Cluster: ClusterID{UID: "c"}, ServiceCIDRs: small().ServiceCIDRs}},
			message: []string{"1 Kubernetes renew, 1 DNS move, 1 ClusterIP move"}},
		{code: CodeLoadBalancersHeld, name: "S43", bad: lb, object: "Service shop/lb", message: []string{"10.96.1.3"}, remedy: []string{"--load-balancers"}},
		{code: CodeLoadBalancersHeld, name: "not with the flag", bad: lb, req: replaceBy("10.112.0.0/16"), without: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: true}},
		{code: CodeLoadBalancersMove, bad: lb, req: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: true}, message: []string{"shop/lb"}},
		{code: CodeKubernetesInRange, req: &Request{Playbook: Drain, From: "low"}, bad: func(b *builder) {
			// Only the low one is left, and it is not the default's.
			b.serviceCIDR("low", "10.96.0.0/24")
			b.ServiceCIDRs[0].Spec.CIDRs = []string{"10.100.0.0/16"}
		}, good: func() *builder { b := small(); b.serviceCIDR("low", "10.97.0.0/24"); return b }(),
			object: "Service default/kubernetes", message: []string{"10.96.0.1"}},
		{code: CodeHardCodedAddress, bad: func(b *builder) {
			b.service("shop/fixed", "10.96.0.77").Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"clusterIP":"10.96.0.77"}}`}
		}, object: "Service shop/fixed", message: []string{"last-applied", "10.96.0.77"}},
		{code: CodeHardCodedAddress, name: "an address that stays does not matter", req: replaceBy("10.112.0.0/16"), without: &Request{Playbook: Shrink, To: []string{"10.96.0.0/20"}}, bad: func(b *builder) {
			b.service("shop/fixed", "10.96.0.77").Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"clusterIP":"10.96.0.77"}}`}
		}},
		{code: CodeHardCodedAddress, name: "by server-side apply", bad: func(b *builder) {
			b.service("shop/fixed", "10.96.0.77").ManagedFields = []metav1.ManagedFieldsEntry{managed("argocd", `{"f:spec":{"f:clusterIP":{},"f:clusterIPs":{}}}`)}
		}, object: "Service shop/fixed", message: []string{"field manager argocd"}},
		{code: CodeServiceOwned, bad: func(b *builder) {
			b.service("shop/db", "10.96.0.78").OwnerReferences = []metav1.OwnerReference{{Kind: "Database", Name: "orders", UID: "x"}}
		}, object: "Service shop/db", message: []string{"Database orders"}},
		{code: CodeMovesInPlace, req: &Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Strategy: Recreate}, bad: func(b *builder) {
			b.service("shop/db", "10.96.0.78").Finalizers = []string{"example.org/hold"}
		}, object: "Service shop/db", message: []string{"example.org/hold"}},
		{code: CodeServiceParked, bad: func(b *builder) {
			b.service("shop/half").Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: parkedName("earlier")}
		}, object: "Service shop/half", message: []string{"plan earlier"}, remedy: []string{"resume"}},
		{code: CodeExternalIPsInRange, bad: func(b *builder) { b.service("shop/ext", "10.96.5.5").Spec.ExternalIPs = []string{"10.96.200.1"} },
			object: "Service shop/ext", message: []string{"10.96.200.1 lies in the range to leave"}},
		{code: CodeExternalIPsInRange, name: "the new range", bad: func(b *builder) { b.service("shop/ext", "10.96.5.5").Spec.ExternalIPs = []string{"10.112.200.1"} },
			object: "Service shop/ext", message: []string{"10.112.200.1 lies in the new range 10.112.0.0/16"}},
		{code: CodeSingleStackServices, name: "S36", req: &Request{Playbook: AddFamily, To: []string{"fd00:96::/112"}, KeepSingleStack: true},
			without: &Request{Playbook: AddFamily, To: []string{"fd00:96::/112"}}, message: []string{"2 Services: kube-system/kube-dns, shop/web"},
			remedy: []string{"--keep-single-stack", "PreferDualStack"}},
		{code: CodeNetworkPolicyInRange, bad: func(b *builder) { b.NetworkPolicies = append(b.NetworkPolicies, policy("10.96.0.0/24")) },
			good: func() *builder {
				b := small()
				b.NetworkPolicies = append(b.NetworkPolicies, policy("0.0.0.0/0", "10.244.0.0/16"))
				return b
			}(),
			object: "NetworkPolicy shop/egress", message: []string{"10.96.0.0/24"}},
		{code: CodeNetworkPolicyInRange, name: "what stays does not matter", req: &Request{Playbook: Shrink, To: []string{"10.96.0.0/20"}},
			bad: func(b *builder) { b.NetworkPolicies = append(b.NetworkPolicies, policy("10.96.128.0/24")) },
			good: func() *builder {
				b := small()
				b.NetworkPolicies = append(b.NetworkPolicies, policy("10.96.3.0/24"))
				return b
			}(),
			object: "NetworkPolicy shop/egress", message: []string{"10.96.128.0/24"}},
		{code: CodeNetworkPolicyInRange, name: "except", bad: func(b *builder) {
			p := policy("0.0.0.0/0")
			p.Spec.Egress[0].To[0].IPBlock.Except = []string{"10.96.0.0/16"}
			b.NetworkPolicies = append(b.NetworkPolicies, p)
		}, message: []string{"10.96.0.0/16"}},
		{code: CodeEndpointsInRange, bad: func(b *builder) { b.slice("shop/alias-1", "alias", "", "10.96.3.7") },
			good: func() *builder { b := small(); b.slice("shop/alias-1", "alias", "", "10.244.0.7"); return b }(), object: "EndpointSlice shop/alias-1", message: []string{"10.96.3.7"}},
		{code: CodeWebhookInRange, bad: func(b *builder) {
			b.Webhooks = append(b.Webhooks, Webhook{Object: "ValidatingWebhookConfiguration checks", Name: "pods.example.org", URL: "https://10.96.3.7:8443/check"})
		}, good: func() *builder {
			b := small()
			b.Webhooks = append(b.Webhooks, Webhook{Object: "A", URL: "https://hooks.example.org/"}, Webhook{Object: "B"})
			return b
		}(), object: "ValidatingWebhookConfiguration checks", message: []string{"pods.example.org", "https://10.96.3.7:8443/check"}},

		{code: CodeDNSAddress, name: "S39", bad: func(b *builder) { b.KubeletDNS = []string{"10.96.0.10"} }, req: replaceBy("10.112.0.0/16"),
			without: &Request{Playbook: Shrink, To: []string{"10.96.0.0/20"}}, object: "Service kube-system/kube-dns",
			message: []string{"10.96.0.10 moves to 10.112.0.10", "kubelets hand out 10.96.0.10"}, remedy: []string{"clusterDNS to 10.112.0.10", "cluster-dns: 10.112.0.10"}},
		{code: CodeDNSAddress, name: "S39: of another name", bad: func(b *builder) {
			b.KubeletDNS = []string{"10.96.3.7"}
			b.Services = slices.DeleteFunc(b.Services, func(s corev1.Service) bool { return s.Name == "kube-dns" })
		}, good: func() *builder {
			b := small()
			b.Services = slices.DeleteFunc(b.Services, func(s corev1.Service) bool { return s.Name == "kube-dns" })
			return b
		}(), object: "Service shop/web", message: []string{"10.96.3.7 moves to an address that the API server draws"}},
		{code: CodeDNSUnknown, bad: func(b *builder) {
			b.Services = slices.DeleteFunc(b.Services, func(s corev1.Service) bool { return s.Name == "kube-dns" })
		}},
		{code: CodeCertificate, name: "S39", req: replaceBy("10.112.0.0/20"), without: &Request{Playbook: Shrink, To: []string{"10.96.0.0/20"}},
			object: "step 4", message: []string{"must name 10.112.0.1", "keep 10.96.0.1"}, remedy: []string{"kubeadm: ", "certSANs", "k3s: "}},
		{code: CodeRestartAPIServers, without: &Request{Playbook: Expand, To: []string{"10.97.0.0/16"}},
			bad:     func(b *builder) { b.APIServers = make([]coordinationv1.Lease, 3) },
			object:  "step 4",
			message: []string{"from 10.96.0.0/16 to 10.112.0.0/16", "3 API servers"}, remedy: []string{"kubeadm: ", "--service-cluster-ip-range=10.112.0.0/16"}},
		{code: CodeConsumersOfRange, name: "S42", without: &Request{Playbook: SwapFamily}, good: shop("10.96.0.0/16", "fd00:96::/112"),
			message: []string{"10.96.0.0/16"}, remedy: []string{"--acknowledge"}},
		{code: CodeNodesSingleStack, req: &Request{Playbook: AddFamily, To: []string{"fd00:96::/112"}}, good: func() *builder {
			b := small()
			b.Nodes = nil
			b.node("node-1", "192.0.2.10", "10.244.0.0/24", "fd00:244::/64")
			return b
		}(), message: []string{"1 node without an IPv6 podCIDR: node-1"}},

		{code: CodePermissionMissing, bad: func(b *builder) {
			b.Reviews = []Review{{Access: Access{Verb: "update", Resource: "services", Subresource: "status"}, Reason: "no role"}, {Access: Access{Verb: "list", Resource: "services"}, Allowed: true}}
		}, message: []string{"update services/status (no role)"}},
		{code: CodeNotChecked, name: "S30", bad: func(b *builder) { b.Unread = []Unread{{"networkpolicies", "forbidden"}} }, object: "networkpolicies", message: []string{"forbidden"}},
		{code: CodeNotChecked, name: "optional", bad: func(b *builder) {
			b.Reviews = []Review{{Access: Access{Verb: "create", Resource: "events", Optional: true, Use: "moves are not told as events"}}}
		}, object: "events", message: []string{"moves are not told as events"}},
		{code: CodeNodesNotChecked, bad: func(b *builder) { b.Unread = []Unread{{"nodes", "forbidden"}} }, object: "nodes", message: []string{"forbidden"}},
	}
}

func TestPreflight_EveryFinding(t *testing.T) {
	covered := map[Code]bool{}
	for _, test := range findingTests() {
		covered[test.code] = true
		t.Run(strings.TrimSuffix(string(test.code)+"/"+test.name, "/"), func(t *testing.T) {
			bad, good := small(), small()
			if test.bad != nil {
				test.bad(bad)
			}
			req := test.req
			if req == nil {
				req = replaceBy("10.112.0.0/16")
			}
			without := req
			switch {
			case test.good != nil:
				good = test.good
			case test.without != nil && test.bad != nil:
				// The request makes the difference.
				good = bad
			}
			if test.without != nil {
				without = test.without
			}
			for _, f := range mustMake(t, good, *without).Findings {
				if f.Code == test.code {
					t.Errorf("found where it is not: %+v", f)
				}
			}
			found := slices.DeleteFunc(mustMake(t, bad, *req).Findings, func(f Finding) bool { return f.Code != test.code })
			if len(found) == 0 {
				t.Fatal("not found")
			}
			f := found[0]
			info, _ := infoOf(test.code)
			if f.Severity != info.Severity || f.Override != info.Override || f.Remedy == "" || f.Message == "" || f.Accepted {
				t.Errorf("%+v", f)
			}
			if test.object != "" && f.Object != test.object {
				t.Errorf("about %q, want %q", f.Object, test.object)
			}
			for _, want := range test.message {
				if !strings.Contains(f.Message, want) {
					t.Errorf("message %q tells nothing of %q", f.Message, want)
				}
			}
			for _, want := range test.remedy {
				if !strings.Contains(f.Remedy, want) {
					t.Errorf("remedy %q tells nothing of %q", f.Remedy, want)
				}
			}
		})
	}
	for _, test := range movedTests() {
		covered[test.code] = true
	}
	for _, info := range Codes() {
		if !covered[info.Code] {
			t.Errorf("no test finds %s", info.Code)
		}
	}
}

// Blockers keep a plan from being applied, unless the operator takes them on.
func TestS56_ABlockerCanBeAccepted(t *testing.T) {
	b := small()
	b.node("node-2", "192.0.2.11", "10.112.7.0/24")
	req := replaceBy("10.112.0.0/16")
	p := mustMake(t, b, *req)
	if got := p.Blockers(); len(got) != 1 || got[0].Override != "--accept OverlapsPods" || p.Findings[0].Severity != Blocker {
		t.Fatalf("%+v", p.Findings)
	}
	req.Accepted = []Code{CodeOverlapsPods}
	p = mustMake(t, b, *req)
	if got := p.Blockers(); len(got) != 0 || !p.Findings[0].Accepted {
		t.Errorf("%+v", p.Findings)
	}
}

// The to-dos name the tool that the cluster was set up with, if that is known.
func TestS39_TheToolIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		bad       func(*builder)
		want, not string
	}{
		"kubeadm": {func(b *builder) { b.Kubeadm = true }, "kubeadm: ", "k3s: "},
		"k3s":     {func(b *builder) { b.Cluster.Version = "v1.37.2+k3s1" }, "k3s: ", "kubeadm: "},
		"rke2":    {func(b *builder) { b.Cluster.Version = "v1.37.2+rke2r1" }, "k3s: ", "kubeadm: "},
	} {
		t.Run(name, func(t *testing.T) {
			b := small()
			test.bad(b)
			for _, f := range mustMake(t, b, *replaceBy("10.112.0.0/16")).Findings {
				if f.Code != CodeCertificate && f.Code != CodeRestartAPIServers && f.Code != CodeDNSAddress {
					continue
				}
				if !strings.Contains(f.Remedy, test.want) || strings.Contains(f.Remedy, test.not) {
					t.Errorf("%s: %s", f.Code, f.Remedy)
				}
			}
		})
	}
}

// The first address of 10.96.10.10/20, as some write it, is 10.96.0.1.
func TestS39_TheFirstAddressOfAnUnalignedServiceCIDR(t *testing.T) {
	b := newWorld("10.112.0.0/16")
	b.ServiceCIDRs[0].Spec.CIDRs = []string{"10.112.3.4/16"}
	p := mustMake(t, b, *replaceBy("10.96.0.0/20"))
	i := slices.IndexFunc(p.Findings, func(f Finding) bool { return f.Code == CodeCertificate })
	if i < 0 || !strings.Contains(p.Findings[i].Message, "must name 10.96.0.1 ") || !strings.Contains(p.Findings[i].Message, "keep 10.112.0.1") {
		t.Errorf("%+v", p.Findings)
	}
	if p.ServiceCIDRs[0].CIDRs[0] != "10.112.0.0/16" || cidr.MustParse(p.ServiceCIDRs[0].CIDRs[0]).First().String() != "10.112.0.1" {
		t.Errorf("%+v", p.ServiceCIDRs)
	}
}

// With --acknowledge the runner waits before the first Service moves.
func TestS42_AcknowledgeComesBeforeTheMove(t *testing.T) {
	req := replaceBy("10.112.0.0/16")
	req.Acknowledge = true
	p := mustMake(t, small(), *req)
	at := func(k StepKind) int { return slices.IndexFunc(p.Steps, func(s Step) bool { return s.Kind == k }) }
	if at(Acknowledge) < 0 || at(Acknowledge) > at(MoveServices) {
		t.Errorf("%+v", p.Steps)
	}
	for _, f := range p.Findings {
		if f.Code == CodeConsumersOfRange && strings.Contains(f.Remedy, "--acknowledge") {
			t.Errorf("it suggests what was given: %s", f.Remedy)
		}
	}
}
