// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informer keeps the replica's view of the cluster: which ServiceCIDRs
// and IPAddresses exist, as rows with indexes, and which addresses are present,
// as ordered sets.
//
//	 API server
//	     | list + watch (client-go shared informers, trimmed by Trim)
//	     v
//	+----------+  events   +-----------------------------------------------+
//	| handlers | --------> | queue -> apply (one batch, one transaction):  |
//	+----------+           |   go-memdb tables   servicecidrs, ipaddresses |
//	                       |   cidr.AddrSet      one per family            |
//	                       |   Topology          prefixes, ready, maximal  |
//	                       +-----------------------+-----------------------+
//	                                               | publish
//	                        subscribers <----------+----------> Snapshot()
//	                        (in order)                          (any reader)
//
// A [View] may lag behind the API server by as long as it likes; nothing above
// it may rely on more than: what it shows was true once, and each Snapshot is
// consistent in itself. Uniqueness comes from the API server, which refuses a
// second IPAddress of one name.
//
// # Rules
//
//   - A [Snapshot] never changes. Its tables, address sets and topology belong
//     to the same instant of the view.
//   - Rows are never changed after they were inserted: an update is a new row.
//   - No event makes the view panic, and no address is lost: a name that is not
//     canonical still takes the address it stands for, two objects may stand
//     for one address, and an address is absent when the last of them is gone.
//   - The view writes nothing to the cluster.
package informer
