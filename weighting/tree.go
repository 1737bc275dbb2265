// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting

import (
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/metacidr/metacidr/cidr"
)

// Rank is how a slot takes part in a draw. The zero Rank takes no part.
type Rank struct {
	// Tier comes first: a slot is drawn only if no slot of a lower tier has weight.
	Tier uint64
	// Weight is the share within the tier. 0 is never drawn, whatever the tier.
	Weight cidr.Uint128
}

// Tree draws one of n slots by rank. See the package comment for its picture.
//
// The zero value has no slots; Grow adds some. A Tree must not be copied once used.
// It is not safe for concurrent use, but Draw, Get, Best, Total and Len only read:
// any number of them may run together, each with its own rand.Source.
//
// The weights of one tier are meant to sum to less than 2^128, as the addresses of
// disjoint ranges of one family do. A greater sum saturates at 2^128-1: a draw still
// ends at a slot with weight in the best tier, but slots far to the right get less
// than their share, down to nothing. It is exact again as soon as the sum fits.
type Tree struct {
	// nodes[1] is the root, the children of i are 2i and 2i+1; the slots are the
	// last half. Its length is 0 or twice a power of two.
	nodes []Rank
	slots int
}

// NewTree returns a tree of n slots of the zero Rank. It panics if n is negative.
func NewTree(n int) *Tree {
	t := new(Tree)
	t.Grow(n)
	return t
}

// Len returns the number of slots.
func (t *Tree) Len() int { return t.slots }

// Grow makes the tree n slots long, the new ones of the zero Rank. It panics if n is
// less than Len; set slots to the zero Rank instead. Growing one by one costs O(1)
// amortized.
func (t *Tree) Grow(n int) {
	if n < t.slots {
		panic(fmt.Sprintf("weighting: cannot grow from %d to %d slots: set the slots no longer wanted to the zero Rank", t.slots, n))
	}
	if n > t.leaves() {
		leaves := 1 << bits.Len(uint(n-1))
		nodes := make([]Rank, 2*leaves)
		copy(nodes[leaves:], t.nodes[t.leaves():])
		for i := leaves - 1; i > 0; i-- {
			nodes[i] = better(nodes[2*i], nodes[2*i+1])
		}
		t.nodes = nodes
	}
	t.slots = n
}

// Set gives slot i a rank. It panics if there is no slot i.
func (t *Tree) Set(i int, r Rank) {
	at := t.leaf(i)
	if r.Weight.IsZero() {
		r = Rank{}
	}
	for t.nodes[at] != r {
		t.nodes[at] = r
		if at == 1 {
			return
		}
		r = better(t.nodes[at&^1], t.nodes[at|1])
		at /= 2
	}
}

// Get returns the rank of slot i; one of weight 0 is the zero Rank. It panics if
// there is no slot i.
func (t *Tree) Get(i int) Rank { return t.nodes[t.leaf(i)] }

// Best returns the lowest tier that has weight, and the total weight of that tier; the
// zero Rank if no slot has weight.
func (t *Tree) Best() Rank {
	if len(t.nodes) == 0 {
		return Rank{}
	}
	return t.nodes[1]
}

// Total returns the total weight of the best tier: what a draw is drawn from.
func (t *Tree) Total() cidr.Uint128 { return t.Best().Weight }

// Draw returns one slot of the best tier, with a probability of its weight by Total.
// It is not ok if no slot has weight.
func (t *Tree) Draw(src rand.Source) (i int, ok bool) {
	total := t.Total()
	if total.IsZero() {
		return 0, false
	}
	return t.owner(cidr.RandBelow(src, total)), true
}

// owner returns the slot that number r, less than Total, belongs to: the slots of the
// best tier own consecutive runs of numbers, in their order.
func (t *Tree) owner(r cidr.Uint128) int {
	tier := t.nodes[1].Tier
	leaves := t.leaves()
	at := 1
	for at < leaves {
		at *= 2
		left := &t.nodes[at]
		if left.Tier != tier || !r.Less(left.Weight) { // an empty one has weight 0
			if left.Tier == tier {
				r = r.Sub(left.Weight)
			}
			at++
		}
	}
	return at - leaves
}

func (t *Tree) leaves() int { return len(t.nodes) / 2 }

func (t *Tree) leaf(i int) int {
	if uint(i) >= uint(t.slots) {
		panic(fmt.Sprintf("weighting: no slot %d in a tree of %d: call Grow first", i, t.slots))
	}
	return t.leaves() + i
}

// better joins two subtrees: the lower tier that has weight, or the sum within one.
func better(a, b Rank) Rank {
	switch {
	case b.Weight.IsZero():
		return a
	case a.Weight.IsZero() || b.Tier < a.Tier:
		return b
	case a.Tier < b.Tier:
		return a
	default:
		return Rank{a.Tier, a.Weight.AddSat(b.Weight)}
	}
}
