// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/cidr"
	"pgregory.net/rapid"
)

func u128(v uint64) cidr.Uint128 { return cidr.Uint128{Lo: v} }

// treeOf makes a tree of tier 0.
func treeOf(weights ...uint64) *Tree {
	t := NewTree(len(weights))
	for i, w := range weights {
		t.Set(i, Rank{Weight: u128(w)})
	}
	return t
}

// naive is the model: a list of ranks, walked from one end to the other.
type naive []Rank

func (m naive) best() Rank {
	var best Rank
	for _, r := range m {
		switch {
		case r.Weight.IsZero():
		case best.Weight.IsZero() || r.Tier < best.Tier:
			best = r
		case r.Tier == best.Tier:
			best.Weight = best.Weight.Add(r.Weight)
		}
	}
	return best
}

// owner is the slot at which the running sum of the best tier passes r.
func (m naive) owner(r cidr.Uint128) int {
	tier := m.best().Tier
	for i, slot := range m {
		if slot.Tier != tier {
			continue
		}
		if r.Less(slot.Weight) {
			return i
		}
		r = r.Sub(slot.Weight)
	}
	panic("r is beyond the total")
}

// ranks of a few tiers; the weights are small, or so large that 32 of them just fit.
var ranks = rapid.Custom(func(t *rapid.T) Rank {
	weight := u128(rapid.Uint64Range(0, 5).Draw(t, "weight"))
	if rapid.IntRange(0, 4).Draw(t, "large") == 0 {
		weight = cidr.Uint128{Hi: rapid.Uint64Range(0, 1<<58).Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
	}
	return Rank{Tier: rapid.SampledFrom([]uint64{0, 1, 7, 1<<64 - 1}).Draw(t, "tier"), Weight: weight}
})

// treeEqualsNaive is a random series of changes after each of which the tree must
// agree with the model.
func treeEqualsNaive(t *rapid.T) {
	var tree Tree
	var model naive
	if n := rapid.IntRange(0, 32).Draw(t, "n"); n > 0 {
		tree.Grow(n)
		model = make(naive, n)
	}
	normal := func(r Rank) Rank {
		if r.Weight.IsZero() {
			return Rank{}
		}
		return r
	}
	slot := func(t *rapid.T) int {
		if len(model) == 0 {
			t.Skip("no slots")
		}
		return rapid.IntRange(0, len(model)-1).Draw(t, "slot")
	}
	t.Repeat(map[string]func(*rapid.T){
		"set": func(t *rapid.T) {
			i, r := slot(t), ranks.Draw(t, "rank")
			tree.Set(i, r)
			model[i] = normal(r)
		},
		"grow": func(t *rapid.T) {
			n := rapid.IntRange(0, min(3, 32-len(model))).Draw(t, "by")
			tree.Grow(len(model) + n)
			model = append(model, make(naive, n)...)
		},
		"draw some, put back": func(t *rapid.T) {
			left := slices.Clone(model)
			d := tree.Begin()
			for range rapid.IntRange(0, 40).Draw(t, "draws") {
				i, ok := d.Next(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
				if ok == left.best().Weight.IsZero() {
					t.Fatalf("ok is %v with %v left", ok, left.best())
				}
				if !ok {
					break
				}
				if left[i].Weight.IsZero() || left[i].Tier != left.best().Tier {
					t.Fatalf("drew slot %d of rank %v, best is %v", i, left[i], left.best())
				}
				left[i] = Rank{}
			}
			d.End()
			d.End()
		},
		"": func(t *rapid.T) {
			best := model.best()
			if tree.Len() != len(model) || tree.Best() != best || tree.Total() != best.Weight {
				t.Fatalf("len %d, best %v, want %d, %v", tree.Len(), tree.Best(), len(model), best)
			}
			for i, want := range model {
				if got := tree.Get(i); got != want {
					t.Fatalf("slot %d is %v, want %v", i, got, want)
				}
			}
			if best.Weight.IsZero() {
				if i, ok := tree.Draw(rand.NewPCG(1, 2)); ok {
					t.Fatalf("drew slot %d of an empty tree", i)
				}
				return
			}
			// The ends of every slot's run, and one in the middle of all.
			last := best.Weight.Sub(u128(1))
			check := []cidr.Uint128{{}, last, last.Rsh(1)}
			var sum cidr.Uint128
			for _, r := range model {
				if r.Tier == best.Tier && !r.Weight.IsZero() {
					check = append(check, sum)
					sum = sum.Add(r.Weight)
					check = append(check, sum.Sub(u128(1)))
				}
			}
			for _, r := range check {
				if got, want := tree.owner(r), model.owner(r); got != want {
					t.Fatalf("number %v belongs to slot %d, want %d", r, got, want)
				}
			}
		},
	})
}

func TestI5_TreeEqualsNaive(t *testing.T) { rapid.Check(t, treeEqualsNaive) }

func FuzzI5_TreeEqualsNaive(f *testing.F) { f.Fuzz(rapid.MakeFuzz(treeEqualsNaive)) }

// TestI5_EachSlotOwnsExactlyItsWeight goes through every number that a draw can be.
func TestI5_EachSlotOwnsExactlyItsWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := naive(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rank {
			return Rank{
				Tier:   rapid.Uint64Range(0, 2).Draw(t, "tier"),
				Weight: u128(rapid.Uint64Range(0, 40).Draw(t, "weight")),
			}
		}), 1, 40).Draw(t, "ranks"))
		tree := NewTree(len(model))
		for i, r := range model {
			tree.Set(i, r)
		}
		counts := make([]uint64, len(model))
		for r := range tree.Total().Lo {
			counts[tree.owner(u128(r))]++
		}
		best := model.best()
		for i, r := range model {
			want := uint64(0)
			if r.Tier == best.Tier {
				want = r.Weight.Lo
			}
			if counts[i] != want {
				t.Fatalf("slot %d of rank %v owns %d numbers of %v", i, r, counts[i], best)
			}
		}
	})
}

func TestTree_SumsBeyond128BitsSaturate(t *testing.T) {
	tree := NewTree(3)
	huge := Rank{Weight: cidr.Uint128{Hi: 1 << 63}}
	for i := range 3 {
		tree.Set(i, huge)
	}
	if tree.Total() != cidr.MaxUint128() {
		t.Errorf("total %v, want 2^128-1", tree.Total())
	}
	// Every number has an owner with weight; what was cut is the end.
	for r, want := range map[cidr.Uint128]int{
		{}:                             0,
		{Hi: 1<<63 - 1, Lo: 1<<64 - 1}: 0,
		{Hi: 1 << 63}:                  1,
		{Hi: 1<<64 - 1, Lo: 1<<64 - 2}: 1,
	} {
		if got := tree.owner(r); got != want {
			t.Errorf("number %v belongs to slot %d, want %d", r, got, want)
		}
	}
	tree.Set(0, Rank{Weight: u128(1)})
	tree.Set(1, Rank{Weight: u128(2)})
	if want := (cidr.Uint128{Hi: 1 << 63, Lo: 3}); tree.Total() != want {
		t.Errorf("total %v once it fits, want %v", tree.Total(), want)
	}
	if got := tree.owner(u128(3)); got != 2 {
		t.Errorf("number 3 belongs to slot %d, want 2", got)
	}
}

// TestTree_SaturatedDrawsStillHaveWeight: whatever the weights, a draw ends at a slot
// of the best tier with weight.
func TestTree_SaturatedDrawsStillHaveWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "n")
		tree := NewTree(n)
		for i := range n {
			tree.Set(i, Rank{
				Tier:   rapid.Uint64Range(0, 1).Draw(t, "tier"),
				Weight: cidr.Uint128{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")},
			})
		}
		if i, ok := tree.Draw(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)); ok {
			if r := tree.Get(i); r.Weight.IsZero() || r.Tier != tree.Best().Tier {
				t.Fatalf("drew slot %d of rank %v, best is %v", i, r, tree.Best())
			}
		}
	})
}

func TestTree_RefusesWhatIsNotThere(t *testing.T) {
	tree := treeOf(1, 2, 3) // of four leaves: the fourth is no slot
	ended := tree.Begin()
	ended.End()
	for name, call := range map[string]func(){
		"Set beyond":          func() { tree.Set(3, Rank{}) },
		"Set below":           func() { tree.Set(-1, Rank{}) },
		"Get beyond":          func() { tree.Get(3) },
		"Grow to less":        func() { tree.Grow(2) },
		"NewTree below 0":     func() { NewTree(-1) },
		"Next after End":      func() { ended.Next(rand.NewPCG(1, 1)) },
		"Get of a zero value": func() { new(Tree).Get(0) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if msg, _ := recover().(string); !strings.HasPrefix(msg, "weighting: ") {
					t.Errorf("got panic %q, want one that says what to do", msg)
				}
			}()
			call()
		})
	}
}

func TestTree_HotPathDoesNotAllocate(t *testing.T) {
	tree, src := treeOf(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), rand.NewPCG(1, 2)
	for name, f := range map[string]func(){
		"Draw": func() { tree.Draw(src) },
		"Set":  func() { tree.Set(3, Rank{Weight: u128(src.Uint64() >> 32)}) },
		"Drawing": func() {
			d := tree.Begin()
			for range inline {
				d.Next(src)
			}
			d.End()
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
