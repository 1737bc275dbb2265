// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"iter"
	"net/netip"
	"slices"
	"sort"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// isCover reports whether addresses may rely on a ServiceCIDR: its deletion, if
// it comes, waits for them.
func isCover(row *informer.ServiceCIDR) bool { return row.HasFinalizer && !row.Terminating }

// exposure is the part of a ServiceCIDR's usable addresses that nothing else
// covers:
//
//	ServiceCIDR   10.0.0.0/16  |-------------------------------|
//	cover         10.0.8.0/24        |----|
//	cover         10.0.9.0/24             |----|
//	exposed                     |----|    .    |---------------|
//	                                      10.0.8.255 and 10.0.9.0, which the
//	                                      /24s do not make usable
//
// The spans are disjoint and in the order of family and address.
type exposure []cidr.Span

// Contains reports whether an address is exposed. It costs O(log spans).
func (e exposure) Contains(a netip.Addr) bool {
	i := sort.Search(len(e), func(i int) bool { return !e[i].Last.Less(a) })
	return i < len(e) && !a.Less(e[i].First)
}

// exposed says what only row makes usable, by a topology, if those named in
// without are gone as well.
func exposed(t *informer.Topology, row *informer.ServiceCIDR, without []string) exposure {
	covers := func(p *informer.Prefix) bool {
		return slices.ContainsFunc(p.Members, func(m *informer.ServiceCIDR) bool {
			return isCover(m) && m.Name != row.Name && !slices.Contains(without, m.Name)
		})
	}
	var e exposure
	for _, r := range cidr.Maximal(row.Ranges) {
		e = uncovered(e, r, func(yield func(cidr.Range) bool) {
			for p := range t.Containing(r) {
				if covers(p) && !yield(p.Range) {
					return
				}
			}
			for p := range t.Within(r) {
				if covers(p) && !yield(p.Range) {
					return
				}
			}
		})
	}
	return e
}

// exposedAmong is exposed for rows that no view has put in order.
func exposedAmong(rows []*informer.ServiceCIDR, row *informer.ServiceCIDR, without []string) exposure {
	var e exposure
	for _, r := range cidr.Maximal(row.Ranges) {
		var ranges []cidr.Range
		for _, other := range rows {
			if !isCover(other) || other.Name == row.Name || slices.Contains(without, other.Name) {
				continue
			}
			for _, o := range other.Ranges {
				if o.Overlaps(r) {
					ranges = append(ranges, o)
				}
			}
		}
		slices.SortFunc(ranges, cidr.Range.Compare)
		e = uncovered(e, r, slices.Values(ranges))
	}
	return e
}

// uncovered appends to e what the covers leave of r's usable addresses. They all
// overlap r; of those that r contains an outer one comes before what it
// contains, and else they come by address.
func uncovered(e exposure, r cidr.Range, covers iter.Seq[cidr.Range]) exposure {
	rest := r.Usable()
	begin := len(e)
	for c := range covers {
		if c.Covers(r) {
			return e[:begin] // what r makes usable, every range that contains r does
		}
		u := c.Usable()
		if u.IsEmpty() || rest.IsEmpty() || u.Last.Less(rest.First) {
			continue // it adds nothing to what the ones before it cover
		}
		if rest.First.Less(u.First) {
			e = append(e, cidr.Span{First: rest.First, Last: u.First.Prev()})
		}
		rest.First = u.Last.Next()
		if !rest.First.IsValid() || rest.Last.Less(rest.First) {
			return e
		}
	}
	if !rest.IsEmpty() {
		e = append(e, rest)
	}
	return e
}
