// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting

import (
	"cmp"
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/cidr"
	"pgregory.net/rapid"
)

func TestStrategy_Ranks(t *testing.T) {
	c := func(free, size uint64, priority int32) Candidate {
		return Candidate{Free: u128(free), Size: u128(size), Priority: priority}
	}
	for _, test := range []struct {
		name      string
		strategy  Strategy
		candidate Candidate
		want      Rank
	}{
		{"free", ByFree(), c(10, 100, 5), Rank{Weight: u128(10)}},
		{"size", BySize(), c(10, 100, 5), Rank{Weight: u128(100)}},
		{"priority", ByPriority(), c(10, 100, 5), Rank{Tier: math.MaxInt32 - 5, Weight: u128(10)}},
		{"highest priority", ByPriority(), c(10, 100, math.MaxInt32), Rank{Tier: 0, Weight: u128(10)}},
		{"lowest priority", ByPriority(), c(10, 100, math.MinInt32), Rank{Tier: 1<<32 - 1, Weight: u128(10)}},
		{"none used", LeastUsed(), c(100, 100, 5), Rank{Tier: 0, Weight: u128(100)}},
		{"half used", LeastUsed(), c(50, 100, 5), Rank{Tier: 1 << 63, Weight: u128(50)}},
		{"size below free", BySize(), c(10, 5, 0), Rank{Weight: u128(10)}},
		{"size 0", LeastUsed(), c(10, 0, 0), Rank{Weight: u128(10)}},
		{
			"one of 2^128-1 left", LeastUsed(), Candidate{Free: u128(1), Size: cidr.MaxUint128()},
			Rank{Tier: math.MaxUint64, Weight: u128(1)},
		},
	} {
		if got := test.strategy.Rank(test.candidate); got != test.want {
			t.Errorf("%s: rank %v, want %v", test.name, got, test.want)
		}
	}
}

var candidates = rapid.Custom(func(t *rapid.T) Candidate {
	size := wide.Draw(t, "size")
	free := wide.Draw(t, "free")
	if size.Less(free) {
		size, free = free, size
	}
	return Candidate{Free: free, Size: size, Priority: rapid.Int32().Draw(t, "priority")}
})

// wide is numbers of every length, not only of full ones.
var wide = rapid.Custom(func(t *rapid.T) cidr.Uint128 {
	v := cidr.Uint128{Hi: rapid.Uint64().Draw(t, "hi"), Lo: rapid.Uint64().Draw(t, "lo")}
	return v.Rsh(uint(rapid.IntRange(0, 128).Draw(t, "shift")))
})

func TestI5_WeightIsZeroExactlyWhenFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := candidates.Draw(t, "candidate")
		for _, s := range strategies() {
			if got := s.Rank(c).Weight.IsZero(); got != c.Free.IsZero() {
				t.Fatalf("%s: %v weighs %v", s.Name(), c, s.Rank(c).Weight)
			}
			c := c
			c.Free = cidr.Uint128{}
			if r := s.Rank(c); !r.Weight.IsZero() {
				t.Fatalf("%s: full, but weighs %v", s.Name(), r.Weight)
			}
		}
	})
}

func toBig(v cidr.Uint128) *big.Int {
	hi := new(big.Int).Lsh(new(big.Int).SetUint64(v.Hi), 64)
	return hi.Or(hi, new(big.Int).SetUint64(v.Lo))
}

// leastUsedEqualsBig: the tier is the fraction's first 64 binary digits.
func leastUsedEqualsBig(t *rapid.T) {
	c := candidates.Draw(t, "candidate")
	if c.Free.IsZero() {
		t.Skip("full")
	}
	want := toBig(c.Size.Sub(c.Free))
	want.Lsh(want, 64).Quo(want, toBig(c.Size))
	if got := LeastUsed().Rank(c).Tier; got != want.Uint64() || !want.IsUint64() {
		t.Fatalf("tier %d, want %v", got, want)
	}
}

func TestLeastUsed_EqualsBig(t *testing.T) { rapid.Check(t, leastUsedEqualsBig) }

func FuzzLeastUsed_EqualsBig(f *testing.F) { f.Fuzz(rapid.MakeFuzz(leastUsedEqualsBig)) }

// TestLeastUsed_IsMonotone: less used is never a worse tier.
func TestLeastUsed_IsMonotone(t *testing.T) {
	notFull := candidates.Filter(func(c Candidate) bool { return !c.Free.IsZero() })
	rapid.Check(t, func(t *rapid.T) {
		a, b := notFull.Draw(t, "a"), notFull.Draw(t, "b")
		used := func(c Candidate) *big.Rat { return new(big.Rat).SetFrac(toBig(c.Size.Sub(c.Free)), toBig(c.Size)) }
		s := LeastUsed()
		if tiers := cmp.Compare(s.Rank(a).Tier, s.Rank(b).Tier); tiers != 0 && tiers != used(a).Cmp(used(b)) {
			t.Fatalf("%v and %v: tiers compare %d", a, b, tiers)
		}
	})
}

func TestByName_KnowsEveryStrategyAndListsThem(t *testing.T) {
	_, err := ByName("fastest")
	unknown, ok := errors.AsType[*UnknownStrategyError](err)
	if !ok {
		t.Fatalf("got %v, want an *UnknownStrategyError", err)
	}
	for _, name := range []string{"free", "size", "priority", "least-used"} {
		s, err := ByName(name)
		if err != nil || s.Name() != name {
			t.Errorf("ByName(%q) = %v, %v", name, s, err)
		}
		if !strings.Contains(unknown.Error(), name) {
			t.Errorf("error %q does not list %s", unknown, name)
		}
	}
	if len(unknown.Valid) != 4 {
		t.Errorf("%d valid names, want 4", len(unknown.Valid))
	}
}
