// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meta allocates addresses out of all ServiceCIDRs of a cluster.
//
//	Allocate(ctx, Request)
//	    |   for each family, in order; all or nothing
//	    v
//	+---------+   which CIDR: drawn by weight among the maximal ready ones
//	| chooser |   which phase: dynamic bands of all, then static bands of all
//	+---------+
//	    v
//	+--------------------+   random scan, reservation, create
//	| allocator.Allocator|
//	+--------------------+
//	    v
//	+---------+   is a ServiceCIDR that covers the address there to stay?
//	| verify  |   a consistent read, or the freshness lease
//	+---------+
//	    v
//	Result                    informer.View feeds all of them
//
// A [MetaAllocator] serves both families. It is the library's front door: an
// API server makes one, runs it, and calls Allocate and Release.
//
// # Rules
//
//   - A CIDR is drawn in proportion to its free addresses in the phase (or as
//     another [weighting.Strategy] says), each address counted once under
//     overlap.
//   - No static band is touched while any maximal CIDR has dynamic room.
//   - Readiness counts at once: from the event on that turns a CIDR's Ready to
//     False, or deletes it, it is not picked.
//   - A confirmed address is covered by a ServiceCIDR whose deletion waits for
//     it, as far as the cluster's ServiceCIDR controller does: see [Verification].
//   - ErrFull means that nothing was free, and nothing else.
package meta
