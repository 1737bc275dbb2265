// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"

	"golang.org/x/exp/constraints"
)

// Uint128 is an unsigned 128-bit integer: the number an address stands for, or a number of addresses.
//
// It is a plain comparable value; the zero value is 0. Its limbs are exported so that it can be written as a
// constant expression and hashed or encoded without ceremony.
type Uint128 struct{ Hi, Lo uint64 }

// U128 widens any unsigned integer.
func U128[T constraints.Unsigned](v T) Uint128 { return Uint128{Lo: uint64(v)} }

// MaxUint128 returns 2^128-1.
func MaxUint128() Uint128 { return Uint128{Hi: math.MaxUint64, Lo: math.MaxUint64} }

// Add returns a+b modulo 2^128.
func (a Uint128) Add(b Uint128) Uint128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, _ := bits.Add64(a.Hi, b.Hi, carry)
	return Uint128{hi, lo}
}

// AddSat returns a+b, or 2^128-1 where that does not fit.
func (a Uint128) AddSat(b Uint128) Uint128 {
	lo, carry := bits.Add64(a.Lo, b.Lo, 0)
	hi, carry := bits.Add64(a.Hi, b.Hi, carry)
	if carry != 0 {
		return MaxUint128()
	}
	return Uint128{hi, lo}
}

// Sub returns a-b modulo 2^128.
func (a Uint128) Sub(b Uint128) Uint128 {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, _ := bits.Sub64(a.Hi, b.Hi, borrow)
	return Uint128{hi, lo}
}

// SubSat returns a-b, or 0 where that would be negative.
func (a Uint128) SubSat(b Uint128) Uint128 {
	lo, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	hi, borrow := bits.Sub64(a.Hi, b.Hi, borrow)
	if borrow != 0 {
		return Uint128{}
	}
	return Uint128{hi, lo}
}

// Lsh returns a shifted left by n bits; bits beyond the 128th are lost.
func (a Uint128) Lsh(n uint) Uint128 {
	if n >= 64 {
		return Uint128{Hi: a.Lo << (n - 64)}
	}
	return Uint128{Hi: a.Hi<<n | a.Lo>>(64-n), Lo: a.Lo << n}
}

// Rsh returns a shifted right by n bits.
func (a Uint128) Rsh(n uint) Uint128 {
	if n >= 64 {
		return Uint128{Lo: a.Hi >> (n - 64)}
	}
	return Uint128{Hi: a.Hi >> n, Lo: a.Lo>>n | a.Hi<<(64-n)}
}

// And returns the bitwise and of a and b.
func (a Uint128) And(b Uint128) Uint128 { return Uint128{a.Hi & b.Hi, a.Lo & b.Lo} }

// Or returns the bitwise or of a and b.
func (a Uint128) Or(b Uint128) Uint128 { return Uint128{a.Hi | b.Hi, a.Lo | b.Lo} }

// Cmp returns -1, 0 or +1 as a is less than, equal to or greater than b.
func (a Uint128) Cmp(b Uint128) int {
	switch {
	case a == b:
		return 0
	case a.Less(b):
		return -1
	default:
		return +1
	}
}

// Less reports whether a < b.
func (a Uint128) Less(b Uint128) bool {
	// The borrow of a-b: no branch, which the binary searches of AddrSet live on.
	_, borrow := bits.Sub64(a.Lo, b.Lo, 0)
	_, borrow = bits.Sub64(a.Hi, b.Hi, borrow)
	return borrow != 0
}

// IsZero reports whether a is 0.
func (a Uint128) IsZero() bool { return a.Hi|a.Lo == 0 }

// BitLen returns the number of bits needed to write a; 0 for 0.
func (a Uint128) BitLen() int {
	if a.Hi != 0 {
		return 64 + bits.Len64(a.Hi)
	}
	return bits.Len64(a.Lo)
}

// Uint64 returns the low 64 bits, and whether they are all of a.
func (a Uint128) Uint64() (v uint64, ok bool) { return a.Lo, a.Hi == 0 }

// Saturate64 returns a, or 2^64-1 where it does not fit.
func (a Uint128) Saturate64() uint64 {
	if a.Hi != 0 {
		return math.MaxUint64
	}
	return a.Lo
}

// SaturateInt64 returns a, or 2^63-1 where it does not fit. It is never negative.
func (a Uint128) SaturateInt64() int64 {
	if a.Hi != 0 || a.Lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(a.Lo)
}

// Float64 returns a as a floating-point number, within two units in the last place.
func (a Uint128) Float64() float64 {
	return math.Ldexp(float64(a.Hi), 64) + float64(a.Lo)
}

// String returns a in decimal.
func (a Uint128) String() string {
	if a.Hi == 0 {
		return strconv.FormatUint(a.Lo, 10)
	}
	// 10^19 is the greatest power of ten in 64 bits: at most three groups of nineteen digits.
	const group, digits = 10_000_000_000_000_000_000, 19
	var buf [3 * digits]byte
	at := len(buf)
	for {
		hi, rem := a.Hi/group, a.Hi%group
		lo, low := bits.Div64(rem, a.Lo, group)
		a = Uint128{hi, lo}
		last := a.IsZero()
		for i := 0; i < digits && (!last || low > 0); i++ {
			at--
			buf[at] = byte('0' + low%10)
			low /= 10
		}
		if last {
			return string(buf[at:])
		}
	}
}

// RandBelow draws a uniform number in [0, n) from src; 0 if n is 0. It takes fewer than four words of src on
// average, whatever n is.
func RandBelow(src rand.Source, n Uint128) Uint128 {
	if n.IsZero() {
		return Uint128{}
	}
	// Reject what is too large among the numbers of as many bits as n-1 has: each try succeeds with a
	// probability of one half at least, and no value is favoured.
	if n.Hi == 0 {
		drop := uint(bits.LeadingZeros64(n.Lo - 1))
		for {
			if v := U128(src.Uint64() >> drop); v.Less(n) {
				return v
			}
		}
	}
	drop := uint(128 - n.Sub(U128(uint(1))).BitLen())
	for {
		if v := (Uint128{Hi: src.Uint64(), Lo: src.Uint64()}).Rsh(drop); v.Less(n) {
			return v
		}
	}
}
