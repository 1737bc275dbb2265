// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"iter"
	"net/netip"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// Index maps ranges of both families to values and answers which of them cover an address or a range. It is a
// prefix trie: a look-up takes tens of nanoseconds, whatever the number of ranges.
//
// The zero value is empty and ready to use. An Index must not be copied: use Clone. Reads, and Clone is one, may run
// concurrently; a write excludes everything else on the same Index. A clone and its original are independent.
type Index[V any] struct {
	table  *bart.Table[V] // nil if empty and never written to
	shared atomic.Bool    // another Index has nodes of table: change a copy of the nodes
}

// Clone returns a copy in O(1). From then on writes to either copy the few nodes they touch, which takes microseconds.
// A V with a method Clone() V is copied by it when its node is.
func (x *Index[V]) Clone() *Index[V] {
	c := &Index[V]{table: x.table}
	if x.table != nil {
		x.shared.Store(true)
		c.shared.Store(true)
	}
	return c
}

// Len returns the number of ranges.
func (x *Index[V]) Len() int {
	if x.table == nil {
		return 0
	}
	return x.table.Size()
}

// Insert sets the value of r. The invalid range is ignored.
func (x *Index[V]) Insert(r Range, v V) {
	switch {
	case !r.IsValid():
	case x.shared.Load():
		x.table = x.table.InsertPersist(r.prefix, v)
	default:
		if x.table == nil {
			x.table = new(bart.Table[V])
		}
		x.table.Insert(r.prefix, v)
	}
}

// Delete removes r, and reports whether it was there.
func (x *Index[V]) Delete(r Range) bool {
	if _, ok := x.Get(r); !ok {
		return false
	}
	if x.shared.Load() {
		x.table = x.table.DeletePersist(r.prefix)
	} else {
		x.table.Delete(r.prefix)
	}
	return true
}

// Get returns the value of r itself.
func (x *Index[V]) Get(r Range) (v V, ok bool) {
	if x.table == nil || !r.IsValid() {
		return v, false
	}
	return x.table.Get(r.prefix)
}

// Covering yields the ranges whose prefix contains a, the most specific (longest) first. That a is in the prefix does
// not make it usable there: see UsableIn.
func (x *Index[V]) Covering(a netip.Addr) iter.Seq2[Range, V] {
	f := FamilyOf(a)
	if x.table == nil || !f.IsValid() {
		return none[V]
	}
	return ranges(x.table.Supernets(netip.PrefixFrom(a, f.Bits())))
}

// UsableIn yields the ranges in which a is usable, the most specific first.
func (x *Index[V]) UsableIn(a netip.Addr) iter.Seq2[Range, V] {
	covering := x.Covering(a)
	return func(yield func(Range, V) bool) {
		for r, v := range covering {
			if r.Contains(a) && !yield(r, v) {
				return
			}
		}
	}
}

// CoveringRange yields the ranges that cover r, itself included, the most specific first.
func (x *Index[V]) CoveringRange(r Range) iter.Seq2[Range, V] {
	if x.table == nil || !r.IsValid() {
		return none[V]
	}
	return ranges(x.table.Supernets(r.prefix))
}

// Within yields the ranges that r covers, itself included, in the order of [Range.Compare].
func (x *Index[V]) Within(r Range) iter.Seq2[Range, V] {
	if x.table == nil || !r.IsValid() {
		return none[V]
	}
	return ranges(x.table.Subnets(r.prefix))
}

// All yields every range, in the order of [Range.Compare].
func (x *Index[V]) All() iter.Seq2[Range, V] {
	if x.table == nil {
		return none[V]
	}
	return ranges(x.table.AllSorted())
}

// none is the empty sequence.
func none[V any](func(Range, V) bool) {}

// ranges turns the trie's prefixes, which were ranges when they went in, back into ranges.
func ranges[V any](seq iter.Seq2[netip.Prefix, V]) iter.Seq2[Range, V] {
	return func(yield func(Range, V) bool) {
		for p, v := range seq {
			if !yield(Range{p}, v) {
				return
			}
		}
	}
}
