// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle is the end-to-end suite of the lifecycle controllers: package lifecycle with
// servicecidr, defaultcidr and repair, against a real etcd and kube-apiserver without
// kube-controller-manager.
//
//	servicecidr ──────┐                     ┌── Services (kube-apiserver's own allocator)
//	  in this process │                     │
//	  in processes    ├──► kube-apiserver ◄─┼── addresses of other owners (meta.MetaAllocator)
//	    of their own, │      │     │        │
//	    with a Lease  │      │     ▼        └── people who delete what they should not
//	defaultcidr ──────┤      │    etcd
//	repair ───────────┘      │ watch
//	                         ▼
//	                      history ──► at every moment every address is usable in a ServiceCIDR
//
// It holds tests only. What they rely on, one concept a file:
//
//   - cluster: a control plane, a client, and what tests do with ServiceCIDRs, Services and events.
//   - history: all events of ServiceCIDRs and IPAddresses in the order of etcd's revisions, so that
//     "at every moment" needs no clock.
//   - process: a replica in a process of its own, which a test can end with SIGKILL. It is the test
//     binary, started anew.
//
// # Rules
//
//   - A wait has a condition and a deadline that only a hang reaches. No duration is asserted. That a
//     grace period is over is known from a ServiceCIDR that was deleted last and is gone.
//   - One ServiceCIDR controller runs on a control plane, upstream's or ours. What upstream's does in the
//     same situation is logged beside ours, and never asserted: TestDeletedTogether prints the table.
package lifecycle
