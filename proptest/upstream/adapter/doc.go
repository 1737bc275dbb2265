// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapter puts Kubernetes' own allocator of cluster IPs and its own
// ServiceCIDR controller, both as they are in their module, under the properties of
// package proptest.
//
//	proptest.Allocator
//	      |
//	  replica: one informer factory, and for each family
//	      |
//	      +-- section -- ipallocator.MetaAllocator (IPv4) --+
//	      |                                                 +-- networking --> Env.Client
//	      +-- section -- ipallocator.MetaAllocator (IPv6) --+
//
// # What is translated
//
//   - Upstream allocates for core Services alone. The owner travels as the name of a
//     Service; networking writes it as the parentRef that the suite asked for.
//   - Upstream releases by address. The owner of a release is not passed on.
//     With Options.Careful it is compared before, as a careful caller may do.
//   - Upstream has no context. A caller that gives up is not heard.
//   - Upstream seeds its random numbers with the time. Replicas start some
//     microseconds apart, so that no two have one seed.
//   - It counts per CIDR only for its metrics: Counts asks that code.
//   - Synced is that the informers are. Upstream makes its allocators of CIDRs up to
//     100 ms later; calls wait for that, so no such window is held against it.
//
// # What is not there
//
//   - Dual-stack requests: upstream makes them in the storage of Services.
//   - The repair loop: it wants a Service for each address, and would remove all
//     addresses of the suite's owners.
//
// # Its mutex
//
// Upstream's MetaAllocator holds a mutex across the API calls of AllocateNext. In a
// bubble of testing/synctest time passes only while every goroutine waits for what
// the bubble knows, and a mutex is not that: a slow call stops everything. With
// Options.Visible each call and each event takes a lock first, that of section, which
// is held exactly as long as the mutex is, and which a bubble knows. So the mutex is
// never waited for. No order of events becomes possible that was not before.
package adapter
