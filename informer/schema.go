// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"net/netip"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/metacidr/metacidr/cidr"
)

// Tables and indexes. go-memdb orders an index by the bytes of its keys and
// calls the primary one "id".
//
//	servicecidrs  id      name
//	              prefix  family, address, length of each usable range
//	ipaddresses   id      family, address digits [, name if it is not canonical]
//	                      0, name               if the name is no address
//	owned         id      resource, group, namespace, name of the owner, then
//	                      the id of the IPAddress
//
// The id of an IPAddress serves look-ups by name and by address at once, and
// its order is that of the addresses. The index by owner is a table of a
// database of its own, for go-memdb fills one with one processor: an initial
// list goes into both at once.
const (
	tableServiceCIDRs = "servicecidrs"
	tableIPAddresses  = "ipaddresses"
	tableOwned        = "owned"
	indexID           = "id"
	indexIDPrefix     = "id_prefix"
	indexPrefix       = "prefix"
)

func schema() *memdb.DBSchema {
	return &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		tableServiceCIDRs: {
			Name: tableServiceCIDRs,
			Indexes: map[string]*memdb.IndexSchema{
				indexID: {Name: indexID, Unique: true, Indexer: keyed[*ServiceCIDR]{
					func(c *ServiceCIDR) []byte { return []byte(c.Name + "\x00") }}},
				indexPrefix: {Name: indexPrefix, AllowMissing: true, Indexer: rangesIndexer{}},
			},
		},
		tableIPAddresses: {
			Name: tableIPAddresses,
			Indexes: map[string]*memdb.IndexSchema{
				indexID: {Name: indexID, Unique: true, Indexer: keyed[*IPAddress]{(*IPAddress).key}},
			},
		},
	}}
}

func ownedSchema() *memdb.DBSchema {
	return &memdb.DBSchema{Tables: map[string]*memdb.TableSchema{
		tableOwned: {
			Name: tableOwned,
			Indexes: map[string]*memdb.IndexSchema{
				indexID: {Name: indexID, Unique: true, Indexer: keyed[*IPAddress]{
					func(a *IPAddress) []byte { return append(a.Owner().key(), a.key()...) }}},
			},
		},
	}}
}

// keyed indexes a row under one key; arguments are keys themselves.
type keyed[T any] struct{ of func(T) []byte }

func (k keyed[T]) FromObject(obj any) (bool, []byte, error) {
	row, ok := obj.(T)
	if !ok {
		return false, nil, fmt.Errorf("unexpected row %T", obj)
	}
	return true, k.of(row), nil
}

func (k keyed[T]) FromArgs(args ...any) ([]byte, error) { return keyArg(args) }

func (k keyed[T]) PrefixFromArgs(args ...any) ([]byte, error) { return keyArg(args) }

func keyArg(args []any) ([]byte, error) {
	if len(args) == 1 {
		if key, ok := args[0].([]byte); ok {
			return key, nil
		}
	}
	return nil, fmt.Errorf("want one key, have %d arguments", len(args))
}

// rangesIndexer indexes a ServiceCIDR under each of its ranges.
type rangesIndexer struct{}

func (rangesIndexer) FromObject(obj any) (bool, [][]byte, error) {
	row, ok := obj.(*ServiceCIDR)
	if !ok {
		return false, nil, fmt.Errorf("unexpected row %T", obj)
	}
	keys := make([][]byte, len(row.Ranges))
	for i, r := range row.Ranges {
		keys[i] = rangeKey(r)
	}
	return len(keys) > 0, keys, nil
}

func (rangesIndexer) FromArgs(args ...any) ([]byte, error) { return keyArg(args) }

func rangeKey(r cidr.Range) []byte {
	return append(addrKey(r.Prefix().Addr()), byte(r.Prefix().Bits()))
}

// addrKey is the family and the hexadecimal digits of an address, of fixed
// length per family. Digits, not bytes: go-memdb copies the nodes on the way to
// a row, and one for bytes has up to 256 edges, 4 KiB.
func addrKey(addr netip.Addr) []byte {
	family := cidr.FamilyOf(addr)
	key := append(make([]byte, 0, 1+family.Bits()/4), byte(family))
	for _, b := range addr.AsSlice() {
		key = append(key, b>>4, b&0xf)
	}
	return key
}

func (a *IPAddress) key() []byte {
	switch {
	case !a.Addr.IsValid():
		return append([]byte{0}, a.Name...)
	case !a.Canonical:
		return append(addrKey(a.Addr), a.Name...)
	}
	return addrKey(a.Addr)
}

// nameKey is the key of the IPAddress that has the name.
func nameKey(name string) []byte {
	row := IPAddress{Name: name}
	if addr, canonical, err := cidr.ParseAddrLenient(name); err == nil {
		row.Addr, row.Canonical = addr, canonical
	}
	return row.key()
}

// key separates the parts by a byte that no object name holds.
func (o Owner) key() []byte {
	key := make([]byte, 0, len(o.Resource)+len(o.Group)+len(o.Namespace)+len(o.Name)+4)
	for _, part := range []string{o.Resource, o.Group, o.Namespace, o.Name} {
		key = append(append(key, part...), 0)
	}
	return key
}
