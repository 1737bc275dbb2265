// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/metacidr/metacidr/cidr"
)

// scanScenario is one CIDR with holes.
type scanScenario struct {
	name   string
	prefix string
	// taken says which offsets of the usable addresses are taken.
	taken func(k uint64) bool
	// picks are made in each of so many worlds.
	picks, worlds int
}

func scanScenarios() []scanScenario {
	return []scanScenario{
		{"a /24 with long and short runs", "10.0.0.0/24", func(k uint64) bool { return k >= 30 && k < 90 || k >= 120 && k < 160 || k%7 == 0 }, 20, 20},
		{"the dynamic band is full, the static has runs", "10.0.0.0/26", func(k uint64) bool { return k >= 16 || k >= 4 && k < 10 }, 5, 80},
		{"an IPv6 /120 with a run over the end", "2001:db8::/120", func(k uint64) bool { return k >= 200 || k < 24 || k == 100 }, 20, 20},
	}
}

// scan is I6: it picks in one scenario, and compares with the walks of the reference
// model. The outcomes are laid out by address, and again by how likely they are.
func scan(t *testing.T, s settings, round uint64) *Failure {
	scenario := scanScenarios()[round]
	byAddress, byLikelihood := newUniform("addresses in order", round), newUniform("addresses by likelihood", 100+round)
	var failure *Failure
	for i := range scenario.worlds {
		failure = inBubble(t, func() *Failure {
			w := newWorld(s, 1000*round+10*uint64(i)+5000)
			defer w.close()
			return w.tell(func() {
				w.story.next("%s: %s; r0 makes %d allocations, in each of %d worlds", scenario.name, scenario.prefix, scenario.picks, scenario.worlds)
				w.addCIDR(true, scenario.prefix)
				rng := cidr.MustParse(scenario.prefix)
				w.take(rng.Usable(), scenario.taken)
				w.start(0, 0, 1)
				w.refresh()
				for range scenario.picks {
					w.scanOnce(rng.Family(), byAddress, byLikelihood)
				}
				if i < scenario.worlds-1 {
					return
				}
				for _, u := range []*uniform{byAddress, byLikelihood} {
					if why := u.unlikely(ErrorProbability / 2); why != "" {
						w.violate("Scan", "I6", "%s", why)
					}
				}
				w.giveUp()
			})
		})
		if failure != nil {
			return failure
		}
	}
	return nil
}

func (w *world) scanOnce(f cidr.Family, byAddress, byLikelihood *uniform) {
	model := w.truth.naive(f)
	before := w.truth
	addr := w.pick(f)
	i, ok := model.which(addr)
	if !ok {
		w.violate("Scan", "I6", "%s is not in the band that is to be scanned: %v", addr, model.bands)
		w.giveUp()
	}
	addrs, starts := model.bands[i].starts(before)
	at := slices.Index(addrs, addr)
	if at < 0 {
		w.violate("Scan", "I6", "%s was taken", addr)
		w.giveUp()
	}
	byAddress.add(starts, at)

	order := make([]int, len(addrs))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(starts[b], starts[a]) })
	sorted := make([]float64, len(order))
	for j, k := range order {
		sorted[j] = starts[k]
	}
	byLikelihood.add(sorted, slices.Index(order, at))
}

// pick makes one dynamic allocation at r0, which is in step with the server.
func (w *world) pick(f cidr.Family) netip.Addr {
	addr, err := w.replicas[0].alloc.AllocateNext(quiet(), w.newOwner("widgets"), f)
	if err != nil {
		w.violate("AllocateNext", "", "with room in the CIDRs, an allocation failed: %v", err)
		w.giveUp()
	}
	synctest.Wait()
	w.observe(nil)
	return addr
}
