// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"net/netip"
	"strconv"
	"strings"
)

// ParseError says why a text is not taken as an address or a range, and what to write instead.
type ParseError struct {
	Input     string // what was given
	Problem   string // what is wrong with it, fit to follow the input: "has leading zeros"
	Canonical string // the spelling to use instead; empty if the input has no single meaning
}

// Error returns the input, the problem, and the canonical spelling where there is one.
func (e *ParseError) Error() string {
	msg := strconv.Quote(e.Input) + " " + e.Problem
	if e.Canonical != "" {
		msg += ": use " + e.Canonical
	}
	return msg
}

// Parse reads a range in its one canonical spelling: a masked prefix as [netip.Prefix.String] writes it. Everything
// else is refused with a [*ParseError] that names the canonical spelling, so that no prefix is stored under two
// names: host bits, leading zeros, capitals, uncompressed IPv6, IPv4-mapped addresses, zones, a missing length.
func Parse(s string) (Range, error) {
	r, notes, err := ParseLenient(s)
	if err != nil {
		return Range{}, err
	}
	if len(notes) > 0 {
		return Range{}, &ParseError{Input: s, Problem: strings.Join(notes, " and "), Canonical: r.String()}
	}
	return r, nil
}

// ParseLenient reads a range as objects that were stored by others may spell it. Host bits are masked; leading zeros
// (decimal, as in 10.096.0.0/012), capitals and uncompressed IPv6 are taken; an IPv4-mapped prefix of length 96 or
// more is unmapped. Each such deviation is a note, fit to follow the input: "has bits set beyond its length". There
// are none if and only if s is canonical. What has no single meaning, and zones, are a [*ParseError].
func ParseLenient(s string) (r Range, notes []string, err error) {
	slash := strings.LastIndexByte(s, '/')
	if slash < 0 {
		e := &ParseError{Input: s, Problem: `has no length, such as the "/12" of 10.96.0.0/12`}
		if a, _, err := ParseAddrLenient(s); err == nil {
			e.Problem = "has no length"
			e.Canonical = canonical(netip.PrefixFrom(a, a.BitLen())) + " if the single address is meant"
		}
		return Range{}, nil, e
	}
	a, notes, problem := parseAddr(s[:slash])
	if problem != "" {
		return Range{}, nil, &ParseError{Input: s, Problem: problem}
	}
	length, zeros, ok := decimal(s[slash+1:])
	if !ok || length > a.BitLen() {
		return Range{}, nil, &ParseError{Input: s, Problem: "has no length from 0 to " + strconv.Itoa(a.BitLen())}
	}
	if zeros {
		notes = append(notes, "has leading zeros in its length")
	}
	if a.Is4In6() {
		if length < 96 {
			return Range{}, nil, &ParseError{Input: s, Problem: "is IPv4-mapped and shorter than /96, so no range of either family"}
		}
		a, length = a.Unmap(), length-96
	}
	p := netip.PrefixFrom(a, length)
	if m := p.Masked(); m != p {
		notes = append(notes, "has bits set beyond its length")
		p = m
	}
	if problem := refusal(p); problem != "" {
		return Range{}, nil, &ParseError{Input: s, Problem: problem}
	}
	return Range{p}, notes, nil
}

// MustParse is [Parse] for tests and examples: it panics where that fails.
func MustParse(s string) Range {
	r, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return r
}

// ParseAddr reads an address in its one canonical spelling, that of [netip.Addr.String], which is also the only name
// an IPAddress object may have. Everything else is refused with a [*ParseError] that names the canonical spelling:
// leading zeros, capitals, uncompressed IPv6, IPv4-mapped addresses, zones.
func ParseAddr(s string) (netip.Addr, error) {
	a, notes, problem := parseAddr(s)
	if problem != "" {
		return netip.Addr{}, &ParseError{Input: s, Problem: problem}
	}
	if a = a.Unmap(); len(notes) > 0 {
		return netip.Addr{}, &ParseError{Input: s, Problem: strings.Join(notes, " and "), Canonical: a.String()}
	}
	return a, nil
}

// ParseAddrLenient reads an address as objects that were stored by others may spell it: leading zeros (decimal),
// capitals and uncompressed IPv6 are taken, and an IPv4-mapped address is unmapped. canonical tells whether
// [ParseAddr] takes s too. What has no single meaning, and zones, are a [*ParseError].
func ParseAddrLenient(s string) (addr netip.Addr, canonical bool, err error) {
	a, notes, problem := parseAddr(s)
	if problem != "" {
		return netip.Addr{}, false, &ParseError{Input: s, Problem: problem}
	}
	return a.Unmap(), len(notes) == 0, nil
}

// parseAddr reads an address leniently. Each deviation from the canonical spelling is a note; a problem means that
// there is no address. An IPv4-mapped address is returned as it is, with a note.
func parseAddr(s string) (a netip.Addr, notes []string, problem string) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		trimmed, ok := trimOctets(s)
		if !ok {
			return netip.Addr{}, nil, "is not an IP address"
		}
		if a, err = netip.ParseAddr(trimmed); err != nil {
			return netip.Addr{}, nil, "is not an IP address"
		}
		notes = append(notes, "has leading zeros")
	}
	switch {
	case a.Zone() != "":
		return netip.Addr{}, nil, "has a zone, which means nothing outside one host"
	case a.Is4In6():
		notes = append(notes, "is IPv4-mapped")
	case len(notes) == 0 && a.String() != s:
		notes = append(notes, "is not in canonical form")
	}
	return a, notes, ""
}

// trimOctets strips the leading zeros of the dotted decimal octets at the end of s; ok is false if there are none to
// strip. Four octets have to be there; what precedes them is kept.
func trimOctets(s string) (trimmed string, ok bool) {
	head := strings.LastIndexByte(s, ':') + 1
	octets := strings.Split(s[head:], ".")
	if len(octets) != 4 {
		return "", false
	}
	for i, o := range octets {
		v, zeros, isDecimal := decimal(o)
		if !isDecimal {
			return "", false
		}
		ok = ok || zeros
		octets[i] = strconv.Itoa(v)
	}
	return s[:head] + strings.Join(octets, "."), ok
}

// decimal reads one to three decimal digits, and tells whether they have leading zeros.
func decimal(s string) (v int, zeros, ok bool) {
	if len(s) < 1 || len(s) > 3 {
		return 0, false, false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false, false
		}
		v = 10*v + int(c-'0')
	}
	return v, len(s) > 1 && s[0] == '0', true
}
