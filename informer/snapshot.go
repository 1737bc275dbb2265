// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"iter"
	"net/netip"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/metacidr/metacidr/cidr"
)

// Snapshot is the view at one instant: tables, address sets and topology agree
// with each other and never change. It is safe for concurrent use, costs
// nothing to take and holds memory only for what changed since.
type Snapshot struct {
	sequence           uint64
	tables, owned      *memdb.MemDB
	present, unmanaged [2]*cidr.AddrSet
	topology           *Topology
	changed            chan struct{}
}

// Sequence counts the snapshots of one view: a later one has a higher number.
func (s *Snapshot) Sequence() uint64 { return s.sequence }

// Changed is closed when the view has a newer snapshot than this.
func (s *Snapshot) Changed() <-chan struct{} { return s.changed }

// Topology is how the prefixes lie to each other.
func (s *Snapshot) Topology() *Topology { return s.topology }

// Present is the set of addresses of a family that an IPAddress stands for,
// nil for an unknown family. Do not change it.
func (s *Snapshot) Present(f cidr.Family) *cidr.AddrSet {
	if !f.IsValid() {
		return nil
	}
	return s.present[f.Index()]
}

// Unmanaged is the part of Present that nobody's label of Config.Managers
// marks: repaired and collected by none of them. Do not change it.
func (s *Snapshot) Unmanaged(f cidr.Family) *cidr.AddrSet {
	if !f.IsValid() {
		return nil
	}
	return s.unmanaged[f.Index()]
}

// ServiceCIDR returns the row of that name, nil if there is none.
func (s *Snapshot) ServiceCIDR(name string) *ServiceCIDR {
	return first[*ServiceCIDR](s.tables, tableServiceCIDRs, indexID, []byte(name+"\x00"))
}

// ServiceCIDRs ranges over all rows in the order of their names.
func (s *Snapshot) ServiceCIDRs() iter.Seq[*ServiceCIDR] {
	return all[*ServiceCIDR](s.tables, tableServiceCIDRs, indexIDPrefix, []byte{})
}

// ServiceCIDRsWith ranges over the rows that carry exactly that range.
func (s *Snapshot) ServiceCIDRsWith(r cidr.Range) iter.Seq[*ServiceCIDR] {
	return all[*ServiceCIDR](s.tables, tableServiceCIDRs, indexPrefix, rangeKey(r))
}

// IPAddress returns the row of that name, nil if there is none.
func (s *Snapshot) IPAddress(name string) *IPAddress {
	return first[*IPAddress](s.tables, tableIPAddresses, indexID, nameKey(name))
}

// IPAddresses ranges over all rows: those whose name is no address first, then
// by family and address.
func (s *Snapshot) IPAddresses() iter.Seq[*IPAddress] {
	return all[*IPAddress](s.tables, tableIPAddresses, indexIDPrefix, []byte{})
}

// IPAddressesAt ranges over the rows that stand for the address: one, unless
// odd names are stored.
func (s *Snapshot) IPAddressesAt(addr netip.Addr) iter.Seq[*IPAddress] {
	return all[*IPAddress](s.tables, tableIPAddresses, indexIDPrefix, addrKey(addr))
}

// IPAddressesOf ranges over the rows that the owner has.
func (s *Snapshot) IPAddressesOf(o Owner) iter.Seq[*IPAddress] {
	return all[*IPAddress](s.owned, tableOwned, indexIDPrefix, o.key())
}

// WatchIPAddress is IPAddress, and a channel that is closed when the view's row
// of that name changes, appears or goes. It may also be closed for a
// neighbour's sake: read again.
func (s *Snapshot) WatchIPAddress(name string) (*IPAddress, <-chan struct{}) {
	ch, row, err := s.tables.Txn(false).FirstWatch(tableIPAddresses, indexID, nameKey(name))
	if err != nil {
		panic(schemaFault(err))
	}
	found, _ := row.(*IPAddress)
	return found, ch
}

func first[T any](db *memdb.MemDB, table, index string, key []byte) (row T) {
	obj, err := db.Txn(false).First(table, index, key)
	if err != nil {
		panic(schemaFault(err))
	}
	row, _ = obj.(T)
	return row
}

func all[T any](db *memdb.MemDB, table, index string, key []byte) iter.Seq[T] {
	return func(yield func(T) bool) {
		it, err := db.Txn(false).Get(table, index, key)
		if err != nil {
			panic(schemaFault(err))
		}
		for obj := it.Next(); obj != nil; obj = it.Next() {
			if !yield(obj.(T)) {
				return
			}
		}
	}
}

// schemaFault marks an error that only a table or index of the wrong name can
// give: no input leads to it.
func schemaFault(err error) string { return "informer: schema: " + err.Error() }
