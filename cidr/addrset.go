// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"iter"
	"net/netip"
	"sync/atomic"
)

// AddrSet is an ordered set of addresses of one family, which knows what is absent from it as readily as what is
// present. Held are the maximal runs of consecutive addresses, in a B+tree whose inner nodes count:
//
//	inner      | first .1  count 4   | first .16 count 9   | ...
//	                  |                      |
//	leaf       | .1-.3 | .7-.7 |     | .16-.20 | .31-.34 | ...
//
// The first address absent from .1 on: go down to the run that contains .1, step beyond its end, .4. As runs are
// maximal there is nothing more to search. The k-th absent address: go down by what is absent before each child, its
// first address less the count of those to the left. Every operation is one descent or two, O(log n) in the number of runs;
// none depends on how much is free, and none but the insertion of runs allocates.
//
// The zero AddrSet and that of no family are always empty. In general an address that the set cannot hold, of another
// family, of none ([FamilyOf]), with a zone or IPv4-mapped, is never in it, and to add it changes nothing; a span of
// another family has nothing present and nothing absent.
//
// An AddrSet must not be copied: use Clone, which takes O(1). Reads may run concurrently, and Clone is a read. A
// write excludes everything else on the same AddrSet, but not on its clones.
type AddrSet struct {
	family Family
	height int // inner levels above the leaves
	root   child
	len    uint64
	limit  int // entries a node may have: fanout, fewer in tests

	// The nodes that bear this token belong to this set alone and are changed in place; others are copied first.
	// Clone gives new tokens to both sets, so that all nodes are shared from then on. Atomic, so that Clone is a read.
	owner atomic.Pointer[owner]
}

// NewAddrSet returns an empty set of addresses of f.
func NewAddrSet(f Family) *AddrSet { return newAddrSet(f, fanout) }

func newAddrSet(f Family, limit int) *AddrSet {
	s := &AddrSet{family: f, limit: limit}
	if f.IsValid() {
		s.owner.Store(new(owner))
		s.root.leaf = &leaf{owner: s.owner.Load()}
	}
	return s
}

// Clone returns an independent copy in O(1). Writes to either copy the nodes they touch when they first do: a few
// kilobytes. A clone that is only read may be read concurrently with writes to the original.
func (s *AddrSet) Clone() *AddrSet {
	c := &AddrSet{family: s.family, height: s.height, root: s.root, len: s.len, limit: s.limit}
	s.owner.Store(new(owner))
	c.owner.Store(new(owner))
	return c
}

// Family returns the family of the addresses.
func (s *AddrSet) Family() Family { return s.family }

// Len returns the number of addresses.
func (s *AddrSet) Len() uint64 { return s.len }

// number returns what a stands for; ok is false if a cannot be in the set.
func (s *AddrSet) number(a netip.Addr) (x Uint128, ok bool) {
	if f := FamilyOf(a); f != s.family || f == 0 {
		return x, false
	}
	return ToUint128(a), true
}

// bounds returns the ends of sp; ok is false if it is empty or none of the set's addresses can be in it.
func (s *AddrSet) bounds(sp Span) (first, last Uint128, ok bool) {
	f, first, last, ok := sp.bounds()
	return first, last, ok && f == s.family
}

// from returns the part of sp that begins at at.
func (s *AddrSet) from(sp Span, at netip.Addr) (first, last Uint128, ok bool) {
	first, last, ok = s.bounds(sp)
	x, isOurs := s.number(at)
	if !ok || !isOurs {
		return first, last, false
	}
	if first.Less(x) {
		first = x
	}
	return first, last, !last.Less(first)
}

// Has reports whether a is in the set.
func (s *AddrSet) Has(a netip.Addr) bool {
	x, ok := s.number(a)
	if !ok {
		return false
	}
	l, i := s.seek(x)
	return i >= 0 && !l.last[i].Less(x)
}

// Count returns the number of addresses present in sp.
func (s *AddrSet) Count(sp Span) uint64 {
	first, last, ok := s.bounds(sp)
	if !ok {
		return 0
	}
	below, _ := s.rank(first)
	upTo, has := s.rank(last)
	if has {
		upTo++
	}
	return upTo - below
}

// FirstAbsent returns the first address of sp, at or after at, that is not in the set; an at before sp means its start.
// It does not wrap around: ok is false if there is none up to the end of sp.
//
// An IPv4-mapped address, which the set cannot hold, is never returned.
func (s *AddrSet) FirstAbsent(sp Span, at netip.Addr) (a netip.Addr, ok bool) {
	x, last, ok := s.from(sp, at)
	if !ok {
		return netip.Addr{}, false
	}
	if x, ok = s.absentFrom(x, last); ok && s.family == IPv6 && isMapped(x) {
		if x = (Uint128{Lo: mappedLast + 1}); last.Less(x) {
			return netip.Addr{}, false
		}
		x, ok = s.absentFrom(x, last)
	}
	if !ok {
		return netip.Addr{}, false
	}
	return FromUint128(s.family, x), true
}

// absentFrom returns the first number from x to last that is not in the set.
func (s *AddrSet) absentFrom(x, last Uint128) (Uint128, bool) {
	l, i := s.seek(x)
	if i < 0 || l.last[i].Less(x) {
		return x, true
	}
	if !l.last[i].Less(last) {
		return x, false
	}
	return l.last[i].Add(Uint128{Lo: 1}), true
}

// FirstPresent returns the first address of sp, at or after at, that is in the set; an at before sp means its start.
// It does not wrap around: ok is false if there is none up to the end of sp.
func (s *AddrSet) FirstPresent(sp Span, at netip.Addr) (a netip.Addr, ok bool) {
	x, last, ok := s.from(sp, at)
	if !ok {
		return netip.Addr{}, false
	}
	var p position
	s.find(x, &p)
	if p.at < 0 || p.leaf.last[p.at].Less(x) { // x is absent: the next run begins with the answer
		if x = p.next; !p.hasNext || last.Less(x) {
			return netip.Addr{}, false
		}
	}
	return FromUint128(s.family, x), true
}

// KthAbsent returns the k-th address of sp, counted from 0, that is not in the set; ok is false if there are no more
// than k. IPv4-mapped addresses, which the set cannot hold, are passed over.
func (s *AddrSet) KthAbsent(sp Span, k Uint128) (a netip.Addr, ok bool) {
	first, last, ok := s.bounds(sp)
	if !ok {
		return netip.Addr{}, false
	}
	x, ok := s.kthAbsentFrom(first, last, k)
	mapped := Uint128{Lo: mappedFirst}
	if ok && s.family == IPv6 && first.Less(mapped) && !x.Less(mapped) {
		// The block of IPv4-mapped addresses, all absent, lies before x or around it: count on from beyond it.
		if k = k.AddSat(Uint128{Lo: mappedLast - mappedFirst + 1}); last.Sub(first).Less(k) {
			return netip.Addr{}, false
		}
		x, ok = s.kthAbsentFrom(first, last, k)
	}
	if !ok {
		return netip.Addr{}, false
	}
	return FromUint128(s.family, x), true
}

// kthAbsentFrom returns the k-th number from first to last that is not in the set.
func (s *AddrSet) kthAbsentFrom(first, last, k Uint128) (Uint128, bool) {
	if last.Sub(first).Less(k) {
		return Uint128{}, false
	}
	// Count the absent numbers from 0 on instead: there are first-below of them before first. The sum is less than
	// 2^128, since it is at most last.
	below, _ := s.rank(first)
	x, ok := s.selectAbsent(first.Sub(Uint128{Lo: below}).Add(k))
	return x, ok && !last.Less(x)
}

// All yields the addresses in ascending order. The set must not be written to meanwhile: range over a Clone for that.
func (s *AddrSet) All() iter.Seq[netip.Addr] {
	return s.Within(spanOf(s.family, Uint128{}, s.family.max()))
}

// Within yields the addresses present in sp in ascending order. The set must not be written to meanwhile: range over
// a Clone for that.
func (s *AddrSet) Within(sp Span) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		first, last, ok := s.bounds(sp)
		if !ok {
			return
		}
		s.root.walk(first, last, func(first, last Uint128) bool {
			for x := first; ; x = x.Add(Uint128{Lo: 1}) {
				if !yield(FromUint128(s.family, x)) {
					return false
				}
				if x == last {
					return true
				}
			}
		})
	}
}

// Add puts a into the set, and reports whether that changed it.
func (s *AddrSet) Add(a netip.Addr) bool {
	x, ok := s.number(a)
	if !ok {
		return false
	}
	var p position
	s.find(x, &p)
	l, i := p.leaf, p.at
	if i >= 0 && !l.last[i].Less(x) {
		return false
	}
	one := Uint128{Lo: 1}
	joinsPrev := i >= 0 && l.last[i].Add(one) == x
	joinsNext := p.hasNext && x.Add(one) == p.next

	if joinsNext && i+1 == l.n {
		// The next run is in another leaf. Take it out, and put it back with x in front of it.
		var q position
		s.find(p.next, &q)
		s.own(&q)
		last := q.leaf.last[q.at]
		s.removeRun(&q)
		s.find(x, &p) // the tree may have changed its shape
		s.own(&p)
		if joinsPrev {
			p.leaf.last[p.at] = last
			s.addCount(&p, runLen(x, last))
		} else {
			s.insertRun(&p, x, last)
		}
		return true
	}

	s.own(&p)
	l = p.leaf
	switch {
	case joinsPrev && joinsNext:
		l.last[i] = l.last[i+1]
		l.remove(i + 1)
		s.addCount(&p, 1)
		s.rebalance(&p)
	case joinsPrev:
		l.last[i] = x
		s.addCount(&p, 1)
	case joinsNext:
		l.first[i+1] = x
		s.addCount(&p, 1)
		s.fixFirst(&p)
	default:
		s.insertRun(&p, x, x)
	}
	return true
}

// Remove takes a out of the set, and reports whether that changed it.
func (s *AddrSet) Remove(a netip.Addr) bool {
	x, ok := s.number(a)
	if !ok {
		return false
	}
	var p position
	s.find(x, &p)
	if p.at < 0 || p.leaf.last[p.at].Less(x) {
		return false
	}
	s.own(&p)
	one := Uint128{Lo: 1}
	l, i := p.leaf, p.at
	switch first, last := l.first[i], l.last[i]; {
	case first == last:
		s.removeRun(&p)
	case x == first:
		l.first[i] = x.Add(one)
		s.addCount(&p, minus(1))
		s.fixFirst(&p)
	case x == last:
		l.last[i] = x.Sub(one)
		s.addCount(&p, minus(1))
	default:
		l.last[i] = x.Sub(one)
		s.addCount(&p, minus(runLen(x, last)))
		s.insertRun(&p, x.Add(one), last)
	}
	return true
}
