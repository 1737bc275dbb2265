// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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

func TestMake_Replace(t *testing.T) {
	b := newWorld("10.96.0.0/16")
	b.service("shop/web", "10.96.3.7")
	b.service("kube-system/kube-dns", "10.96.0.10")
	b.headless("shop/db", corev1.IPv4Protocol)
	b.externalName("shop/ext")
	p := mustMake(t, b, Request{Playbook: Replace, To: []string{"10.112.0.0/16"}})
	t.Log(showRows(p))
	for _, s := range p.Steps {
		t.Log(s.ID, s.Kind, s.Title)
	}
	for _, f := range p.Findings {
		t.Log(f)
	}
}
