// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
)

func topologyOf(requireFinalizer bool, objects ...*ServiceCIDR) *Topology {
	return newTopology(objects, requireFinalizer)
}

func row(name string, cidrs []string, options ...cidrOption) *ServiceCIDR {
	return NewServiceCIDR(serviceCIDR(name, cidrs, options...))
}

func maximal(t *Topology, f cidr.Family) []string {
	var out []string
	for _, p := range t.Maximal(f) {
		out = append(out, p.Range.String())
	}
	return out
}

// S22: every state of the condition, terminating or not, one or two ServiceCIDRs
// on the prefix.
func TestS22_ReadyTable(t *testing.T) {
	type state struct {
		condition   metav1.ConditionStatus
		terminating bool
	}
	build := func(name string, s state) *ServiceCIDR {
		var o []cidrOption
		if s.condition != "" {
			o = append(o, ready(s.condition))
		}
		if s.terminating {
			o = append(o, terminating)
		}
		return row(name, []string{"10.0.0.0/24"}, o...)
	}
	alone := func(s state) bool {
		return !s.terminating && (s.condition == "" || s.condition == metav1.ConditionTrue)
	}
	var states []state
	for _, c := range []metav1.ConditionStatus{"", metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		states = append(states, state{c, false}, state{c, true})
	}
	for _, a := range states {
		t.Run(fmt.Sprintf("one %q terminating=%v", a.condition, a.terminating), func(t *testing.T) {
			p, _ := topologyOf(false, build("a", a)).Get(cidr.MustParse("10.0.0.0/24"))
			if p.Ready != alone(a) || p.Maximal != alone(a) {
				t.Errorf("ready %v, maximal %v, want %v", p.Ready, p.Maximal, alone(a))
			}
			if (p.WhyNot(false) == "") != p.Ready {
				t.Errorf("WhyNot %q beside ready=%v", p.WhyNot(false), p.Ready)
			}
		})
		for _, b := range states {
			t.Run(fmt.Sprintf("two %q %v, %q %v", a.condition, a.terminating, b.condition, b.terminating), func(t *testing.T) {
				p, _ := topologyOf(false, build("a", a), build("b", b)).Get(cidr.MustParse("10.0.0.0/24"))
				if want := alone(a) || alone(b); p.Ready != want {
					t.Errorf("ready %v, want %v", p.Ready, want)
				}
				if len(p.Members) != 2 {
					t.Errorf("members %v", p.Names())
				}
			})
		}
	}
}

// S13: two ServiceCIDRs on one prefix, both terminating: not ready. The ready
// one of two deleted while the other is not ready: not ready.
func TestS13_TwinsTerminating(t *testing.T) {
	for name, rows := range map[string][]*ServiceCIDR{
		"both terminating": {
			row("a", []string{"10.0.0.0/24"}, ready(metav1.ConditionTrue), terminating),
			row("b", []string{"10.0.0.0/24"}, ready(metav1.ConditionTrue), terminating)},
		"ready one deleted, other not ready": {
			row("a", []string{"10.0.0.0/24"}, ready(metav1.ConditionTrue), terminating),
			row("b", []string{"10.0.0.0/24"}, ready(metav1.ConditionFalse))},
	} {
		t.Run(name, func(t *testing.T) {
			if got := topologyOf(false, rows...); got.AnyReady(cidr.IPv4) || len(got.Maximal(cidr.IPv4)) > 0 || !got.Exist(cidr.IPv4) {
				t.Errorf("ready %v, maximal %v, exist %v", got.AnyReady(cidr.IPv4), maximal(got, cidr.IPv4), got.Exist(cidr.IPv4))
			}
		})
	}
}

// S15: a nested ready CIDR adds nothing while the outer one is ready, and stands
// for itself when it is not.
func TestS15_NestedBecomesMaximal(t *testing.T) {
	inner := row("inner", []string{"10.0.1.0/24"})
	top := topologyOf(false, row("outer", []string{"10.0.0.0/20"}), inner)
	if got := maximal(top, cidr.IPv4); !slices.Equal(got, []string{"10.0.0.0/20"}) {
		t.Errorf("maximal %v", got)
	}
	if p, _ := top.Get(cidr.MustParse("10.0.1.0/24")); p.Outer != cidr.MustParse("10.0.0.0/20") {
		t.Errorf("outer %v", p.Outer)
	}
	top = topologyOf(false, row("outer", []string{"10.0.0.0/20"}, terminating), inner)
	if got := maximal(top, cidr.IPv4); !slices.Equal(got, []string{"10.0.1.0/24"}) {
		t.Errorf("maximal after the outer one terminates: %v", got)
	}
}

// S16: an address that is the network or broadcast address of the nested CIDR is
// usable through the outer one.
func TestS16_UsableThroughTheOuterOne(t *testing.T) {
	top := topologyOf(false, row("outer", []string{"10.0.0.0/16"}), row("inner", []string{"10.0.1.0/24"}))
	for addr, want := range map[string]int{"10.0.1.0": 1, "10.0.1.255": 1, "10.0.1.1": 2, "10.0.0.0": 0, "10.0.255.255": 0} {
		if got := len(top.Covering(netip.MustParseAddr(addr))); got != want {
			t.Errorf("%s is usable in %d prefixes, want %d", addr, got, want)
		}
	}
}

// A ServiceCIDR without the finalizer is not ready where that is required, and
// hides nothing.
func TestTopology_RequireFinalizer(t *testing.T) {
	top := topologyOf(true, row("outer", []string{"10.0.0.0/16"}), row("inner", []string{"10.0.1.0/24"}, finalizer))
	if got := maximal(top, cidr.IPv4); !slices.Equal(got, []string{"10.0.1.0/24"}) {
		t.Errorf("maximal %v", got)
	}
}

// The maximal prefixes are those that a look at every pair finds, and partition
// the ready space.
func TestTopology_MaximalEqualsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rows []*ServiceCIDR
		for i := range rapid.IntRange(0, 12).Draw(t, "n") {
			bits := rapid.IntRange(8, 30).Draw(t, "bits")
			addr := netip.AddrFrom4([4]byte{10, byte(rapid.IntRange(0, 3).Draw(t, "b")), byte(rapid.IntRange(0, 3).Draw(t, "c")), 0})
			r := netip.PrefixFrom(addr, bits).Masked()
			var o []cidrOption
			if rapid.Bool().Draw(t, "terminating") {
				o = append(o, terminating)
			}
			rows = append(rows, row(fmt.Sprint("c", i), []string{r.String()}, o...))
		}
		top := topologyOf(false, rows...)
		want := map[cidr.Range]bool{}
		for _, a := range rows {
			isMaximal := a.Ready()
			for _, b := range rows {
				if b.Ready() && b.Ranges[0] != a.Ranges[0] && b.Ranges[0].Covers(a.Ranges[0]) {
					isMaximal = false
				}
			}
			if isMaximal {
				want[a.Ranges[0]] = true
			}
		}
		got := top.Maximal(cidr.IPv4)
		if len(got) != len(want) {
			t.Fatalf("maximal %v, want %v", maximal(top, cidr.IPv4), want)
		}
		for i, p := range got {
			if !want[p.Range] {
				t.Fatalf("%s is not maximal", p.Range)
			}
			if i > 0 && got[i-1].Range.Overlaps(p.Range) {
				t.Fatalf("%s and %s overlap", got[i-1].Range, p.Range)
			}
		}
		for _, p := range top.Prefixes() {
			for outer := range want {
				if outer != p.Range && outer.Covers(p.Range) && p.Outer != outer {
					t.Fatalf("outer of %s is %s, want %s", p.Range, p.Outer, outer)
				}
			}
		}
	})
}

func TestServiceCIDR_BadEntriesAreSkippedAndReported(t *testing.T) {
	c := serviceCIDR("odd", []string{"10.0.0.0/24", "nonsense", "10.0.0.5/32", "010.1.2.3/24", "10.0.0.0/24"})
	c.Annotations = map[string]string{AnnotationPriority: "many"}
	r := NewServiceCIDR(c)
	want := []cidr.Range{cidr.MustParse("10.0.0.0/24"), cidr.MustParse("10.1.2.0/24")}
	if !slices.Equal(r.Ranges, want) {
		t.Errorf("ranges %v, want %v", r.Ranges, want)
	}
	skipped := map[string]bool{}
	for _, p := range r.Problems {
		if p.Skipped {
			skipped[p.Value] = true
		}
		if p.Message == "" || p.String() == "" {
			t.Errorf("problem without a message: %+v", p)
		}
	}
	for _, v := range []string{"nonsense", "10.0.0.5/32", "10.0.0.0/24"} {
		if !skipped[v] {
			t.Errorf("%q is not reported as skipped: %v", v, r.Problems)
		}
	}
	if r.Priority != 0 {
		t.Errorf("priority %d", r.Priority)
	}
	c.Annotations[AnnotationPriority] = "-7"
	if r = NewServiceCIDR(c); r.Priority != -7 {
		t.Errorf("priority %d, want -7", r.Priority)
	}
}
