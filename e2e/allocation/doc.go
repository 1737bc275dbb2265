// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation is the end-to-end suite of the allocation library: package meta, with all that is
// below it, against a real etcd and kube-apiserver and upstream's own ServiceCIDR controller.
//
//	workers ──► replica (meta.MetaAllocator, VerifyStale)  ──┐
//	workers ──► replica (meta.MetaAllocator, VerifyAlways) ──┼──► kube-apiserver ──► etcd
//	workers ──► Services (kube-apiserver's own allocator)  ──┘         │
//	   │            │                                                  │ list, watch
//	   │ grants     │ topologies that its view went through            ▼
//	   ▼            ▼                                        history of the objects
//	ledger ──────► checks ◄─────────────────────────────────────────────┘
//
// It holds tests only. What they rely on, one concept a file:
//
//   - cluster: a control plane, a client, ServiceCIDRs, replicas.
//   - ledger: who was told that an address is whose. A release leaves the ledger before it is sent and a
//     grant enters it after it was answered, so two owners of one address in the ledger are a fault of an
//     allocator, never of the bookkeeping.
//   - timeline: the topologies that a replica's view went through, so that a grant is judged by what its
//     replica could know during that very call.
//   - history: all events of ServiceCIDRs and IPAddresses in the order of etcd's revisions, so that "was
//     there a ServiceCIDR at every moment" and "which came first" need no clock.
//   - worker: the load.
//
// # What upstream's ServiceCIDR controller does not protect
//
// It looks only at IPAddresses that bear core's managed-by label. An address whose owner is no Service
// bears another one (core's repair loop would delete it otherwise), and so does not hold up the deletion of
// its ServiceCIDR where upstream's controller is the only one: that takes package lifecycle/servicecidr. In
// TestManyCIDRs it is a Service that holds the deleted ServiceCIDR.
package allocation
