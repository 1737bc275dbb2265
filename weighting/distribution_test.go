// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting_test

import (
	"math/rand/v2"
	"testing"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/weighting"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
	"gonum.org/v1/gonum/stat/sampleuv"
)

// The seeds are fixed, so a test here passes always or never. A p-value this small
// would mean a wrong distribution, not bad luck.
const (
	draws     = 100_000
	smallestP = 1e-3
)

func u128(v uint64) cidr.Uint128 { return cidr.Uint128{Lo: v} }

// fits checks observed counts against probabilities by Pearson's chi-squared test.
func fits(t *testing.T, observed, probability []float64) {
	t.Helper()
	n := 0.0
	for _, o := range observed {
		n += o
	}
	var obs, exp []float64
	for i, p := range probability {
		if p == 0 {
			if observed[i] != 0 {
				t.Errorf("outcome %d is impossible, but came %v times", i, observed[i])
			}
			continue
		}
		obs, exp = append(obs, observed[i]), append(exp, p*n)
	}
	if len(obs) < 2 {
		return
	}
	chi := stat.ChiSquare(obs, exp)
	if p := (distuv.ChiSquared{K: float64(len(obs) - 1)}).Survival(chi); p < smallestP {
		t.Errorf("chi-squared %.1f over %d outcomes, p = %.2g\nobserved %.0f\nexpected %.0f", chi, len(obs), p, obs, exp)
	}
}

func shares(weights []float64) []float64 {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	out := make([]float64, len(weights))
	for i, w := range weights {
		out[i] = w / sum
	}
	return out
}

func treeOf(ranks ...weighting.Rank) *weighting.Tree {
	t := weighting.NewTree(len(ranks))
	for i, r := range ranks {
		t.Set(i, r)
	}
	return t
}

func TestS14_256FreeAgainst1024IsOneToFour(t *testing.T) {
	byFree := weighting.ByFree()
	free := func(n, size uint64) weighting.Rank {
		return byFree.Rank(weighting.Candidate{Free: u128(n), Size: u128(size)})
	}
	tree := treeOf(free(256, 256), free(0, 1<<20), free(1024, 1<<20))
	src := rand.NewPCG(14, 0)
	counts := make([]float64, 3)
	for range draws {
		i, _ := tree.Draw(src)
		counts[i]++
	}
	fits(t, counts, []float64{1. / 5, 0, 4. / 5})
}

func TestI5_DrawFollowsTheWeights(t *testing.T) {
	big := func(hi uint64) cidr.Uint128 { return cidr.Uint128{Hi: hi, Lo: 12345} }
	for name, weights := range map[string][]cidr.Uint128{
		"equal":             {u128(7), u128(7), u128(7), u128(7), u128(7)},
		"steep":             {u128(1), u128(10), u128(100), u128(1000), u128(0), u128(10000)},
		"all of one":        {u128(0), u128(3), u128(0)},
		"just above 2^64":   {u128(1 << 63), u128(1 << 63), u128(1 << 62)},
		"of /64s and /48":   {big(0), big(1), big(1 << 16), big(1 << 15)},
		"near 2^128":        {big(1 << 62), big(1 << 63), big(1<<62 - 1)},
		"powers and change": {u128(65536), u128(65535), u128(65537), u128(1), u128(131071)},
	} {
		t.Run(name, func(t *testing.T) {
			ranks, want := make([]weighting.Rank, len(weights)), make([]float64, len(weights))
			for i, w := range weights {
				ranks[i], want[i] = weighting.Rank{Weight: w}, w.Float64()
			}
			tree, src := treeOf(ranks...), rand.NewPCG(5, 6)
			counts := make([]float64, len(weights))
			for range draws {
				i, ok := tree.Draw(src)
				if !ok {
					t.Fatal("nothing drawn")
				}
				counts[i]++
			}
			fits(t, counts, shares(want))
		})
	}
}

// TestDrawing_OrderProbabilities: the chance of an order is the product of each one's
// share of what is left; a worse tier comes after.
func TestDrawing_OrderProbabilities(t *testing.T) {
	weights := []float64{1, 2, 3, 4}
	tree := weighting.NewTree(5)
	for i, w := range weights {
		tree.Set(i, weighting.Rank{Tier: 3, Weight: u128(uint64(w))})
	}
	tree.Set(4, weighting.Rank{Tier: 4, Weight: u128(1 << 40)})

	var probability []float64
	index := map[[3]int]int{}
	for a := range weights {
		for b := range weights {
			for c := range weights {
				if a != b && b != c && a != c {
					index[[3]int{a, b, c}] = len(probability)
					left := 10.0
					p := 1.0
					for _, i := range []int{a, b, c} {
						p *= weights[i] / left
						left -= weights[i]
					}
					probability = append(probability, p)
				}
			}
		}
	}
	ours, gonums := make([]float64, len(probability)), make([]float64, len(probability))
	src := rand.NewPCG(7, 8)
	for range draws {
		var order [5]int
		d := tree.Begin()
		for i := range order {
			order[i], _ = d.Next(src)
		}
		if _, more := d.Next(src); more || d.Drawn() != 5 || order[4] != 4 {
			t.Fatalf("order %v, %d drawn", order, d.Drawn())
		}
		d.End()
		ours[index[[3]int(order[:3])]]++

		oracle := sampleuv.NewWeighted(weights, src)
		for i := range 3 {
			order[i], _ = oracle.Take()
		}
		gonums[index[[3]int(order[:3])]]++
	}
	fits(t, gonums, probability) // the oracle and the arithmetic agree
	fits(t, ours, probability)
}

func TestUniform_EveryResidueIsEquallyLikely(t *testing.T) {
	for name, n := range map[string]cidr.Uint128{
		"3":          u128(3),
		"not 2^k":    u128(10),
		"1":          u128(1),
		"3 * 2^62":   u128(3 << 62),
		"2^64":       {Hi: 1},
		"just above": {Hi: 1, Lo: 1},
		"5 * 2^100":  {Hi: 5 << 36},
		"2^128-1":    cidr.MaxUint128(),
	} {
		t.Run(name, func(t *testing.T) {
			src := rand.NewPCG(9, 10)
			const parts = 3
			counts, want := make([]float64, parts), make([]float64, parts)
			// Thirds of the range, as exact as integers allow.
			bound := func(i uint64) float64 { return n.Float64() * float64(i) / parts }
			for range draws {
				v := cidr.RandBelow(src, n)
				if !v.Less(n) {
					t.Fatalf("%v is not below %v", v, n)
				}
				i := 0
				for i < parts-1 && v.Float64() >= bound(uint64(i+1)) {
					i++
				}
				counts[i]++
			}
			for i := range want {
				want[i] = 1. / parts
			}
			switch n {
			case u128(1):
				want = []float64{1, 0, 0}
			case u128(10): // 0 to 3, 4 to 6, 7 to 9
				want = []float64{.4, .3, .3}
			}
			fits(t, counts, want)
		})
	}
}
