// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cidr is the arithmetic of metacidr: ranges to allocate from, numbers wide enough to count their addresses,
// and ordered sets of addresses. It knows nothing of Kubernetes and stands on [net/netip].
//
//	Family, Uint128     an address is a number of 32 or 128 bits
//	Span                the addresses from one to another
//	Range, Band         a prefix: which addresses are usable, which are static, which dynamic
//	Parse, ParseAddr    one spelling per prefix and address; Lenient for what others stored
//	Maximal, Index      how ranges nest; which of many cover an address
//	AddrSet             which addresses are taken; the next free one, the k-th free one, how many, in O(log n)
//
// # Rules
//
// One name per thing. An address or prefix that could be written in two ways is refused by the strict parsers and
// normalised, with notes, by the lenient ones. IPv4-mapped IPv6 addresses and zones never get in: [FamilyOf] is zero
// for them, and an address of no family is in no span, range or set.
//
// No surprises at the edges. 255.255.255.255 and the last IPv6 address have no successor, spans of different families
// share nothing, a /31 has no usable address: all of it yields an empty result, never a panic and never a wrap.
//
// Free space is never written down. An IPv6 /64 costs what is taken in it, and its 2^64-1 free addresses are counted
// exactly.
//
// Values ([Uint128], [Span], [Range]) are immutable and comparable. The two containers, [AddrSet] and [Index], have
// one writer at a time, and an O(1) Clone to read from meanwhile.
package cidr
