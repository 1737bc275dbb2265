// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// builder makes worlds for tests: Services come with their IPAddresses.
type builder struct{ World }

func newWorld(defaultRanges ...string) *builder {
	b := &builder{World{Cluster: ClusterID{UID: "cluster-1", Version: "v1.37.2"}}}
	b.serviceCIDR(DefaultServiceCIDR, defaultRanges...)
	first := cidr.MustParse(defaultRanges[0]).First().String()
	b.service("default/kubernetes", first)
	return b
}

func (b *builder) serviceCIDR(name string, ranges ...string) *networkingv1.ServiceCIDR {
	b.ServiceCIDRs = append(b.ServiceCIDRs, networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), ResourceVersion: "1"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: ranges},
		Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}},
	})
	return &b.ServiceCIDRs[len(b.ServiceCIDRs)-1]
}

// service adds one of type ClusterIP. The pointer is good until the next is added.
func (b *builder) service(key string, addresses ...string) *corev1.Service {
	namespace, name, _ := strings.Cut(key, "/")
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + key), ResourceVersion: "1"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": name},
			IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack)},
	}
	for _, a := range addresses {
		b.address(a, "services", namespace, name)
		svc.Spec.IPFamilies = append(svc.Spec.IPFamilies, familyOf(a))
	}
	if len(addresses) > 0 {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = addresses[0], addresses
	}
	if len(addresses) == 2 {
		svc.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	}
	b.Services = append(b.Services, svc)
	return &b.Services[len(b.Services)-1]
}

func (b *builder) headless(key string, families ...corev1.IPFamily) *corev1.Service {
	svc := b.service(key)
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}, families
	return svc
}

func (b *builder) externalName(key string) {
	svc := b.service(key)
	svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
}

func (b *builder) address(a, resource, namespace, name string) *networkingv1.IPAddress {
	b.IPAddresses = append(b.IPAddresses, networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: a, Labels: map[string]string{informer.LabelManagedBy: informer.CoreManager}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: resource, Namespace: namespace, Name: name}},
	})
	return &b.IPAddresses[len(b.IPAddresses)-1]
}

// slice adds an EndpointSlice of a Service.
func (b *builder) slice(key, service, managedBy string, addresses ...string) *discoveryv1.EndpointSlice {
	namespace, name, _ := strings.Cut(key, "/")
	labels := map[string]string{discoveryv1.LabelServiceName: service}
	if managedBy != "" {
		labels[discoveryv1.LabelManagedBy] = managedBy
	}
	b.EndpointSlices = append(b.EndpointSlices, discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: addresses}},
	})
	return &b.EndpointSlices[len(b.EndpointSlices)-1]
}

func (b *builder) node(name, address string, podCIDRs ...string) {
	b.Nodes = append(b.Nodes, corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{PodCIDRs: podCIDRs},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	})
}

func managed(manager, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields)}
}

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func options() MakeOptions {
	return MakeOptions{Name: "test", Clock: testingclock.NewFakePassiveClock(noon), Rand: rand.NewPCG(1, 2)}
}

func mustMake(t *testing.T, b *builder, req Request) *Plan {
	t.Helper()
	p, err := Make(&b.World, req, options())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// showRows is what a plan does to each Service, one line each.
func showRows(p *Plan) string {
	var out strings.Builder
	for _, r := range p.Services {
		fmt.Fprintf(&out, "%s %s %s %s->%s %s\n", r.Key(), r.Class, r.Action, strings.Join(r.From, ","), strings.Join(r.To, ","), quoted(r.Families))
	}
	return out.String()
}

// shop is a world with a Service of every class.
func shop(defaultRanges ...string) *builder {
	b := newWorld(defaultRanges...)
	v4, v6 := "", ""
	for _, r := range defaultRanges {
		start := cidr.MustParse(r).Prefix().Addr()
		if start.Is4() {
			v4 = strings.TrimSuffix(start.String(), "0.0")
		} else {
			v6 = start.String()
		}
	}
	both := func(suffix4, suffix6 string) []string {
		var all []string
		for _, r := range defaultRanges {
			if cidr.MustParse(r).Family() == cidr.IPv4 {
				all = append(all, v4+suffix4)
			} else {
				all = append(all, v6+suffix6)
			}
		}
		return all
	}
	b.service("kube-system/kube-dns", both("0.10", "a")[0])
	b.service("shop/cluster", both("1.1", "11")[0])
	b.service("shop/node", both("1.2", "12")[0]).Spec.Type = corev1.ServiceTypeNodePort
	b.service("shop/lb", both("1.3", "13")[0]).Spec.Type = corev1.ServiceTypeLoadBalancer
	if len(defaultRanges) == 2 {
		b.service("shop/dual", both("1.4", "14")...)
		b.service("shop/second", both("1.5", "15")[1])
	}
	var families []corev1.IPFamily
	for _, a := range both("0.1", "1") {
		families = append(families, familyOf(a))
	}
	b.headless("shop/headless", families...)
	b.externalName("shop/name")
	return b
}

func TestMake_EveryPlaybook(t *testing.T) {
	const v4, v6 = "10.96.0.0/16", "fd00:96::/112"
	for name, test := range map[string]struct {
		world *builder
		req   Request
		want  string
	}{
		"replace": {shop(v4), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}}, `
default/kubernetes Kubernetes Renew 10.96.0.1->10.112.0.1 IPv4
kube-system/kube-dns DNS Move 10.96.0.10->10.112.0.10 IPv4
shop/cluster ClusterIP Move 10.96.1.1-> IPv4
shop/headless Headless Skip None-> IPv4
shop/lb LoadBalancer Hold 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Move 10.96.1.2-> IPv4
`},
		"replace, one family of two": {shop(v4, v6), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: true}, `
default/kubernetes Kubernetes Renew 10.96.0.1->10.112.0.1 IPv4
kube-system/kube-dns DNS Move 10.96.0.10->10.112.0.10 IPv4
shop/cluster ClusterIP Move 10.96.1.1-> IPv4
shop/dual ClusterIP Move 10.96.1.4,fd00:96::14->,fd00:96::14 IPv4, IPv6
shop/headless Headless Skip None-> IPv4, IPv6
shop/lb LoadBalancer Move 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Move 10.96.1.2-> IPv4
shop/second ClusterIP Keep fd00:96::15-> IPv6
`},
		"expand around": {shop(v4), Request{Playbook: Expand, To: []string{"10.96.0.0/12"}}, `
default/kubernetes Kubernetes Keep 10.96.0.1-> IPv4
kube-system/kube-dns DNS Keep 10.96.0.10-> IPv4
shop/cluster ClusterIP Keep 10.96.1.1-> IPv4
shop/headless Headless Skip None-> IPv4
shop/lb LoadBalancer Keep 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Keep 10.96.1.2-> IPv4
`},
		"shrink": {shop(v4), Request{Playbook: Shrink, To: []string{"10.96.1.0/24"}}, `
default/kubernetes Kubernetes Renew 10.96.0.1->10.96.1.1 IPv4
kube-system/kube-dns DNS Move 10.96.0.10->10.96.1.10 IPv4
shop/cluster ClusterIP Keep 10.96.1.1-> IPv4
shop/headless Headless Skip None-> IPv4
shop/lb LoadBalancer Keep 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Keep 10.96.1.2-> IPv4
`},
		"add-family": {shop(v4), Request{Playbook: AddFamily, To: []string{v6}}, `
default/kubernetes Kubernetes Keep 10.96.0.1-> IPv4
kube-system/kube-dns DNS Convert 10.96.0.10->10.96.0.10,fd00:96::a IPv4, IPv6
shop/cluster ClusterIP Convert 10.96.1.1->10.96.1.1, IPv4, IPv6
shop/headless Headless Convert None->None IPv4, IPv6
shop/lb LoadBalancer Hold 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Convert 10.96.1.2->10.96.1.2, IPv4, IPv6
`},
		"add-family, kept single": {shop(v4), Request{Playbook: AddFamily, To: []string{v6}, KeepSingleStack: true}, `
default/kubernetes Kubernetes Keep 10.96.0.1-> IPv4
kube-system/kube-dns DNS Keep 10.96.0.10-> IPv4
shop/cluster ClusterIP Keep 10.96.1.1-> IPv4
shop/headless Headless Skip None-> IPv4
shop/lb LoadBalancer Keep 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Keep 10.96.1.2-> IPv4
`},
		"drop-family, the first": {shop(v4, v6), Request{Playbook: DropFamily, Family: corev1.IPv4Protocol, LoadBalancers: true}, `
default/kubernetes Kubernetes Renew 10.96.0.1->fd00:96::1 IPv6
kube-system/kube-dns DNS Move 10.96.0.10->fd00:96::a IPv6
shop/cluster ClusterIP Move 10.96.1.1-> IPv6
shop/dual ClusterIP Move 10.96.1.4,fd00:96::14->fd00:96::14 IPv6
shop/headless Headless Move None->None IPv6
shop/lb LoadBalancer Move 10.96.1.3-> IPv6
shop/name ExternalName Skip -> 
shop/node NodePort Move 10.96.1.2-> IPv6
shop/second ClusterIP Keep fd00:96::15-> IPv6
`},
		"drop-family, the second": {shop(v4, v6), Request{Playbook: DropFamily, Family: corev1.IPv6Protocol}, `
default/kubernetes Kubernetes Keep 10.96.0.1-> IPv4
kube-system/kube-dns DNS Keep 10.96.0.10-> IPv4
shop/cluster ClusterIP Keep 10.96.1.1-> IPv4
shop/dual ClusterIP Convert 10.96.1.4,fd00:96::14->10.96.1.4 IPv4
shop/headless Headless Convert None->None IPv4
shop/lb LoadBalancer Keep 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Keep 10.96.1.2-> IPv4
shop/second ClusterIP Move fd00:96::15-> IPv4
`},
		"swap-family": {shop(v4, v6), Request{Playbook: SwapFamily}, `
default/kubernetes Kubernetes Renew 10.96.0.1->fd00:96::1 IPv6
kube-system/kube-dns DNS Keep 10.96.0.10-> IPv4
shop/cluster ClusterIP Keep 10.96.1.1-> IPv4
shop/dual ClusterIP Move 10.96.1.4,fd00:96::14->fd00:96::14,10.96.1.4 IPv6, IPv4
shop/headless Headless Move None->None IPv6, IPv4
shop/lb LoadBalancer Keep 10.96.1.3-> IPv4
shop/name ExternalName Skip -> 
shop/node NodePort Keep 10.96.1.2-> IPv4
shop/second ClusterIP Keep fd00:96::15-> IPv6
`},
		"migrate-family": {shop(v4), Request{Playbook: MigrateFamily, To: []string{v6}, Mapping: MapOffset, LoadBalancers: true}, `
default/kubernetes Kubernetes Renew 10.96.0.1->fd00:96::1 IPv6
kube-system/kube-dns DNS Move 10.96.0.10->fd00:96::a IPv6
shop/cluster ClusterIP Move 10.96.1.1->fd00:96::101 IPv6
shop/headless Headless Move None->None IPv6
shop/lb LoadBalancer Move 10.96.1.3->fd00:96::103 IPv6
shop/name ExternalName Skip -> 
shop/node NodePort Move 10.96.1.2->fd00:96::102 IPv6
`},
		"drain": {extra(), Request{Playbook: Drain, From: "extra", Mapping: MapFile, Addresses: map[string][]string{"shop/b": {"10.96.5.5"}}}, `
default/kubernetes Kubernetes Keep 10.96.0.1-> IPv4
shop/a ClusterIP Keep 10.96.1.1-> IPv4
shop/b ClusterIP Move 10.97.0.1->10.96.5.5 IPv4
shop/c ClusterIP Move 10.97.0.2-> IPv4
shop/covered ClusterIP Keep 10.97.8.1-> IPv4
`},
	} {
		t.Run(name, func(t *testing.T) {
			p := mustMake(t, test.world, test.req)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), showRows(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// Whatever is made can be written and read.
			var file bytes.Buffer
			if err := p.Encode(&file); err != nil {
				t.Fatal(err)
			}
			back, err := ReadPlan(&file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, back, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-made +read):\n%s", diff)
			}
		})
	}
}

// extra is a world with a second ServiceCIDR, part of which a third one covers.
func extra() *builder {
	b := newWorld("10.96.0.0/16")
	b.serviceCIDR("extra", "10.97.0.0/16")
	b.serviceCIDR("nested", "10.97.8.0/24")
	b.service("shop/a", "10.96.1.1")
	b.service("shop/b", "10.97.0.1")
	b.service("shop/c", "10.97.0.2")
	b.service("shop/covered", "10.97.8.1")
	return b
}

func TestMake_Names(t *testing.T) {
	b := shop("10.96.0.0/16")
	req := Request{Playbook: Replace, To: []string{"10.112.0.0/16"}}
	o := options()
	o.Name = ""
	p, err := Make(&b.World, req, o)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^replace-20270301-120000-[a-z0-9]{5}$`).MatchString(p.Name) || !p.CreatedAt.Time.Equal(noon) {
		t.Errorf("name %s, created %s", p.Name, p.CreatedAt)
	}
	for _, name := range []string{"A", "a.b", "-a", strings.Repeat("a", 64), "a b"} {
		o.Name = name
		if _, err := Make(&b.World, req, o); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	// No name, clock or source of chance is needed.
	if p, err := Make(&b.World, req, MakeOptions{}); err != nil || !strings.HasPrefix(p.Name, "replace-") {
		t.Errorf("%v, %v", p, err)
	}
}

// What can never be done is refused, with the remedy.
func TestMake_Refusals(t *testing.T) {
	to := []string{"10.112.0.0/16"}
	for name, test := range map[string]struct {
		req  Request
		want string
	}{
		"strategy":         {Request{Playbook: Replace, To: to, Strategy: "fast"}, "give in-place or recreate"},
		"mapping":          {Request{Playbook: Replace, To: to, Mapping: "hash"}, "give one of server, random, offset, file"},
		"playbook":         {Request{Playbook: "renumber", To: to}, "give one of replace"},
		"file and none":    {Request{Playbook: Replace, To: to, Mapping: MapFile}, "needs addresses"},
		"addresses":        {Request{Playbook: Replace, To: to, Addresses: map[string][]string{"a/b": {"10.112.0.9"}}}, "they are for the mapping file"},
		"drain by offset":  {Request{Playbook: Drain, From: "extra", Mapping: MapOffset}, "no new range"},
		"unknown code":     {Request{Playbook: Replace, To: to, Accepted: []Code{"All"}}, "docs/findings.md"},
		"not acceptable":   {Request{Playbook: Replace, To: to, Accepted: []Code{CodeOtherCluster}}, "cannot be accepted"},
		"another flag":     {Request{Playbook: Replace, To: to, Accepted: []Code{CodeLoadBalancersHeld}}, "give --load-balancers"},
		"name in use":      {Request{Playbook: Replace, To: to, ServiceCIDR: "extra"}, "--service-cidr"},
		"no name":          {Request{Playbook: Replace, To: to, ServiceCIDR: "A_B"}, "no name for a ServiceCIDR"},
		"S39: unaligned":   {Request{Playbook: Replace, To: []string{"10.112.10.10/20"}}, "use 10.112.0.0/20"},
		"no such Service":  {Request{Playbook: Replace, To: to, Mapping: MapFile, Addresses: map[string][]string{"a/z": {"10.112.0.9"}}}, "no such Service"},
		"keeps its own":    {Request{Playbook: Replace, From: "extra", To: to, Mapping: MapFile, Addresses: map[string][]string{"shop/a": {"10.112.0.9"}}}, "it gets no other address"},
		"another spelling": {Request{Playbook: Replace, To: to, Mapping: MapFile, Addresses: map[string][]string{"shop/a": {"10.112.000.009"}}}, "10.112.0.9"},
		"two of a family":  {Request{Playbook: Replace, To: to, Mapping: MapFile, Addresses: map[string][]string{"shop/a": {"10.112.0.8", "10.112.0.9"}}}, "already"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Make(&extra().World, test.req, options())
			if !errors.Is(err, ErrInvalidRequest) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("without %q: %v", test.want, err)
			}
		})
	}
}

// The traits of a Service, and what keeps it from being recreated.
func TestMake_TraitsAndStrategy(t *testing.T) {
	b := newWorld("10.96.0.0/16")
	b.service("a/plain", "10.96.0.20")
	b.service("a/finalizers", "10.96.0.21").Finalizers = []string{"example.org/hold"}
	b.service("a/owned", "10.96.0.22").OwnerReferences = []metav1.OwnerReference{{Kind: "Database", Name: "x", UID: "x"}}
	b.service("a/owner", "10.96.0.23").Spec.Selector = nil
	b.slice("a/owner-1", "owner", "someone.example.org", "192.0.2.1").OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "owner", UID: "uid-of-a/owner"}}
	b.service("a/endpoints", "10.96.0.24").Spec.Selector = nil
	b.slice("a/endpoints-1", "endpoints", mirrorManager, "192.0.2.2")
	b.service("a/slices", "10.96.0.25").Spec.Selector = nil
	b.slice("a/slices-1", "slices", "", "192.0.2.3")
	b.service("a/automatic", "10.96.0.26")
	b.slice("a/automatic-1", "automatic", slicesManager, "10.244.0.3").OwnerReferences = []metav1.OwnerReference{{Kind: "Service", Name: "automatic", UID: "uid-of-a/automatic"}}
	b.service("a/applied", "10.96.0.27").Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"clusterIPs":["10.96.0.27"]}}`}
	b.service("a/managed", "10.96.0.28").ManagedFields = []metav1.ManagedFieldsEntry{managed("helm", `{"f:spec":{"f:clusterIP":{}}}`)}
	b.service("a/unmanaged", "10.96.0.29").ManagedFields = []metav1.ManagedFieldsEntry{
		managed("kube-apiserver", `{"f:spec":{"f:clusterIP":{},"f:clusterIPs":{}}}`), managed("helm", `{"f:spec":{"f:ports":{}}}`)}
	p := mustMake(t, b, Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Strategy: Recreate})
	want := map[string]string{
		"default/kubernetes": "recreate []",
		"a/plain":            "recreate []",
		"a/finalizers":       "in-place [Finalizers]",
		"a/owned":            "recreate [Owned]",
		"a/owner":            "in-place [Owner NoSelector]",
		"a/endpoints":        "in-place [NoSelector]",
		"a/slices":           "in-place [NoSelector]",
		"a/automatic":        "recreate []",
		"a/applied":          "recreate [HardCoded]",
		"a/managed":          "recreate [HardCoded]",
		"a/unmanaged":        "recreate []",
	}
	got := map[string]string{}
	for _, r := range p.Services {
		got[r.Key()] = fmt.Sprintf("%s %v", r.Strategy, r.Traits)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A small range has no static band: the plan keeps the first address for the
// API server, instead of letting it be drawn.
func TestMake_TheFirstAddressIsNotDrawn(t *testing.T) {
	b := newWorld("10.96.0.0/16")
	for i := range 5 {
		b.service(fmt.Sprintf("a/s%d", i), fmt.Sprintf("10.96.1.%d", i))
	}
	p := mustMake(t, b, Request{Playbook: Replace, To: []string{"10.112.0.0/29"}})
	for _, r := range p.Services {
		if r.Action == ActionMove && (len(r.To) != 1 || r.To[0] == "10.112.0.1") {
			t.Errorf("%s -> %v", r.Key(), r.To)
		}
	}
}

// S43: headless and ExternalName Services are skipped, LoadBalancers need a flag, and
// whatever Services have beside their addresses is left alone.
func TestS43_WhatMovesAndWhatDoesNot(t *testing.T) {
	for _, lb := range []bool{false, true} {
		b := shop("10.96.0.0/16")
		p := mustMake(t, b, Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: lb})
		rows := p.rows()
		want := map[string]Action{"shop/headless": ActionSkip, "shop/name": ActionSkip, "shop/lb": ActionHold, "shop/cluster": ActionMove, "shop/node": ActionMove}
		if lb {
			want["shop/lb"] = ActionMove
		}
		for key, action := range want {
			if got := rows[key].Action; got != action {
				t.Errorf("load balancers %v: %s: %s, want %s", lb, key, got, action)
			}
			svc := b.find(key)
			after := p.after(svc, rows[key].To)
			after.Spec.ClusterIP, after.Spec.ClusterIPs = svc.Spec.ClusterIP, svc.Spec.ClusterIPs
			if diff := cmp.Diff(svc.Spec, after.Spec); diff != "" {
				t.Errorf("%s: (-before +after):\n%s", key, diff)
			}
		}
	}
}

// S30: before anything is deleted, the plan says what holds the range.
func TestS30_ThePlanListsWhatWouldBlockTheDeletion(t *testing.T) {
	b := shop("10.96.0.0/16")
	b.address("10.96.7.1", "gateways", "shop", "g")
	b.address("10.96.7.2", "services", "shop", "gone")
	p := mustMake(t, b, Request{Playbook: Replace, To: []string{"10.112.0.0/16"}})
	var told []string
	for _, f := range p.Findings {
		told = append(told, f.Object, f.Message)
	}
	all := strings.Join(told, "\n")
	for _, want := range []string{"Service shop/lb", "10.96.7.1 of gateways shop/g", "10.96.7.2 of services shop/gone"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is told of %q:\n%s", want, all)
		}
	}
	if got := p.ServiceCIDRs[0].Addresses; got != len(b.IPAddresses) {
		t.Errorf("%d addresses in it, want %d", got, len(b.IPAddresses))
	}
}

// S36: the families that Services will have are told, and the plan can convert them.
func TestS36_ServicesThatStaySingleStackAreListed(t *testing.T) {
	req := Request{Playbook: AddFamily, To: []string{"fd00:96::/112"}, LoadBalancers: true}
	listed := func(p *Plan) string {
		for _, f := range p.Findings {
			if f.Code == CodeSingleStackServices {
				return f.Message
			}
		}
		return ""
	}
	if got := listed(mustMake(t, shop("10.96.0.0/16"), req)); got != "" {
		t.Errorf("all are converted, and listed: %s", got)
	}
	req.KeepSingleStack = true
	if got := listed(mustMake(t, shop("10.96.0.0/16"), req)); !strings.HasPrefix(got, "5 Services: ") {
		t.Error(got)
	}
}
