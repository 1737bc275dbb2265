// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting

import "math/rand/v2"

// inline is how many slots a Drawing sets aside without allocating: more CIDRs than
// one call turns to before it finds room.
const inline = 8

// Drawing is a series of draws without replacement: each slot drawn is set aside, its
// weight 0, so the rest is drawn by the weights that remain. The tiers come one after
// the other.
//
//	d := t.Begin()
//	defer d.End()
//	for i, ok := d.Next(src); ok; i, ok = d.Next(src) { ... }
//
// The tree belongs to the Drawing until End: nothing else may use it. A Drawing must
// not be copied once used.
type Drawing struct {
	tree *Tree
	n    int           // how many are set aside
	few  [inline]aside // the first of them
	many []aside       // the rest
}

type aside struct {
	slot int
	rank Rank
}

// Begin starts a Drawing, which must End.
func (t *Tree) Begin() Drawing { return Drawing{tree: t} }

// Next draws a slot that was not drawn before, and sets it aside. It is not ok when no
// slot with weight is left. It panics after End.
func (d *Drawing) Next(src rand.Source) (i int, ok bool) {
	if d.tree == nil {
		panic("weighting: Next of a Drawing that has ended: Begin another")
	}
	i, ok = d.tree.Draw(src)
	if !ok {
		return 0, false
	}
	a := aside{i, d.tree.Get(i)}
	if d.n < inline {
		d.few[d.n] = a
	} else {
		d.many = append(d.many, a)
	}
	d.n++
	d.tree.Set(i, Rank{})
	return i, true
}

// Drawn returns how many slots are set aside.
func (d *Drawing) Drawn() int { return d.n }

// End puts every slot back with its rank. Only the first call does anything.
func (d *Drawing) End() {
	for _, a := range d.few[:min(d.n, inline)] {
		d.tree.Set(a.slot, a.rank)
	}
	for _, a := range d.many {
		d.tree.Set(a.slot, a.rank)
	}
	*d = Drawing{}
}
