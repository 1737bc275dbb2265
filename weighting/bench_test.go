// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/metacidr/metacidr/weighting"
)

// sizes runs f on trees of so many slots, all of one tier and of random weights.
func sizes(b *testing.B, f func(b *testing.B, tree *weighting.Tree, src *rand.PCG)) {
	for _, n := range []int{1, 10, 1_000, 10_000} {
		b.Run(fmt.Sprintf("slots=%d", n), func(b *testing.B) {
			src := rand.NewPCG(1, 2)
			tree := weighting.NewTree(n)
			for i := range n {
				tree.Set(i, weighting.Rank{Weight: u128(1 + src.Uint64()>>44)})
			}
			b.ReportAllocs()
			f(b, tree, src)
		})
	}
}

func BenchmarkDraw(b *testing.B) {
	sizes(b, func(b *testing.B, tree *weighting.Tree, src *rand.PCG) {
		for b.Loop() {
			tree.Draw(src)
		}
	})
}

func BenchmarkSet(b *testing.B) {
	sizes(b, func(b *testing.B, tree *weighting.Tree, src *rand.PCG) {
		for i := 0; b.Loop(); i++ {
			tree.Set(i%tree.Len(), weighting.Rank{Weight: u128(uint64(i))})
		}
	})
}

// BenchmarkDrawing is three draws without replacement, put back.
func BenchmarkDrawing(b *testing.B) {
	sizes(b, func(b *testing.B, tree *weighting.Tree, src *rand.PCG) {
		for b.Loop() {
			d := tree.Begin()
			for range 3 {
				d.Next(src)
			}
			d.End()
		}
	})
}
