// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"cmp"
	"net/netip"
)

// Range is a prefix to allocate from: an aligned network address and a length, such as 10.96.0.0/12 or fd00::/108.
//
//	           static band          dynamic band
//	         +------------+---------------------------+
//	network  | first usable ...           last usable |  broadcast
//	address  +------------+---------------------------+  (IPv4 only)
//
// Every address but the network address and, for IPv4, the broadcast address is usable. With n addresses in the
// prefix, network and broadcast included, the first min(max(16, n/16), 256) usable ones are the static band, none if
// n <= 16 (KEP-3070). The rest is dynamic.
//
// A Range is an immutable value, comparable with == and fit as a map key. The zero value is not valid: it has no
// family, no usable address, and covers nothing. Make one with [Parse], [ParseLenient] or [RangeOf].
type Range struct{ prefix netip.Prefix } // masked, no IPv4-mapped address

// RangeOf makes a Range of p. It refuses, with a [*ParseError], what has no single meaning as a range: an invalid
// prefix, one with host bits (use p.Masked()), and one that begins or ends among the IPv4-mapped addresses
// ::ffff:0:0/96 (use the IPv4 prefix).
func RangeOf(p netip.Prefix) (Range, error) {
	if problem := refusal(p); problem != "" {
		return Range{}, &ParseError{Input: p.String(), Problem: problem, Canonical: canonical(p)}
	}
	return Range{p}, nil
}

// refusal says why p is no range; it is empty if p is one.
func refusal(p netip.Prefix) string {
	switch {
	case !p.IsValid():
		return "is not a prefix"
	case p.Masked() != p:
		return "has bits set beyond its length"
	}
	if first, last := (Range{p}).numbers(); p.Addr().Is6() && (isMapped(first) || isMapped(last)) {
		return "begins or ends among the IPv4-mapped addresses"
	}
	return ""
}

// canonical returns the spelling of p that [Parse] takes, or "" if there is none.
func canonical(p netip.Prefix) string {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p = p.Masked(); refusal(p) != "" {
		return ""
	}
	return p.String()
}

// numbers returns the first and the last address of the prefix. The Range must be valid.
func (r Range) numbers() (first, last Uint128) {
	first = ToUint128(r.prefix.Addr())
	host := r.hostBits()
	if host == 128 {
		return first, MaxUint128()
	}
	return first, first.Or(Uint128{Lo: 1}.Lsh(host).Sub(Uint128{Lo: 1}))
}

// hostBits returns the number of bits beyond the length. The Range must be valid.
func (r Range) hostBits() uint { return uint(r.prefix.Addr().BitLen() - r.prefix.Bits()) }

// usable returns the first and the last usable address, and the number of those in the static band; ok is false if
// there is no usable address.
func (r Range) usable() (f Family, first, last, static Uint128, ok bool) {
	if !r.IsValid() {
		return 0, first, last, static, false
	}
	f = r.Family()
	host := r.hostBits()
	switch { // n is 2^host
	case host <= 4: // n <= 16
	case host <= 8: // n/16 <= 16
		static.Lo = 16
	case host <= 12: // n/16 <= 256
		static.Lo = 1 << (host - 4)
	default:
		static.Lo = 256
	}
	first, last = r.numbers()
	if host == 0 || f == IPv4 && host == 1 {
		return 0, first, last, static, false
	}
	first = first.Add(Uint128{Lo: 1})
	if f == IPv4 {
		last = last.Sub(Uint128{Lo: 1})
	}
	return f, first, last, static, true
}

// IsValid reports whether r is a range at all: false for the zero value only.
func (r Range) IsValid() bool { return r.prefix.IsValid() }

// Prefix returns the prefix, which is masked.
func (r Range) Prefix() netip.Prefix { return r.prefix }

// Family returns the family, zero for the zero Range.
func (r Range) Family() Family { return FamilyOf(r.prefix.Addr()) }

// Usable returns the usable addresses: the static band and the dynamic band.
func (r Range) Usable() Span {
	f, first, last, _, ok := r.usable()
	if !ok {
		return Span{}
	}
	return spanOf(f, first, last)
}

// Static returns the static band, at the start of the usable addresses. It may be empty.
func (r Range) Static() Span {
	f, first, _, static, ok := r.usable()
	if !ok || static.IsZero() {
		return Span{}
	}
	return spanOf(f, first, first.Add(static).Sub(Uint128{Lo: 1}))
}

// Dynamic returns the dynamic band: what is usable and not static.
func (r Range) Dynamic() Span {
	f, first, last, static, ok := r.usable()
	if !ok {
		return Span{}
	}
	return spanOf(f, first.Add(static), last)
}

// Size returns the number of usable addresses.
func (r Range) Size() Uint128 {
	_, first, last, _, ok := r.usable()
	if !ok {
		return Uint128{}
	}
	return last.Sub(first).Add(Uint128{Lo: 1}) // the network address is out: this fits
}

// StaticSize returns the number of addresses in the static band.
func (r Range) StaticSize() Uint128 {
	_, _, _, static, ok := r.usable()
	if !ok {
		return Uint128{}
	}
	return static
}

// DynamicSize returns the number of addresses in the dynamic band.
func (r Range) DynamicSize() Uint128 { return r.Size().Sub(r.StaticSize()) }

// First returns the first usable address, the zero Addr if there is none.
func (r Range) First() netip.Addr { return r.Usable().First }

// Last returns the last usable address, the zero Addr if there is none.
func (r Range) Last() netip.Addr { return r.Usable().Last }

// Contains reports whether a is usable in r. An address of the prefix need not be: 10.0.1.0 is usable in 10.0.0.0/16,
// and not in 10.0.1.0/24.
func (r Range) Contains(a netip.Addr) bool { return r.Band(a) != BandNone }

// Band returns the band that a lies in, [BandNone] if a is not usable in r.
func (r Range) Band(a netip.Addr) Band {
	f, first, last, static, ok := r.usable()
	if !ok || FamilyOf(a) != f {
		return BandNone
	}
	v := ToUint128(a)
	switch {
	case v.Less(first) || last.Less(v):
		return BandNone
	case v.Sub(first).Less(static):
		return BandStatic
	default:
		return BandDynamic
	}
}

// BandSpan returns the addresses of band b, none for [BandNone].
func (r Range) BandSpan(b Band) Span {
	switch b {
	case BandStatic:
		return r.Static()
	case BandDynamic:
		return r.Dynamic()
	default:
		return Span{}
	}
}

// Covers reports whether the prefix of r contains that of other, or is equal to it. It says nothing about usable
// addresses: the ends of a prefix are usable in a larger one.
func (r Range) Covers(other Range) bool {
	return r.Overlaps(other) && r.prefix.Bits() <= other.prefix.Bits()
}

// Overlaps reports whether the prefixes share an address. Since prefixes nest or are disjoint, one then covers the
// other.
func (r Range) Overlaps(other Range) bool { return r.prefix.Overlaps(other.prefix) }

// Compare orders ranges by family, IPv4 first, then by network address, then by length, the shorter (larger) first.
// The zero Range comes before all others.
func (r Range) Compare(other Range) int {
	if c := r.prefix.Addr().Compare(other.prefix.Addr()); c != 0 {
		return c
	}
	return cmp.Compare(r.prefix.Bits(), other.prefix.Bits())
}

// String returns the canonical spelling, that which [Parse] takes; "invalid range" for the zero Range.
func (r Range) String() string {
	if !r.IsValid() {
		return "invalid range"
	}
	return r.prefix.String()
}
