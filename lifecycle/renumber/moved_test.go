// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type movedTest struct {
	name   string
	code   Code
	change func(b *builder)
	object string
	want   string
}

// find returns the Service of a world.
func (b *builder) find(key string) *corev1.Service {
	for i := range b.Services {
		if b.Services[i].Namespace+"/"+b.Services[i].Name == key {
			return &b.Services[i]
		}
	}
	return nil
}

func (b *builder) without(key string) {
	b.Services = slices.DeleteFunc(b.Services, func(s corev1.Service) bool { return s.Namespace+"/"+s.Name == key })
}

func movedTests() []movedTest {
	return []movedTest{
		{"another cluster", CodeOtherCluster, func(b *builder) { b.Cluster.UID = "other" }, "", "cluster-1"},
		{"the old range is gone", CodeServiceCIDRGone, func(b *builder) { b.ServiceCIDRs = nil }, "ServiceCIDR kubernetes", "10.96.0.0/16 is gone"},
		{"the old range is being deleted", CodeServiceCIDRGone, func(b *builder) {
			now := metav1.NewTime(noon)
			b.ServiceCIDRs[0].DeletionTimestamp = &now
		}, "ServiceCIDR kubernetes", "is being deleted"},
		{"another of the name", CodeServiceCIDRChanged, func(b *builder) { b.ServiceCIDRs[0].UID = "new" }, "ServiceCIDR kubernetes", "another object"},
		{"a second family", CodeServiceCIDRChanged, func(b *builder) { b.ServiceCIDRs[0].Spec.CIDRs = []string{"10.96.0.0/16", "fd00::/112"} }, "ServiceCIDR kubernetes", "it has 10.96.0.0/16,fd00::/112"},
		{"the plan's own name is taken", CodeServiceCIDRChanged, func(b *builder) { b.serviceCIDR("test", "10.99.0.0/16") }, "ServiceCIDR test", "10.99.0.0/16"},
		{"a new one overlaps", CodeServiceCIDRNew, func(b *builder) { b.serviceCIDR("late", "10.112.4.0/24") }, "ServiceCIDR late", "10.112.4.0/24"},
		{"a Service is gone", CodeServiceGone, func(b *builder) { b.without("shop/web") }, "Service shop/web", "10.96.3.7"},
		{"a Service was made again", CodeServiceChanged, func(b *builder) { b.find("shop/web").UID = "new" }, "Service shop/web", "another object"},
		{"a Service has another address", CodeServiceChanged, func(b *builder) { b.find("shop/web").Spec.ClusterIPs = []string{"10.96.3.8"} }, "Service shop/web", "it has 10.96.3.8, and had 10.96.3.7"},
		{"a Service is a LoadBalancer now", CodeServiceChanged, func(b *builder) { b.find("shop/web").Spec.Type = corev1.ServiceTypeLoadBalancer }, "Service shop/web", "LoadBalancer"},
		{"a Service came into the range", CodeServiceChanged, func(b *builder) {
			svc := b.find("shop/headless")
			svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "10.96.9.9", []string{"10.96.9.9"}
		}, "Service shop/headless", "10.96.9.9"},
		{"a new Service", CodeServiceUnknown, func(b *builder) { b.service("shop/new", "10.96.9.9") }, "Service shop/new", "10.96.9.9"},
		{"a new LoadBalancer", CodeLoadBalancersHeld, func(b *builder) { b.service("shop/new", "10.96.9.9").Spec.Type = corev1.ServiceTypeLoadBalancer }, "Service shop/new", "10.96.9.9"},
		{"a new blocker", CodeOverlapsPods, func(b *builder) { b.node("node-2", "192.0.2.11", "10.112.7.0/24") }, "range 10.112.0.0/16", "node-2"},
	}
}

func before() *builder {
	b := small()
	b.headless("shop/headless", corev1.IPv4Protocol)
	return b
}

func TestMoved_WhatMatters(t *testing.T) {
	p := mustMake(t, before(), *replaceBy("10.112.0.0/16"))
	for _, test := range movedTests() {
		t.Run(test.name, func(t *testing.T) {
			b := before()
			test.change(b)
			for _, f := range b.Moved(p) {
				if f.Code == test.code && f.Object == test.object && strings.Contains(f.Message, test.want) {
					info, _ := infoOf(test.code)
					if f.Severity != info.Severity || f.Override != info.Override || f.Remedy == "" {
						t.Errorf("%+v", f)
					}
					return
				}
			}
			t.Errorf("not found: %+v", b.Moved(p))
		})
	}
}

// What does not matter: edits of Services, Services elsewhere, ServiceCIDRs
// elsewhere, what is headless.
func TestMoved_WhatDoesNotMatter(t *testing.T) {
	was := before()
	was.serviceCIDR("gone", "10.98.0.0/16")
	p := mustMake(t, was, *replaceBy("10.112.0.0/16"))
	b := before()
	web := b.find("shop/web")
	web.ResourceVersion, web.Labels = "99", map[string]string{"a": "b"}
	web.Spec.Selector = map[string]string{"app": "other"}
	b.headless("shop/new-headless", corev1.IPv4Protocol)
	b.externalName("shop/new-name")
	b.serviceCIDR("elsewhere", "10.99.0.0/16")
	b.service("shop/elsewhere", "10.99.0.1")
	b.ServiceCIDRs[0].ResourceVersion = "99"
	if got := b.Moved(p); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A blocker that the plan has taken on is not a new one, and one that comes up later
// is marked as taken on.
func TestMoved_KnowsWhatWasAccepted(t *testing.T) {
	bad := func() *builder {
		b := before()
		b.node("node-2", "192.0.2.11", "10.112.7.0/24")
		return b
	}
	req := *replaceBy("10.112.0.0/16")
	req.Accepted = []Code{CodeOverlapsPods, CodeServiceChanged}
	if got := bad().Moved(mustMake(t, bad(), req)); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	b := bad()
	b.find("shop/web").UID = "new"
	got := b.Moved(mustMake(t, before(), req))
	if len(got) != 2 || !got[0].Accepted || !got[1].Accepted {
		t.Errorf("%+v", got)
	}
}
