// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server puts the API server together.
//
//	Options ──► etcd (inside, or given) ──► listener, keys, tokens ──► storage ──► generic API server
//	                                                                     │             │
//	                              MetaAllocator, Ports ◄─────────────────┘             ├─ post-start: allocator, default ServiceCIDR,
//	                                   │                                               │    namespaces, Service kubernetes
//	                                   └── loopback client ────────────────────────────┴─ leader only: ServiceCIDR controller, repair
//
// # Rules
//
//   - The allocator and the controllers are clients of the server that they are in: what they do is what any client could do,
//     with the same validation. So a server of another make works as well.
//   - Replicas on one etcd share nothing else. What must be done by one at a time is elected; it would do no harm twice.
//   - TLS always; nobody is anonymous but on /livez, /readyz and /healthz; what no rule allows is forbidden.
//   - The embedded etcd listens on a Unix socket in a folder of its own: who may not read the folder may not read etcd.
package server
