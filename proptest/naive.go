// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/metacidr/metacidr/cidr"
)

// naive is the reference model of a dynamic pick, by the truth and by the book:
//
//	the maximal prefixes among the ready ones
//	any free dynamic address: the dynamic bands of all, else the static bands of all
//	a band is drawn in proportion to its free addresses
//	in it a uniform random start, then forward with wrap-around to a free one
type naive struct {
	bands []band // those that have a free address
}

type band struct {
	prefix cidr.Range
	span   cidr.Span
	free   cidr.Uint128
}

// String is for the story.
func (b band) String() string { return fmt.Sprintf("%s of %s with %s free", b.span, b.prefix, b.free) }

func (t truth) naive(f cidr.Family) naive {
	prefixes := cidr.Maximal(ranges(t.ready(true), f))
	for _, part := range []func(cidr.Range) cidr.Span{cidr.Range.Dynamic, cidr.Range.Static} {
		var n naive
		for _, r := range prefixes {
			span := part(r)
			free := span.Size()
			for addr := range t.addrs {
				if span.Contains(addr) {
					free = free.Sub(cidr.U128(uint(1)))
				}
			}
			if !free.IsZero() {
				n.bands = append(n.bands, band{r, span, free})
			}
		}
		if len(n.bands) > 0 {
			return n
		}
	}
	return naive{}
}

// which is the band that an address is in.
func (n naive) which(addr netip.Addr) (int, bool) {
	i := slices.IndexFunc(n.bands, func(b band) bool { return b.span.Contains(addr) })
	return i, i >= 0
}

// likelihood of each band.
func (n naive) likelihood() []float64 {
	out := make([]float64, len(n.bands))
	for i, b := range n.bands {
		out[i] = b.free.Float64()
	}
	return out
}

// starts lists the free addresses of a band, and from how many starts the walk ends
// at each: one more than there are taken ones right before it.
func (b band) starts(t truth) (addrs []netip.Addr, starts []float64) {
	n := b.span.Size().Saturate64()
	run := 0.0
	for k := range n {
		addr := b.span.At(cidr.U128(k))
		run++
		if _, taken := t.addrs[addr]; !taken {
			addrs, starts = append(addrs, addr), append(starts, run)
			run = 0
		}
	}
	if len(starts) > 0 {
		starts[0] += run // those at the end lead to the first
	}
	return addrs, starts
}
