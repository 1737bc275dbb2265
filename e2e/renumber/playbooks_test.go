// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// stage is one playbook on the cluster that the one before has left.
type stage struct {
	name     string
	request  renumber.Request
	families bool     // the Services keep theirs
	after    []string // the default ServiceCIDR's ranges
	back     bool     // and back again, and there again
}

// Every playbook on one real cluster, one after another, with the restarts that they need; some of them back as well.
func TestS60_EveryPlaybook(t *testing.T) {
	const (
		four, around, part, other = "10.96.4.0/24", "10.96.0.0/20", "10.96.0.0/23", "10.112.0.0/24"
		six                       = "fd00:10:96::/112"
	)
	c := startQuick(t, four)
	c.populate(t, "web", 24, false)
	begin := addresses(c.services(t))
	for _, s := range []stage{
		{name: "replace", request: renumber.Request{Playbook: renumber.Replace, To: []string{other}, Mapping: renumber.MapOffset}, families: true, after: []string{other}, back: true},
		{name: "replace, to where it was", request: renumber.Request{Playbook: renumber.Replace, To: []string{four}, Mapping: renumber.MapOffset, Strategy: renumber.Recreate}, families: true, after: []string{four}},
		{name: "expand", request: renumber.Request{Playbook: renumber.Expand, To: []string{around}}, families: true, after: []string{around}},
		{name: "shrink", request: renumber.Request{Playbook: renumber.Shrink, To: []string{part}}, families: true, after: []string{part}},
		{name: "add-family", request: renumber.Request{Playbook: renumber.AddFamily, To: []string{six}}, after: []string{part, six}, back: true},
		{name: "swap-family", request: renumber.Request{Playbook: renumber.SwapFamily}, after: []string{six, part}},
		{name: "drop-family", request: renumber.Request{Playbook: renumber.DropFamily, Family: corev1.IPv4Protocol}, after: []string{six}},
		{name: "migrate-family", request: renumber.Request{Playbook: renumber.MigrateFamily, To: []string{other}}, after: []string{other}},
	} {
		s.request.LoadBalancers = true
		ok := t.Run(s.name, func(t *testing.T) { c.play(t, s) })
		if !ok {
			t.FailNow()
		}
		if s.name == "replace, to where it was" {
			// By offset there and back again.
			if now := addresses(c.services(t)); !slices.Equal(now, begin) {
				t.Errorf("addresses %v, in the beginning %v", now, begin)
			}
		}
	}
}

func (c *cluster) play(t *testing.T, s stage) {
	strategy := s.request.Strategy
	if strategy == "" {
		strategy = renumber.InPlace
	}
	originals := c.services(t)
	before := c.defaultRanges(t)
	plan := c.plan(t, s.request)
	there := c.journal(t, plan)
	if err := c.run(t, plan, there, nil); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, strategy, s.families)
	c.only(t, s.after...)
	if !s.back {
		return
	}
	entries, err := there.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back, err := renumber.Inverse(plan, entries, 0, "back-"+plan.Name, metav1.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(t, back, c.journal(t, back), there); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, strategy, true)
	c.only(t, before...)
	if now := addresses(c.services(t)); !slices.Equal(now, addresses(originals)) {
		t.Errorf("addresses %v, before %v", now, addresses(originals))
	}
	again := c.plan(t, s.request)
	if err := c.run(t, again, c.journal(t, again), nil); err != nil {
		t.Fatal(err)
	}
	c.only(t, s.after...)
}

// A range is added, has a Service in it, and goes again.
func TestS60_ExpandBesideAndDrain(t *testing.T) {
	c := startQuick(t, "10.96.0.0/24")
	c.namespace(t, "web")
	plan := c.plan(t, renumber.Request{Playbook: renumber.Expand, To: []string{"10.120.0.0/24"}, ServiceCIDR: "beside"})
	if err := c.run(t, plan, c.journal(t, plan), nil); err != nil {
		t.Fatal(err)
	}
	svc := classes(false)[0].service("web", "beside", 0)
	svc.Spec.ClusterIP = "10.120.0.77"
	svc.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	if err := c.create(t.Context(), svc, false); err != nil {
		t.Fatal(err)
	}
	originals := c.services(t)
	drain := c.plan(t, renumber.Request{Playbook: renumber.Drain, From: "beside"})
	if err := c.run(t, drain, c.journal(t, drain), nil); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, renumber.InPlace, true)
	if got := c.services(t)["web/beside"].Spec.ClusterIP; netip.MustParsePrefix("10.120.0.0/24").Contains(netip.MustParseAddr(got)) {
		t.Errorf("it has %s still", got)
	}
}

func (c *cluster) defaultRanges(t *testing.T) []string {
	t.Helper()
	s, err := c.client.NetworkingV1().ServiceCIDRs().Get(t.Context(), renumber.DefaultServiceCIDR, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Spec.CIDRs
}

// addresses are "namespace/name=addresses", in order.
func addresses(all map[string]*corev1.Service) []string {
	var out []string
	for k, s := range all {
		out = append(out, k+"="+strings.Join(s.Spec.ClusterIPs, ","))
	}
	slices.Sort(out)
	return out
}

// What cannot be done is refused before anything is written, with the remedy.
func TestRefusals(t *testing.T) {
	c := startQuick(t, "10.96.0.0/24")
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "taken"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.120.0.0/24"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	world, err := renumber.ReadWorld(t.Context(), c.client)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		request renumber.Request
		says    []string
	}{
		{renumber.Request{Playbook: renumber.Replace}, []string{"--to"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/24"}}, []string{"present range"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/25"}}, []string{"shrink"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/16"}}, []string{"expand"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"fd00::/112"}}, []string{"add-family"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"10.112.0.0/24"}, From: "nowhere"}, []string{`"nowhere"`, "kubernetes", "taken"}},
		{renumber.Request{Playbook: renumber.Replace, To: []string{"10.112.0.0/24"}, ServiceCIDR: "taken"}, []string{"taken", "--service-cidr"}},
		{renumber.Request{Playbook: renumber.Shrink, To: []string{"10.112.0.0/24"}}, []string{"replace"}},
		{renumber.Request{Playbook: renumber.Expand, To: []string{"10.96.0.0/26"}}, []string{"no room"}},
		{renumber.Request{Playbook: renumber.AddFamily, To: []string{"10.112.0.0/24"}}, []string{"IPv4", "fd00"}},
		{renumber.Request{Playbook: renumber.DropFamily, Family: corev1.IPv6Protocol}, []string{"one family only"}},
		{renumber.Request{Playbook: renumber.SwapFamily}, []string{"migrate-family"}},
		{renumber.Request{Playbook: renumber.Drain}, []string{"--from"}},
		{renumber.Request{Playbook: renumber.Drain, From: "kubernetes"}, []string{"replace"}},
		{renumber.Request{Playbook: "shuffle"}, []string{"shuffle", "replace", "drain"}},
	} {
		_, err := renumber.Make(world, r.request, renumber.MakeOptions{})
		if !errors.Is(err, renumber.ErrInvalidRequest) {
			t.Errorf("%+v: %v", r.request, err)
			continue
		}
		for _, s := range r.says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v does not say %q", r.request, err, s)
			}
		}
	}
}
