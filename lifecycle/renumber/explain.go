// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"net/netip"

	"github.com/metacidr/metacidr/cidr"
)

// Explanation is what a range is made of. Addresses are in canonical form, and
// empty where a band has none; numbers are exact and decimal, for an IPv6 range
// has more addresses than any integer of JSON.
type Explanation struct {
	// CIDR is the prefix, masked.
	CIDR string `json:"cidr"`
	// Input is what was asked for, if it is spelled otherwise.
	Input string `json:"input,omitempty"`
	// Size and StaticSize count the usable addresses, and those of the static
	// band (KEP-3070).
	Size       string `json:"size"`
	StaticSize string `json:"staticSize"`
	// First is the first usable address. The API server takes it for the Service
	// kubernetes if this is its first range, and its certificate must name it.
	First        string `json:"first"`
	Last         string `json:"last"`
	StaticFirst  string `json:"staticFirst"`
	StaticLast   string `json:"staticLast"`
	DynamicFirst string `json:"dynamicFirst"`
	DynamicLast  string `json:"dynamicLast"`
	// Warnings are sentences on what will surprise.
	Warnings []string `json:"warnings,omitempty"`

	// Range is what was explained.
	Range cidr.Range `json:"-"`
}

// Explain reads a CIDR leniently and says what is in it. The error is a
// *cidr.ParseError: it names the input and what is wrong with it.
func Explain(input string) (Explanation, error) {
	r, notes, err := cidr.ParseLenient(input)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{CIDR: r.String(), Size: r.Size().String(), StaticSize: r.StaticSize().String(), Range: r}
	if input != e.CIDR {
		e.Input = input
	}
	e.First, e.Last = ends(r.Usable())
	e.StaticFirst, e.StaticLast = ends(r.Static())
	e.DynamicFirst, e.DynamicLast = ends(r.Dynamic())
	for _, note := range notes {
		e.Warnings = append(e.Warnings, fmt.Sprintf("%q %s: a ServiceCIDR must be spelled %s", input, note, e.CIDR))
	}
	e.Warnings = append(e.Warnings, oddities(r)...)
	return e, nil
}

// ExplainAll explains several, and warns where they overlap. It fails at the
// first that has no meaning.
func ExplainAll(inputs []string) ([]Explanation, error) {
	all := make([]Explanation, len(inputs))
	for i, input := range inputs {
		e, err := Explain(input)
		if err != nil {
			return nil, err
		}
		for j := range i {
			switch other := all[j].Range; {
			case e.Range.Size().IsZero() || other.Size().IsZero():
			case other == e.Range:
				e.Warnings = append(e.Warnings, fmt.Sprintf("it is the same range as %s", all[j].CIDR))
			case other.Overlaps(e.Range):
				e.Warnings = append(e.Warnings, fmt.Sprintf("it overlaps with %s: each address counts once, and dynamic ones are drawn from the larger range while that is ready", all[j].CIDR))
			}
		}
		all[i] = e
	}
	return all, nil
}

func ends(s cidr.Span) (first, last string) {
	if s.IsEmpty() {
		return "", ""
	}
	return s.First.String(), s.Last.String()
}

// special are prefixes in which addresses of Services do not work, or belong to
// somebody else.
func special() []struct {
	prefix netip.Prefix
	what   string
} {
	p := netip.MustParsePrefix
	return []struct {
		prefix netip.Prefix
		what   string
	}{
		{p("0.0.0.0/8"), "\"this network\" (RFC 791): hosts do not route it"},
		{p("127.0.0.0/8"), "loopback: it never leaves a node"},
		{p("169.254.0.0/16"), "link-local (RFC 3927): cloud metadata services are here"},
		{p("224.0.0.0/4"), "multicast"},
		{p("240.0.0.0/4"), "reserved (RFC 1112): many hosts refuse it"},
		{p("::/128"), "the unspecified address"},
		{p("::1/128"), "loopback: it never leaves a node"},
		{p("fe80::/10"), "link-local (RFC 4291)"},
		{p("ff00::/8"), "multicast"},
	}
}

// private are prefixes that nobody on the Internet has.
func private() []netip.Prefix {
	p := netip.MustParsePrefix
	return []netip.Prefix{p("10.0.0.0/8"), p("172.16.0.0/12"), p("192.168.0.0/16"), p("100.64.0.0/10"), p("fc00::/7"),
		// For documentation: nobody has them either.
		p("192.0.2.0/24"), p("198.51.100.0/24"), p("203.0.113.0/24"), p("2001:db8::/32")}
}

func oddities(r cidr.Range) (warnings []string) {
	switch {
	case r.Size().IsZero():
		return []string{"it has no usable address: the network address, and in IPv4 the broadcast address, are never given out"}
	case r.StaticSize().IsZero():
		warnings = append(warnings, "it is too small for a static band: dynamic allocations may take any address, also those that you mean to ask for")
	}
	if r.Family() == cidr.IPv6 && r.Prefix().Bits() < 64 {
		warnings = append(warnings, "kube-apiserver's own allocator refuses IPv6 ranges shorter than /64")
	}
	for _, s := range special() {
		if r.Prefix().Overlaps(s.prefix) {
			warnings = append(warnings, fmt.Sprintf("it overlaps with %s, %s", s.prefix, s.what))
			return warnings
		}
	}
	for _, p := range private() {
		if p.Bits() <= r.Prefix().Bits() && p.Overlaps(r.Prefix()) {
			return warnings
		}
	}
	return append(warnings, "it is no private range: what has these addresses on the Internet cannot be reached from the cluster")
}
