// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
)

// naiveWalk is the random scan as it is specified: uniform random start in the
// band, then address by address, wrapping round.
func naiveWalk(span cidr.Span, start netip.Addr, taken func(netip.Addr) bool) (netip.Addr, bool) {
	if span.IsEmpty() {
		return netip.Addr{}, false
	}
	for addr := start; ; {
		if !taken(addr) {
			return addr, true
		}
		if addr == span.Last {
			addr = span.First
		} else {
			addr = addr.Next()
		}
		if addr == start {
			return netip.Addr{}, false
		}
	}
}

// I6: the pick equals that of the naive walk from the same random start.
func TestI6_PickEqualsNaiveWalk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.ReuseDelay = -1 })
		defer f.stop()
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			bits := rapid.IntRange(20, 30).Draw(t, "bits")
			base := "10.96.0.0/"
			if rapid.Bool().Draw(t, "IPv6") {
				base, bits = "2001:db8::/", bits+96
			}
			a := f.pool.Range(cidr.MustParse(fmt.Sprint(base, bits)))
			phase := rapid.SampledFrom([]Phase{DynamicRested, DynamicAny, StaticRested, StaticAny}).Draw(t, "phase")
			span := a.spans[phase]
			// Take a random part of the band: few, most, or one cluster. Some
			// of the rest rests.
			s := f.pool.space(a.rng.Family())
			s.busy, s.resting = cidr.NewAddrSet(a.rng.Family()), cidr.NewAddrSet(a.rng.Family())
			resting := rapid.Uint64Range(1, 50).Draw(t, "every n-th busy one rests")
			if !span.IsEmpty() {
				size, _ := span.Size().Uint64()
				every := rapid.Uint64Range(1, 4).Draw(t, "every")
				first := rapid.Uint64Range(0, size-1).Draw(t, "first")
				last := rapid.Uint64Range(first, size-1).Draw(t, "last")
				invert := rapid.Bool().Draw(t, "invert")
				for i := range size {
					if (i >= first && i <= last && i%every == 0) != invert {
						s.busy.Add(span.At(cidr.U128(i)))
						if i%resting == 0 {
							s.resting.Add(span.At(cidr.U128(i)))
						}
					}
				}
			}
			seed := rapid.Uint64().Draw(t, "seed")
			f.pool.random = rand.NewPCG(seed, 1)
			got, ok := a.Peek(phase)
			var want netip.Addr
			wantOK := false
			if !span.IsEmpty() {
				start := span.At(cidr.RandBelow(rand.NewPCG(seed, 1), span.Size()))
				want, wantOK = naiveWalk(span, start, func(a netip.Addr) bool {
					return s.busy.Has(a) && (phase.Rested() || !s.resting.Has(a))
				})
			}
			if got != want || ok != wantOK {
				t.Fatalf("pick %v %v, naive walk %v %v", got, ok, want, wantOK)
			}
		})
	})
}

// I6: the start is uniform: every address of an empty band is picked equally
// often. The chance of failing with a right implementation is below 1e-6; the
// seed is fixed.
func TestI6_StartIsUniform(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.pool.Range(cidr.MustParse("10.0.0.0/24"))
		const draws = 200_000
		counts := map[netip.Addr]int{}
		for range draws {
			addr, ok := a.Peek(DynamicRested)
			if !ok || a.rng.Band(addr) != cidr.BandDynamic {
				t.Fatal(addr, ok)
			}
			counts[addr]++
		}
		n, _ := a.rng.DynamicSize().Uint64()
		expected := float64(draws) / float64(n)
		chi := 0.0
		for i := range n {
			d := float64(counts[a.rng.Dynamic().At(cidr.U128(i))]) - expected
			chi += d * d / expected
		}
		// 237 degrees of freedom: mean 237, standard deviation 21.8.
		if chi > 237+5.5*21.8 {
			t.Errorf("chi-squared %.0f at 237 degrees of freedom", chi)
		}
	})
}

// S2: small ranges filled to the last address, then one more.
func TestS2_FillToTheLast(t *testing.T) {
	for _, s := range []string{"10.0.0.0/28", "10.0.0.0/29", "10.0.0.0/30", "10.0.0.0/24", "2001:db8::/125", "2001:db8::/127"} {
		t.Run(s, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				defer f.stop()
				a := f.track(s)[0]
				n, _ := a.rng.Size().Uint64()
				seen := map[netip.Addr]bool{}
				for range n {
					got, err := a.AllocateNext(t.Context(), owner)
					if err != nil {
						t.Fatal(err)
					}
					if seen[got.Address] || !a.rng.Contains(got.Address) {
						t.Fatalf("%s: twice, or not usable", got.Address)
					}
					seen[got.Address] = true
				}
				f.server.ResetCalls()
				if _, err := a.AllocateNext(t.Context(), owner); !errors.Is(err, ErrFull) {
					t.Fatalf("one more: %v", err)
				}
				if got := f.server.Calls(replica).Total(); got != 0 {
					t.Errorf("%d calls for a full range", got)
				}
				f.checkInvariants()
			})
		})
	}
}

// I4 within one range, and S12: the static band, with .1 and .10 in it, comes
// only when the dynamic one is used up.
func TestS12_StaticBandIsKeptForLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		dynamic, _ := a.rng.DynamicSize().Uint64()
		total, _ := a.rng.Size().Uint64()
		for i := range total {
			got, err := a.AllocateNext(t.Context(), owner)
			if err != nil {
				t.Fatal(err)
			}
			if static := a.rng.Band(got.Address) == cidr.BandStatic; static != (i >= dynamic) {
				t.Fatalf("allocation %d is %s", i, got.Address)
			}
		}
	})
}

// S50: IPv6 /64 with starts at 2^63 and 2^64-1 stay inside the prefix, and never
// give the network address; all lengths 48 to 128.
func TestS50_IPv6Extremes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		for bits := 48; bits <= 128; bits++ {
			a := f.pool.Range(cidr.MustParse(netip.PrefixFrom(netip.MustParseAddr("2001:db8::"), bits).String()))
			for _, word := range []uint64{0, 1 << 63, 1<<63 - 1, 1<<64 - 1, 1} {
				f.pool.random = constant(word)
				for phase := range NumPhases {
					addr, ok := a.Peek(phase)
					if ok == a.spans[phase].IsEmpty() {
						t.Fatalf("%s %s: %v", a.rng, phase, ok)
					}
					if ok && (a.rng.Band(addr) != phase.Band() || addr == a.rng.Prefix().Addr()) {
						t.Fatalf("%s %s: picked %s", a.rng, phase, addr)
					}
				}
			}
		}
	})
}

// constant is a random source whose first words are the given one; a caller
// that rejects them gets others.
func constant(word uint64) rand.Source {
	return &constantSource{word: word, rest: rand.NewPCG(word, 1)}
}

type constantSource struct {
	word  uint64
	asked int
	rest  rand.Source
}

func (c *constantSource) Uint64() uint64 {
	if c.asked++; c.asked <= 2 {
		return c.word
	}
	return c.rest.Uint64()
}

// S52: a pick in a /64 with 100,000 addresses makes no garbage, nor does one in
// a nearly full /12: nothing is walked or listed.
func TestS52_PickMakesNoGarbage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("2001:db8::/64")[0]
		random := rand.New(rand.NewPCG(7, 7))
		s := f.pool.space(cidr.IPv6)
		for range 100_000 {
			s.busy.Add(a.rng.Dynamic().At(cidr.Uint128{Lo: random.Uint64() >> 1}))
		}
		if allocs := testing.AllocsPerRun(1000, func() {
			r, ok := a.Reserve(DynamicRested)
			if !ok {
				t.Fatal("nothing picked")
			}
			r.Cancel()
		}); allocs > 0 {
			t.Errorf("%v allocations per pick", allocs)
		}
	})
}
