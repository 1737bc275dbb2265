// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"github.com/metacidr/metacidr/cidr"
)

// Prefix is one distinct range and the ServiceCIDRs that carry it.
type Prefix struct {
	Range cidr.Range
	// Members carry the range, in the order of their names.
	Members []*ServiceCIDR
	// Ready reports that at least one member may be allocated from.
	Ready bool
	// Maximal reports that the prefix is ready and no other ready one contains it.
	Maximal bool
	// Outer is the maximal prefix that contains this one, the zero Range if none does.
	Outer cidr.Range
	// Priority is the highest of its ready members.
	Priority int32
}

// Names lists the members, comma separated.
func (p *Prefix) Names() string {
	names := make([]string, len(p.Members))
	for i, m := range p.Members {
		names[i] = m.Name
	}
	return strings.Join(names, ",")
}

// WhyNot says why the prefix is not ready, the empty string if it is.
func (p *Prefix) WhyNot(requireFinalizer bool) string {
	if p.Ready {
		return ""
	}
	var why []string
	for _, m := range p.Members {
		why = append(why, m.Name+": "+m.WhyNot(requireFinalizer))
	}
	return strings.Join(why, "; ")
}

// Topology is how the prefixes of all ServiceCIDRs lie to each other. Prefixes
// nest or are disjoint, so the maximal ones partition the ready space:
//
//	10.0.0.0/16  ready    |===============================|  maximal
//	10.0.1.0/24  ready        |==|                            nested in the /16
//	10.9.0.0/24  ready                                         |==|  maximal
//	10.0.0.0/8   Terminating  (not ready: hides nothing)
//
// It is immutable and safe for concurrent use.
type Topology struct {
	requireFinalizer bool
	prefixes         []*Prefix // by family, address, length
	index            *cidr.Index[*Prefix]
	exist, ready     [2]bool // per family
}

func newTopology(rows []*ServiceCIDR, requireFinalizer bool) *Topology {
	t := &Topology{requireFinalizer: requireFinalizer, index: new(cidr.Index[*Prefix])}
	byRange := make(map[cidr.Range]*Prefix, len(rows))
	for _, row := range rows {
		for _, r := range row.Ranges {
			p := byRange[r]
			if p == nil {
				p = &Prefix{Range: r}
				byRange[r] = p
				t.prefixes = append(t.prefixes, p)
				t.index.Insert(r, p)
			}
			p.Members = append(p.Members, row)
			t.exist[r.Family().Index()] = true
			if row.WhyNot(requireFinalizer) != "" {
				continue
			}
			if !p.Ready || row.Priority > p.Priority {
				p.Priority = row.Priority
			}
			p.Ready, t.ready[r.Family().Index()] = true, true
		}
	}
	slices.SortFunc(t.prefixes, func(a, b *Prefix) int { return a.Range.Compare(b.Range) })
	// In that order an outer prefix precedes all it contains, so the last
	// maximal one is the only candidate for containing the next.
	var outer *Prefix
	for _, p := range t.prefixes {
		slices.SortFunc(p.Members, func(a, b *ServiceCIDR) int { return strings.Compare(a.Name, b.Name) })
		if outer != nil && outer.Range.Covers(p.Range) {
			p.Outer = outer.Range
			continue
		}
		if p.Ready {
			p.Maximal, outer = true, p
		}
	}
	return t
}

// Prefixes lists the distinct prefixes by family, address and length.
func (t *Topology) Prefixes() []*Prefix { return slices.Clone(t.prefixes) }

// Maximal lists the maximal prefixes of one family.
func (t *Topology) Maximal(f cidr.Family) []*Prefix {
	var out []*Prefix
	for _, p := range t.prefixes {
		if p.Maximal && p.Range.Family() == f {
			out = append(out, p)
		}
	}
	return out
}

// Exist reports whether there is any prefix of the family.
func (t *Topology) Exist(f cidr.Family) bool { return f.IsValid() && t.exist[f.Index()] }

// AnyReady reports whether any prefix of the family is ready.
func (t *Topology) AnyReady(f cidr.Family) bool { return f.IsValid() && t.ready[f.Index()] }

// Get returns the prefix of a range.
func (t *Topology) Get(r cidr.Range) (*Prefix, bool) { return t.index.Get(r) }

// Covering lists the prefixes, ready or not, in which the address is usable.
func (t *Topology) Covering(addr netip.Addr) []*Prefix {
	var out []*Prefix
	for _, p := range t.index.UsableIn(addr) {
		out = append(out, p)
	}
	return out
}

// Containing ranges over the prefixes, ready or not, that cover the range, itself
// included, the longest first.
func (t *Topology) Containing(r cidr.Range) iter.Seq[*Prefix] {
	return values(t.index.CoveringRange(r))
}

// Within ranges over the prefixes, ready or not, that the range covers, itself
// included, an outer one before what it contains and else by address.
func (t *Topology) Within(r cidr.Range) iter.Seq[*Prefix] { return values(t.index.Within(r)) }

func values(seq iter.Seq2[cidr.Range, *Prefix]) iter.Seq[*Prefix] {
	return func(yield func(*Prefix) bool) {
		for _, p := range seq {
			if !yield(p) {
				return
			}
		}
	}
}

// RequiresFinalizer reports whether a ServiceCIDR without Finalizer counts as
// not ready here.
func (t *Topology) RequiresFinalizer() bool { return t.requireFinalizer }
