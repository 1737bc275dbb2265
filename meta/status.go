// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Status is what the allocator knows of the cluster's CIDRs at one moment.
type Status struct {
	// Synced reports that the initial lists are complete; before, nothing is
	// allocated and the rest is partial.
	Synced bool
	// CIDRs has a row for each entry of each ServiceCIDR's spec.cidrs, by the
	// name of the ServiceCIDR.
	CIDRs []CIDRStatus
}

// CIDRStatus is one entry of one ServiceCIDR.
type CIDRStatus struct {
	ServiceCIDR string
	// Prefix is the entry; the zero Range if it was skipped, see Problems.
	Prefix cidr.Range
	// Ready reports that this ServiceCIDR may be allocated from; WhyNot says
	// why it may not.
	Ready  bool
	WhyNot string
	// Terminating reports a deletionTimestamp.
	Terminating bool
	// Maximal reports that dynamic addresses are drawn from Prefix: some
	// ServiceCIDR that carries it is ready, and no other ready prefix contains
	// it. NestedIn is the maximal prefix that does.
	Maximal  bool
	NestedIn cidr.Range
	// Static and Dynamic are the prefix's bands.
	Static, Dynamic BandStatus
	// Unmanaged is how many of the taken addresses bear no managed-by label of
	// ours: never handed out, never repaired or collected by us.
	Unmanaged cidr.Uint128
	// Problems are entries that were skipped or read leniently.
	Problems []informer.Problem
}

// BandStatus counts the addresses of a band: Free + Taken = Size, exactly.
// Addresses of nested prefixes count in the outer ones too.
type BandStatus struct {
	Size, Free, Taken cidr.Uint128
}

// Status reports every CIDR: whether it is ready and why not, how it lies to
// the others, and how full it is. It costs O(log addresses) per CIDR and holds
// up no allocation.
func (m *MetaAllocator) Status() Status {
	topology, taken := m.known()
	status := Status{Synced: m.HasSynced()}
	snapshot := m.view.Snapshot()
	for row := range snapshot.ServiceCIDRs() {
		base := CIDRStatus{ServiceCIDR: row.Name, Terminating: row.Terminating, WhyNot: row.WhyNot(m.strict()), Problems: row.Problems}
		base.Ready = base.WhyNot == ""
		if len(row.Ranges) == 0 {
			base.Ready = false
			if base.WhyNot == "" {
				base.WhyNot = "it has no usable range"
			}
			status.CIDRs = append(status.CIDRs, base)
		}
		for _, r := range row.Ranges {
			s := base
			s.Prefix = r
			if p, ok := topology.Get(r); ok {
				s.Maximal, s.NestedIn = p.Maximal, p.Outer
			}
			counts := countBands(r, taken)
			s.Static, s.Dynamic = counts[0], counts[1]
			s.Unmanaged = cidr.U128(snapshot.Unmanaged(r.Family()).Count(r.Usable()))
			status.CIDRs = append(status.CIDRs, s)
		}
	}
	return status
}

// known is the topology and the taken addresses.
func (m *MetaAllocator) known() (*informer.Topology, [2]allocator.Taken) {
	topology := m.view.Snapshot().Topology()
	return topology, [2]allocator.Taken{m.pool.Taken(cidr.IPv4), m.pool.Taken(cidr.IPv6)}
}

// countBands counts the static and the dynamic band of a range.
func countBands(r cidr.Range, taken [2]allocator.Taken) [2]BandStatus {
	var out [2]BandStatus
	for i, span := range []cidr.Span{r.Static(), r.Dynamic()} {
		size, used := span.Size(), cidr.U128(taken[r.Family().Index()].Count(span))
		out[i] = BandStatus{Size: size, Taken: used, Free: size.Sub(used)}
	}
	return out
}
