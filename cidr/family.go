// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"encoding/binary"
	"net/netip"
)

// Family is an IP address family. The zero value is no family; functions that take one and are given none
// return empty results.
type Family uint8

// The two families, by their version numbers.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family a belongs to. It is zero (not valid) for an address that nothing can be allocated
// under: the zero Addr, an address with a zone, and an IPv4-mapped IPv6 address, which is IPv4 in disguise and has
// to be unmapped first ([ParseAddrLenient] does).
func FamilyOf(a netip.Addr) Family {
	switch {
	case a.Is4():
		return IPv4
	case !a.Is6() || a.Is4In6() || a.Zone() != "":
		return 0
	default:
		return IPv6
	}
}

// IsValid reports whether f is IPv4 or IPv6.
func (f Family) IsValid() bool { return f == IPv4 || f == IPv6 }

// Bits returns the length of an address in bits: 32, 128, or 0 for no family.
func (f Family) Bits() int {
	switch f {
	case IPv4:
		return 32
	case IPv6:
		return 128
	default:
		return 0
	}
}

// String returns "IPv4" or "IPv6", the values of the Kubernetes label ipaddress.kubernetes.io/ip-family.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "IPv4"
	case IPv6:
		return "IPv6"
	default:
		return "no IP family"
	}
}

// max returns the greatest number that an address of f stands for.
func (f Family) max() Uint128 {
	switch f {
	case IPv4:
		return Uint128{Lo: 1<<32 - 1}
	case IPv6:
		return MaxUint128()
	default:
		return Uint128{}
	}
}

// ToUint128 returns the number that a stands for; an IPv4 address is in the low 32 bits. The zero Addr gives 0, and
// a zone is ignored. An IPv4-mapped address counts as the IPv6 address it is written as.
func ToUint128(a netip.Addr) Uint128 {
	switch {
	case a.Is4():
		b := a.As4()
		return Uint128{Lo: uint64(binary.BigEndian.Uint32(b[:]))}
	case a.Is6():
		b := a.As16()
		return Uint128{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])}
	default:
		return Uint128{}
	}
}

// FromUint128 returns the address of family f that v stands for: the inverse of [ToUint128]. It is the zero Addr if f
// is not valid or v is too large for it.
func FromUint128(f Family, v Uint128) netip.Addr {
	switch {
	case f == IPv4 && v.Hi == 0 && v.Lo < 1<<32:
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(v.Lo))
		return netip.AddrFrom4(b)
	case f == IPv6:
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], v.Hi)
		binary.BigEndian.PutUint64(b[8:], v.Lo)
		return netip.AddrFrom16(b)
	default:
		return netip.Addr{}
	}
}

// isMapped reports whether v, as an IPv6 address, lies in ::ffff:0:0/96 (RFC 4291, section 2.5.5.2).
func isMapped(v Uint128) bool { return v.Hi == 0 && v.Lo>>32 == 0xffff }

// The IPv4-mapped block, as numbers.
const (
	mappedFirst = 0xffff_0000_0000
	mappedLast  = 0xffff_ffff_ffff
)

// Index is 0 for IPv4 and 1 for any other family: the place of what is kept per family in an array of two.
func (f Family) Index() int {
	if f == IPv4 {
		return 0
	}
	return 1
}
