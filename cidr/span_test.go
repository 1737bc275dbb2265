// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

func TestFamilyOfWhatCanBeAllocated(t *testing.T) {
	for in, want := range map[netip.Addr]Family{
		{}:                                        0,
		netip.MustParseAddr("10.0.0.1"):           IPv4,
		netip.MustParseAddr("fd00::1"):            IPv6,
		netip.MustParseAddr("::ffff:10.0.0.1"):    0,
		netip.MustParseAddr("fe80::1%eth0"):       0,
		netip.MustParseAddr("::fffe:ffff:ffff"):   IPv6,
		netip.MustParseAddr("::1:0:0:0"):          IPv6,
		netip.MustParseAddr("255.255.255.255"):    IPv4,
		netip.MustParseAddr("::ffff:10.0.0.1%e0"): 0,
	} {
		if got := FamilyOf(in); got != want || got.IsValid() != (want != 0) {
			t.Errorf("FamilyOf(%v) = %v, want %v", in, got, want)
		}
	}
	for f, want := range map[Family]string{IPv4: "IPv4", IPv6: "IPv6", 0: "no IP family"} {
		if f.String() != want {
			t.Errorf("String() = %q, want %q", f, want)
		}
	}
}

func TestNumbersAndAddressesAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genUint128().Draw(t, "v")
		if a := FromUint128(IPv6, v); ToUint128(a) != v {
			t.Fatalf("%v is %v, which is %v", v, a, ToUint128(a))
		}
		a := FromUint128(IPv4, v)
		if fits := v.Rsh(32).IsZero(); a.IsValid() != fits || fits && ToUint128(a) != v {
			t.Fatalf("%v is %v", v, a)
		}
		if FromUint128(0, v).IsValid() {
			t.Fatal("an address of no family")
		}
	})
}

func TestSpansThatAreEmpty(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	for _, s := range []Span{
		{},
		{First: v4},
		{Last: v4},
		{v4, v6},
		{v6, v4},
		{v4, v4.Prev()},
		{netip.MustParseAddr("::1"), netip.MustParseAddr("::ffff:1.2.3.4")},
		{netip.MustParseAddr("fe80::1%a"), netip.MustParseAddr("fe80::2%a")},
	} {
		_, in := s.Offset(v4)
		if !s.IsEmpty() || !s.Size().IsZero() || s.Contains(v4) || s.Contains(v6) || s.Contains(netip.Addr{}) || in ||
			s.At(Uint128{}).IsValid() || s.Family().IsValid() || s.String() != "empty" ||
			!s.Intersect(Span{v4, v4}).IsEmpty() || !(Span{v4, v4}).Intersect(s).IsEmpty() {
			t.Errorf("%v-%v is not empty", s.First, s.Last)
		}
	}
}

func TestSpanOfEverything(t *testing.T) {
	for f, want := range map[Family]string{IPv4: "4294967296", IPv6: "340282366920938463463374607431768211455"} {
		s := spanOf(f, Uint128{}, f.max())
		if s.Size().String() != want {
			t.Errorf("%v: size %v, want %v", f, s.Size(), want)
		}
		if s.At(f.max()) != s.Last || f == IPv4 && s.At(s.Size()).IsValid() {
			t.Errorf("%v: the last is %v", f, s.At(f.max()))
		}
	}
}

func TestSpanIntersectIsWhatBothContain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 20)
		span := func(name string) Span {
			base := MaxUint128().Sub(U128(uint(20)))
			return spanOf(IPv6, base.Add(U128(n.Draw(t, name))), base.Add(U128(n.Draw(t, name))))
		}
		a, b := span("a"), span("b")
		in := a.Intersect(b)
		size := uint64(0)
		for k := range uint64(21) {
			x := FromUint128(IPv6, MaxUint128().Sub(U128(k)))
			if in.Contains(x) != (a.Contains(x) && b.Contains(x)) {
				t.Fatalf("%v and %v share %v", a, b, in)
			}
			if in.Contains(x) {
				size++
			}
		}
		if in.Size() != U128(size) {
			t.Fatalf("%v has the size %v, want %d", in, in.Size(), size)
		}
	})
}
