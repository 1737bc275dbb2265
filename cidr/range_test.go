// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/big"
	"net/netip"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// addrOrNone spells a, the zero Addr as "".
func addrOrNone(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// TestRangeVectors checks sizes and bands against known ones: those in testdata, and those shared by the project's
// parts where they lie beside the checkout.
func TestRangeVectors(t *testing.T) {
	for _, file := range []string{"testdata/ranges.json", "../../shared/vectors/ranges.json"} {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) && file != "testdata/ranges.json" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var vectors []struct {
			CIDR, Size, StaticSize, First, Last                string
			StaticFirst, StaticLast, DynamicFirst, DynamicLast string
		}
		if err := json.Unmarshal(data, &vectors); err != nil {
			t.Fatal(err)
		}
		if len(vectors) == 0 {
			t.Fatalf("%s is empty", file)
		}
		for _, v := range vectors {
			r, err := Parse(v.CIDR)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			got := []string{
				r.String(), r.Size().String(), r.StaticSize().String(), addrOrNone(r.First()), addrOrNone(r.Last()),
				addrOrNone(r.Static().First), addrOrNone(r.Static().Last),
				addrOrNone(r.Dynamic().First), addrOrNone(r.Dynamic().Last),
			}
			want := []string{
				v.CIDR, v.Size, v.StaticSize, v.First, v.Last, v.StaticFirst, v.StaticLast, v.DynamicFirst, v.DynamicLast,
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s:\n got %q\nwant %q", file, v.CIDR, got, want)
			}
		}
	}
}

// oracle is the definition of usable and static, in arbitrary precision.
func oracle(p netip.Prefix) (first, last, static *big.Int) {
	bits := p.Addr().BitLen()
	one := big.NewInt(1)
	n := new(big.Int).Lsh(one, uint(bits-p.Bits()))
	network := toBig(ToUint128(p.Addr()))
	first = new(big.Int).Add(network, one)
	last = new(big.Int).Sub(new(big.Int).Add(network, n), one)
	if bits == 32 {
		last.Sub(last, one)
	}
	static = new(big.Int)
	if n.Cmp(big.NewInt(16)) > 0 {
		static.Div(n, big.NewInt(16))
		if static.Cmp(big.NewInt(16)) < 0 {
			static.SetInt64(16)
		}
		if static.Cmp(big.NewInt(256)) > 0 {
			static.SetInt64(256)
		}
	}
	return first, last, static
}

func TestI10_EveryLengthEqualsBigInt(t *testing.T) {
	one := big.NewInt(1)
	for _, base := range []string{"0.0.0.0", "10.96.0.0", "255.255.255.255", "::", "2001:db8::ffff:0:0:1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		a := netip.MustParseAddr(base)
		for length := 0; length <= a.BitLen(); length++ {
			p := netip.PrefixFrom(a, length).Masked()
			r, err := RangeOf(p)
			if p.String() == "::/80" { // ends with the IPv4-mapped block; alone of these
				if err == nil {
					t.Errorf("RangeOf(%v) is not refused", p)
				}
				continue
			}
			if err != nil {
				t.Errorf("RangeOf(%v): %v", p, err)
				continue
			}
			first, last, static := oracle(p)
			size := new(big.Int).Add(new(big.Int).Sub(last, first), one)
			if size.Sign() <= 0 {
				if !r.Size().IsZero() || !r.StaticSize().IsZero() || !r.Usable().IsEmpty() || !r.Static().IsEmpty() ||
					!r.Dynamic().IsEmpty() || r.First().IsValid() || r.Last().IsValid() || r.Contains(p.Addr()) {
					t.Errorf("%v has usable addresses: %v", p, r.Usable())
				}
				continue
			}
			if toBig(r.Size()).Cmp(size) != 0 || toBig(r.StaticSize()).Cmp(static) != 0 ||
				toBig(ToUint128(r.First())).Cmp(first) != 0 || toBig(ToUint128(r.Last())).Cmp(last) != 0 {
				t.Errorf("%v: size %v, static %v, usable %v; want %v, %v, %v-%v",
					p, r.Size(), r.StaticSize(), r.Usable(), size, static, first, last)
			}
			if got := r.StaticSize().Add(r.DynamicSize()); got != r.Size() {
				t.Errorf("%v: static %v + dynamic %v is not %v", p, r.StaticSize(), r.DynamicSize(), r.Size())
			}
			if r.Static().Size() != r.StaticSize() || r.Dynamic().Size() != r.DynamicSize() || r.Usable().Size() != r.Size() {
				t.Errorf("%v: the spans are not as long as the sizes say", p)
			}
		}
	}
}

// genRange draws a valid range of any family and length.
func genRange() *rapid.Generator[Range] {
	return rapid.Custom(func(t *rapid.T) Range {
		f := rapid.SampledFrom([]Family{IPv4, IPv6}).Draw(t, "family")
		v := genUint128().Draw(t, "base")
		if f == IPv4 {
			v = U128(uint32(v.Lo))
		}
		length := rapid.IntRange(0, f.Bits()).Draw(t, "length")
		r, err := RangeOf(netip.PrefixFrom(FromUint128(f, v), length).Masked())
		if err != nil {
			t.Skip(err)
		}
		return r
	})
}

func TestBandsPartitionTheUsableAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRange().Draw(t, "range")
		// An address near an edge of something, or anywhere.
		edges := []netip.Addr{r.Prefix().Addr(), r.First(), r.Last(), r.Static().Last, r.Dynamic().First}
		a := rapid.SampledFrom(edges).Draw(t, "edge")
		switch rapid.IntRange(-1, 2).Draw(t, "step") {
		case -1:
			a = a.Prev()
		case 1:
			a = a.Next()
		case 2:
			if k := genUint128().Draw(t, "k"); k.Less(r.Size()) {
				a = r.Usable().At(k)
			}
		}
		band := r.Band(a)
		inStatic, inDynamic := r.Static().Contains(a), r.Dynamic().Contains(a)
		if inStatic && inDynamic {
			t.Fatalf("%v is in both bands of %v", a, r)
		}
		if inStatic != (band == BandStatic) || inDynamic != (band == BandDynamic) ||
			r.Contains(a) != (band != BandNone) || r.Usable().Contains(a) != r.Contains(a) {
			t.Fatalf("%v in %v: band %v, static %v, dynamic %v, usable %v", a, r, band, inStatic, inDynamic, r.Contains(a))
		}
		if band != BandNone && !r.BandSpan(band).Contains(a) {
			t.Fatalf("BandSpan(%v) of %v lacks %v", band, r, a)
		}
		if r.Contains(a) {
			if !r.Prefix().Contains(a) || a == r.Prefix().Addr() {
				t.Fatalf("%v is usable in %v", a, r)
			}
			if k, ok := r.Usable().Offset(a); !ok || r.Usable().At(k) != a {
				t.Fatalf("At(Offset(%v)) of %v is %v", a, r, r.Usable().At(k))
			}
		}
	})
}

func TestS50_IPv6OffsetsBeyond63Bits(t *testing.T) {
	r := MustParse("2001:db8:0:1::/64")
	for _, tc := range []struct {
		offset uint64 // from the network address
		want   string
	}{
		{1, "2001:db8:0:1::1"},
		{1<<63 - 1, "2001:db8:0:1:7fff:ffff:ffff:ffff"},
		{1 << 63, "2001:db8:0:1:8000::"},
		{1<<63 + 1, "2001:db8:0:1:8000::1"},
		{math.MaxUint64, "2001:db8:0:1:ffff:ffff:ffff:ffff"},
	} {
		a := r.Usable().At(U128(tc.offset - 1))
		if a.String() != tc.want || !r.Contains(a) {
			t.Errorf("offset %d: %v, want %v", tc.offset, a, tc.want)
		}
	}
	if a := r.Usable().At(U128(uint64(math.MaxUint64))); a.IsValid() {
		t.Errorf("there is a usable address number 2^64: %v", a)
	}
	for length := 48; length <= 128; length++ {
		p := netip.PrefixFrom(netip.MustParseAddr("2001:db8:0:ffff:ffff:ffff:ffff:ffff"), length).Masked()
		r, err := RangeOf(p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Contains(p.Addr()) {
			t.Errorf("%v: the network address is usable", r)
		}
		if r.Size().IsZero() != (length == 128) {
			t.Errorf("%v: size %v", r, r.Size())
		}
		for _, k := range []Uint128{{}, r.Size().Rsh(1), r.Size().SubSat(U128(uint(1)))} {
			if a := r.Usable().At(k); length < 128 && (!r.Contains(a) || !p.Contains(a)) {
				t.Errorf("%v: address number %v is %v", r, k, a)
			}
		}
	}
}

func TestS45_TwoSlash64AreCountedExactly(t *testing.T) {
	a, b := MustParse("fd00:0:0:1::/64").Size(), MustParse("fd00:0:0:2::/64").Size()
	if got := a.Add(b).String(); got != "36893488147419103230" {
		t.Errorf("2 * (2^64-1) = %s", got)
	}
	if got := a.Add(b).SaturateInt64(); got != math.MaxInt64 {
		t.Errorf("for a gauge: %d", got)
	}
}

func TestS16_EdgesOfANestedRangeAreUsableThroughTheOuter(t *testing.T) {
	outer, inner := MustParse("10.0.0.0/16"), MustParse("10.0.1.0/24")
	for _, s := range []string{"10.0.1.0", "10.0.1.255"} {
		a := netip.MustParseAddr(s)
		if !outer.Contains(a) || inner.Contains(a) {
			t.Errorf("%s: usable in the /16 %v, in the /24 %v", s, outer.Contains(a), inner.Contains(a))
		}
	}
	lower, upper := MustParse("10.0.0.0/17"), MustParse("10.0.128.0/17")
	for _, s := range []string{"10.0.127.255", "10.0.128.0"} {
		a := netip.MustParseAddr(s)
		if !outer.Contains(a) || lower.Contains(a) || upper.Contains(a) {
			t.Errorf("%s: a /16 is not its two /17s", s)
		}
	}
}

func TestRangeRelations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genRange().Draw(t, "a"), genRange().Draw(t, "b")
		if rapid.Bool().Draw(t, "nested") {
			length := rapid.IntRange(0, a.Prefix().Bits()).Draw(t, "outer")
			var err error
			if b, err = RangeOf(netip.PrefixFrom(a.Prefix().Addr(), length).Masked()); err != nil {
				t.Skip(err)
			}
			if !b.Covers(a) {
				t.Fatalf("%v does not cover %v", b, a)
			}
		}
		if a.Overlaps(b) != (a.Covers(b) || b.Covers(a)) || a.Overlaps(b) != b.Overlaps(a) {
			t.Fatalf("%v and %v overlap without nesting", a, b)
		}
		if (a == b) != (a.Covers(b) && b.Covers(a)) || (a == b) != (a.Compare(b) == 0) || a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%v and %v: Compare %d, equal %v", a, b, a.Compare(b), a == b)
		}
		if a.Covers(b) && a.Compare(b) > 0 {
			t.Fatalf("%v covers %v and comes after it", a, b)
		}
		if got := b.Usable().Intersect(a.Usable()); !a.Overlaps(b) && !got.IsEmpty() {
			t.Fatalf("%v and %v share %v", a, b, got)
		}
	})
}

func TestZeroRangeIsInvalidAndEmpty(t *testing.T) {
	var r Range
	any4 := MustParse("0.0.0.0/0")
	if r.IsValid() || r.Family().IsValid() || !r.Size().IsZero() || !r.DynamicSize().IsZero() || !r.StaticSize().IsZero() ||
		!r.Usable().IsEmpty() || !r.Static().IsEmpty() || !r.Dynamic().IsEmpty() || !r.BandSpan(BandNone).IsEmpty() ||
		r.First().IsValid() || r.Last().IsValid() || r.Contains(netip.Addr{}) || r.Contains(any4.First()) ||
		r.Covers(r) || r.Covers(any4) || any4.Covers(r) || r.Overlaps(any4) || r.Compare(any4) >= 0 || r.Compare(r) != 0 {
		t.Error("the zero Range is not empty and first")
	}
	if r.String() != "invalid range" {
		t.Errorf("String() = %q", r)
	}
}

func TestRangeOfRefusesWhatHasNoSingleMeaning(t *testing.T) {
	for _, tc := range []struct {
		prefix netip.Prefix
		want   string
	}{
		{netip.Prefix{}, ""},
		{netip.MustParsePrefix("10.96.1.0/12"), "10.96.0.0/12"},
		{netip.MustParsePrefix("fd00::1/64"), "fd00::/64"},
		{netip.MustParsePrefix("::ffff:10.0.0.0/120"), "10.0.0.0/24"},
		{netip.MustParsePrefix("::ffff:0:0/96"), "0.0.0.0/0"},
		{netip.MustParsePrefix("::fffe:0:0/95"), ""},
	} {
		_, err := RangeOf(tc.prefix)
		var refused *ParseError
		if !errors.As(err, &refused) || refused.Canonical != tc.want {
			t.Errorf("RangeOf(%v): %v, want to be told %q", tc.prefix, err, tc.want)
		}
	}
}
