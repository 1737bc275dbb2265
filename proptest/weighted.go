// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
)

// weightedScenario is a set of ServiceCIDRs to draw among.
type weightedScenario struct {
	name     string
	family   cidr.Family
	ready    []string
	notReady []string
	full     []string // ready, and nothing is free
	half     []string // ready, and every other address is taken
	picks    int
}

func weightedScenarios() []weightedScenario {
	return []weightedScenario{
		{name: "a /24 and a /22", family: cidr.IPv4, ready: []string{"10.0.0.0/24", "10.1.0.0/22"}, picks: 600},
		{name: "one full, one not ready", family: cidr.IPv4, ready: []string{"10.0.0.0/24", "10.1.0.0/22"},
			full: []string{"10.2.0.0/27"}, notReady: []string{"10.3.0.0/20"}, picks: 500},
		{name: "nested, equal, half taken", family: cidr.IPv4, ready: []string{"10.0.0.0/23", "10.0.0.0/24", "10.0.0.0/23", "10.1.0.0/24"},
			half: []string{"10.2.0.0/24"}, picks: 500},
		{name: "IPv6, three sizes", family: cidr.IPv6, ready: []string{"2001:db8::/64", "2001:db8:0:2::/63", "2001:db8:1::/65"}, picks: 400},
	}
}

// weighted is I5: it draws from one scenario, and compares with the reference model.
func weighted(t *testing.T, s settings, round uint64) *Failure {
	scenario := weightedScenarios()[round]
	return inBubble(t, func() *Failure {
		w := newWorld(s, 1000+round)
		defer w.close()
		return w.tell(func() {
			w.story.next("%s; then r0 makes %d allocations", scenario.name, scenario.picks)
			scenario.setUp(w)
			w.start(0, 0, 1)
			w.refresh()
			picks := newUniform("bands in order of their prefixes", round)
			expected, came := map[cidr.Range]float64{}, map[cidr.Range]int{}
			for range scenario.picks {
				model := w.truth.naive(scenario.family)
				addr := w.pick(scenario.family)
				i, ok := model.which(addr)
				if !ok {
					w.violate("Weighted", "I5", "%s is in no band that could be drawn: the bands are %v", addr, model.bands)
					w.giveUp()
				}
				likelihood, sum := model.likelihood(), 0.0
				for _, l := range likelihood {
					sum += l
				}
				for j, b := range model.bands {
					expected[b.prefix] += likelihood[j] / sum
				}
				came[model.bands[i].prefix]++
				picks.add(likelihood, i)
			}
			if why := picks.unlikely(ErrorProbability); why != "" {
				var table strings.Builder
				for r, e := range expected {
					fmt.Fprintf(&table, "; %s: %d, expected %.1f", r, came[r], e)
				}
				w.violate("Weighted", "I5", "%s%s", why, table.String())
			}
			w.giveUp()
		})
	})
}

// setUp makes the ServiceCIDRs of the scenario.
func (s weightedScenario) setUp(w *world) {
	for _, c := range s.ready {
		w.addCIDR(true, c)
	}
	for _, c := range s.notReady {
		w.server.SetReady(w.addCIDR(true, c), metav1.ConditionFalse)
	}
	for _, c := range s.full {
		w.addCIDR(true, c)
		w.take(cidr.MustParse(c).Usable(), func(uint64) bool { return true })
	}
	for _, c := range s.half {
		w.addCIDR(true, c)
		w.take(cidr.MustParse(c).Usable(), func(k uint64) bool { return k%2 == 0 })
	}
	w.observe(nil)
}

// take has somebody else take those addresses of a span.
func (w *world) take(span cidr.Span, which func(k uint64) bool) {
	for k := range span.Size().Saturate64() {
		if which(k) {
			w.server.PutRaw(ipAddress(span.At(cidr.U128(k)), Owner{Resource: "services", Namespace: "default", Name: "theirs"}))
		}
	}
}
