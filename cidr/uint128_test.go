// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// modulus is 2^128, which the oracle has to be told of.
func modulus() *big.Int { return new(big.Int).Lsh(big.NewInt(1), 128) }

// toBig is a in the oracle's arithmetic.
func toBig(a Uint128) *big.Int {
	v := new(big.Int).SetUint64(a.Hi)
	return v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(a.Lo))
}

// limb draws a word, the extremes often.
func limb() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}))
}

func genUint128() *rapid.Generator[Uint128] {
	return rapid.Custom(func(t *rapid.T) Uint128 {
		return Uint128{Hi: limb().Draw(t, "hi"), Lo: limb().Draw(t, "lo")}
	})
}

func TestUint128EqualsBigInt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genUint128().Draw(t, "a"), genUint128().Draw(t, "b")
		n := rapid.UintRange(0, 140).Draw(t, "n")
		x, y, m := toBig(a), toBig(b), modulus()
		equal := func(what string, got Uint128, want *big.Int) {
			if toBig(got).Cmp(want) != 0 {
				t.Fatalf("%s: got %v, want %v", what, got, want)
			}
		}
		sum, diff := new(big.Int).Add(x, y), new(big.Int).Sub(x, y)
		equal("Add", a.Add(b), new(big.Int).Mod(sum, m))
		equal("Sub", a.Sub(b), new(big.Int).Mod(diff, m))
		if sum.Cmp(m) >= 0 {
			sum = toBig(MaxUint128())
		}
		if diff.Sign() < 0 {
			diff = new(big.Int)
		}
		equal("AddSat", a.AddSat(b), sum)
		equal("SubSat", a.SubSat(b), diff)
		equal("And", a.And(b), new(big.Int).And(x, y))
		equal("Or", a.Or(b), new(big.Int).Or(x, y))
		equal("Rsh", a.Rsh(n), new(big.Int).Rsh(x, n))
		equal("Lsh", a.Lsh(n), new(big.Int).Mod(new(big.Int).Lsh(x, n), m))
		if a.Cmp(b) != x.Cmp(y) || a.Less(b) != (x.Cmp(y) < 0) || a.IsZero() != (x.Sign() == 0) {
			t.Fatalf("Cmp(%v, %v) = %d, Less = %v", a, b, a.Cmp(b), a.Less(b))
		}
		if a.String() != x.String() || a.BitLen() != x.BitLen() {
			t.Fatalf("String() = %s, BitLen() = %d, want %s and %d", a, a.BitLen(), x, x.BitLen())
		}
		if v, ok := a.Uint64(); ok != x.IsUint64() || ok && v != x.Uint64() {
			t.Fatalf("Uint64() = %d, %v", v, ok)
		}
		if want, _ := new(big.Float).SetInt(x).Float64(); math.Abs(a.Float64()-want) > want*0x1p-51 {
			t.Fatalf("Float64() = %g, want %g", a.Float64(), want)
		}
	})
}

func TestS45_SaturationIsNeverNegative(t *testing.T) {
	for _, tc := range []struct {
		in     Uint128
		wantU  uint64
		wantI  int64
		wantIs string
	}{
		{Uint128{}, 0, 0, "0"},
		{U128(uint8(7)), 7, 7, "7"},
		{Uint128{Lo: math.MaxInt64}, math.MaxInt64, math.MaxInt64, "9223372036854775807"},
		{Uint128{Lo: 1 << 63}, 1 << 63, math.MaxInt64, "9223372036854775808"},
		{Uint128{Lo: math.MaxUint64}, math.MaxUint64, math.MaxInt64, "18446744073709551615"},
		{Uint128{Hi: 1}, math.MaxUint64, math.MaxInt64, "18446744073709551616"},
		{MaxUint128(), math.MaxUint64, math.MaxInt64, "340282366920938463463374607431768211455"},
	} {
		if got := tc.in.Saturate64(); got != tc.wantU {
			t.Errorf("%v.Saturate64() = %d, want %d", tc.in, got, tc.wantU)
		}
		if got := tc.in.SaturateInt64(); got != tc.wantI {
			t.Errorf("%v.SaturateInt64() = %d, want %d", tc.in, got, tc.wantI)
		}
		if got := tc.in.String(); got != tc.wantIs {
			t.Errorf("String() = %s, want %s", got, tc.wantIs)
		}
	}
}

func TestRandBelowStaysBelowAndReachesAll(t *testing.T) {
	src := rand.NewPCG(1, 2)
	rapid.Check(t, func(t *rapid.T) {
		n := genUint128().Draw(t, "n")
		if got := RandBelow(src, n); !got.Less(n) && !n.IsZero() {
			t.Fatalf("RandBelow(%v) = %v", n, got)
		}
	})
	for n := range uint64(20) {
		seen := map[Uint128]int{}
		for range 100 * n {
			seen[RandBelow(src, U128(n))]++
		}
		// 100 are expected of each; fewer than 50 or more than 150 are five standard deviations away.
		for v, times := range seen {
			if times < 50 || times > 150 {
				t.Errorf("RandBelow(%d) was %v %d times of %d", n, v, times, 100*n)
			}
		}
		if uint64(len(seen)) != n {
			t.Errorf("RandBelow(%d) has %d values", n, len(seen))
		}
	}
}
