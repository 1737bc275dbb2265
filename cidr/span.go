// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import "net/netip"

// Span is every address from First to Last, both included. The zero value is the empty span.
//
// A span whose ends are of different families, in the wrong order, or of no family (see [FamilyOf]) is empty: no
// method panics on it. Spans are comparable, but there are many empty ones: ask IsEmpty.
type Span struct{ First, Last netip.Addr }

// spanOf returns the span from first to last, empty if first > last.
func spanOf(f Family, first, last Uint128) Span {
	if last.Less(first) {
		return Span{}
	}
	return Span{FromUint128(f, first), FromUint128(f, last)}
}

// bounds returns the family and the numbers of the two ends; ok is false for an empty span.
func (s Span) bounds() (f Family, first, last Uint128, ok bool) {
	f = FamilyOf(s.First)
	if !f.IsValid() || f != FamilyOf(s.Last) {
		return 0, first, last, false
	}
	first, last = ToUint128(s.First), ToUint128(s.Last)
	if last.Less(first) {
		return 0, first, last, false
	}
	return f, first, last, true
}

// Family returns the family of the span, zero if it is empty.
func (s Span) Family() Family {
	f, _, _, _ := s.bounds()
	return f
}

// IsEmpty reports whether the span has no address.
func (s Span) IsEmpty() bool {
	_, _, _, ok := s.bounds()
	return !ok
}

// Contains reports whether a lies in the span.
func (s Span) Contains(a netip.Addr) bool {
	f, first, last, ok := s.bounds()
	if !ok || FamilyOf(a) != f {
		return false
	}
	v := ToUint128(a)
	return !v.Less(first) && !last.Less(v)
}

// Size returns the number of addresses. The one span that has 2^128 of them, all of IPv6, gives 2^128-1.
func (s Span) Size() Uint128 {
	_, first, last, ok := s.bounds()
	if !ok {
		return Uint128{}
	}
	return last.Sub(first).AddSat(Uint128{Lo: 1})
}

// At returns the k-th address, counted from 0; the zero Addr if there are no more than k.
func (s Span) At(k Uint128) netip.Addr {
	f, first, last, ok := s.bounds()
	if !ok || last.Sub(first).Less(k) {
		return netip.Addr{}
	}
	return FromUint128(f, first.Add(k))
}

// Offset returns the position of a in the span, counted from 0: the inverse of At. ok is false if a is not in it.
func (s Span) Offset(a netip.Addr) (k Uint128, ok bool) {
	if !s.Contains(a) {
		return Uint128{}, false
	}
	return ToUint128(a).Sub(ToUint128(s.First)), true
}

// Intersect returns the addresses that lie in both spans.
func (s Span) Intersect(t Span) Span {
	f, sf, sl, ok1 := s.bounds()
	g, tf, tl, ok2 := t.bounds()
	if !ok1 || !ok2 || f != g {
		return Span{}
	}
	if sf.Less(tf) {
		sf = tf
	}
	if tl.Less(sl) {
		sl = tl
	}
	return spanOf(f, sf, sl)
}

// String returns "first-last", or "empty".
func (s Span) String() string {
	if s.IsEmpty() {
		return "empty"
	}
	return s.First.String() + "-" + s.Last.String()
}
