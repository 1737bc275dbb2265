// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

const (
	four, otherFour = "10.96.0.0/20", "10.112.0.0/20"
	six             = "fd00:10:96::/112"
)

// leg is one playbook on a cluster.
type leg struct {
	name    string
	request renumber.Request
	// after are the API server's ranges then; nil: as before.
	after []string
	// back has it taken back before the next one.
	back bool
	// families: those of the Services stay.
	families bool
}

// Every playbook on a real API server, which the test restarts where a plan says
// so, to the end; and back. One cluster goes from leg to leg.
func TestPlaybooks_ThereAndBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string
		legs   []leg
	}{
		{"dual-stack", []string{four, six}, []leg{
			{"replace", renumber.Request{Playbook: renumber.Replace, To: []string{otherFour}}, []string{otherFour, six}, true, true},
			{"swap-family", renumber.Request{Playbook: renumber.SwapFamily}, []string{six, four}, true, false},
			{"drop-family", renumber.Request{Playbook: renumber.DropFamily, Family: corev1.IPv6Protocol}, []string{four}, true, false},
		}},
		{"single-stack", []string{four}, []leg{
			{"add-family", renumber.Request{Playbook: renumber.AddFamily, To: []string{six}}, []string{four, six}, true, false},
			{"migrate-family", renumber.Request{Playbook: renumber.MigrateFamily, To: []string{six}}, []string{six}, false, false},
		}},
		{"sizes", []string{four}, []leg{
			{"expand", renumber.Request{Playbook: renumber.Expand, To: []string{"10.96.0.0/18"}}, []string{"10.96.0.0/18"}, false, true},
			{"shrink", renumber.Request{Playbook: renumber.Shrink, To: []string{"10.96.32.0/20"}}, []string{"10.96.32.0/20"}, false, true},
			{"recreate", renumber.Request{Playbook: renumber.Replace, To: []string{otherFour}, Strategy: renumber.Recreate}, []string{otherFour}, false, true},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster := startQuickWith(t, strings.Join(c.ranges, ","))
			cluster.populate(t, "web", 24, len(c.ranges) == 2)
			ranges := c.ranges
			for _, l := range c.legs {
				if ok := t.Run(l.name, func(t *testing.T) { cluster.leg(t, l, ranges) }); !ok {
					return
				}
				if !l.back {
					ranges = l.after
				}
			}
		})
	}
}

func (c *cluster) leg(t *testing.T, l leg, before []string) {
	originals := c.services(t)
	l.request.LoadBalancers = true
	if l.request.Strategy == "" {
		l.request.Strategy = renumber.InPlace
	}
	plan := c.plan(t, l.request)
	journal := c.journal(t, plan)
	if err := c.run(t, plan, journal, nil); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, l.request.Strategy, l.families)
	c.only(t, l.after...)
	if !l.back {
		return
	}
	entries, err := journal.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back, err := renumber.Inverse(plan, entries, 0, "back-"+plan.Name, metav1.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(t, back, c.journal(t, back), journal); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, l.request.Strategy, true)
	c.only(t, before...)
	for k, got := range c.services(t) {
		if !slices.Equal(got.Spec.ClusterIPs, originals[k].Spec.ClusterIPs) {
			t.Errorf("Service %s has %v back, and had %v", k, got.Spec.ClusterIPs, originals[k].Spec.ClusterIPs)
		}
	}
}

// Without a restart: a range beside the default one comes, is drained, and is brought
// back. And what cannot be done is refused, with the remedy; nothing is written.
func TestPlaybooks_BesideTheDefaultAndRefusals(t *testing.T) {
	c := startQuick(t)
	c.namespace(t, "web")
	expand := c.plan(t, renumber.Request{Playbook: renumber.Expand, To: []string{"10.200.0.0/24"}, ServiceCIDR: "side"})
	if err := c.run(t, expand, c.journal(t, expand), nil); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		svc := plain(fmt.Sprintf("web-%d", i), nil)
		svc.Spec.ClusterIP = fmt.Sprintf("10.200.0.%d", 20+i)
		c.eventually(t, "creating "+svc.Name, func(ctx context.Context) error { return c.create(ctx, svc, false) })
	}
	originals := c.services(t)
	plan := c.drained(t, "side", renumber.InPlace)
	journal := c.journal(t, plan)
	if err := c.run(t, plan, journal, nil); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, renumber.InPlace, true)
	c.only(t, "10.96.0.0/16")
	entries, err := journal.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	back, err := renumber.Inverse(plan, entries, 0, "back-"+plan.Name, metav1.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.run(t, back, c.journal(t, back), journal); err != nil {
		t.Fatal(err)
	}
	for k, got := range c.services(t) {
		if got.Spec.ClusterIP != originals[k].Spec.ClusterIP {
			t.Errorf("Service %s has %s back, and had %s", k, got.Spec.ClusterIP, originals[k].Spec.ClusterIP)
		}
	}
	c.refusals(t)
}

func (c *cluster) refusals(t *testing.T) {
	world, err := renumber.ReadWorld(t.Context(), c.client)
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.client.NetworkingV1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name    string
		request renumber.Request
		says    string
	}{
		{"the present range", renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/16"}}, "give another"},
		{"a part of it", renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/20"}}, "that is shrink"},
		{"a larger one", renumber.Request{Playbook: renumber.Replace, To: []string{"10.96.0.0/12"}}, "that is expand"},
		{"no range", renumber.Request{Playbook: renumber.Replace}, "--to"},
		{"the other family", renumber.Request{Playbook: renumber.Replace, To: []string{six}}, "add-family"},
		{"not a part", renumber.Request{Playbook: renumber.Shrink, To: []string{"10.112.0.0/20"}}, "replace takes another"},
		{"no larger one", renumber.Request{Playbook: renumber.Expand, To: []string{"10.96.0.0/20"}}, "adds no room"},
		{"the same family", renumber.Request{Playbook: renumber.AddFamily, To: []string{"10.112.0.0/16"}}, "other family"},
		{"no second family", renumber.Request{Playbook: renumber.DropFamily, Family: corev1.IPv6Protocol}, "none to drop"},
		{"nothing to swap", renumber.Request{Playbook: renumber.SwapFamily}, "migrate-family"},
		{"drain the default", renumber.Request{Playbook: renumber.Drain, From: renumber.DefaultServiceCIDR}, "use replace"},
		{"drain nothing", renumber.Request{Playbook: renumber.Drain}, "--from"},
		{"no such ServiceCIDR", renumber.Request{Playbook: renumber.Drain, From: "none"}, `no ServiceCIDR "none"`},
		{"no such playbook", renumber.Request{Playbook: "move"}, "give one of"},
	} {
		t.Run(r.name, func(t *testing.T) {
			plan, err := renumber.Make(world, r.request, renumber.MakeOptions{})
			if !errors.Is(err, renumber.ErrInvalidRequest) || !strings.Contains(err.Error(), r.says) {
				t.Errorf("got %v, %v, and want a refusal about %q", plan, err, r.says)
			}
		})
	}
	after, err := c.client.NetworkingV1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Items) != len(before.Items) {
		t.Errorf("ServiceCIDRs were written: %v", after.Items)
	}
}
