// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simapi is a Kubernetes API server in memory, for tests of code whose
// correctness lies in concurrency: optimistic locking, preconditions,
// finalizers, stale watches, lost answers.
//
// It serves these behind the typed interfaces of client-go, so the code under test
// cannot tell:
//
//	                                      status  managedFields, apply  PUT creates
//	networking.k8s.io/v1    IPAddress     -       -                     -
//	networking.k8s.io/v1    ServiceCIDR   yes     yes                   -
//	v1                      Service       yes     yes                   yes
//	coordination.k8s.io/v1  Lease         -       -                     yes
//
//	   replica "a"            replica "b"        the test
//	  Client("a")            Client("b")            |
//	      |                      |                  |
//	      v                      v                  |
//	+------------------------------------+          |
//	| call: hooks, faults, call counts   |<---------+ OnCall, Fail, Calls
//	+------------------------------------+          |
//	| store[T]: verbs and their rules    |<---------+ CreateServiceCIDR, PutRaw, True...
//	|   objects, one revision counter    |          |
//	|   history of changes (compactable) |<---------+ Compact
//	+------------------------------------+          |
//	| gate per replica: now, or held     |<---------+ Hold, Deliver, Release, CutWatches
//	+------------------------------------+
//	      |                      |
//	      v                      v
//	  watch.Interface        watch.Interface
//
// # Rules
//
//   - One revision counter for all resources. Each change takes the next value; a
//     change that changes nothing takes none and sends no event.
//   - A stored object is never mutated: a change stores a new one. What comes in and
//     what goes out is copied, so no caller can reach into the server.
//   - A call is atomic: it holds the server's lock from the check to the write, and
//     nothing else does. No lock is held while a hook runs, while a fault blocks, or
//     while a watcher is slow.
//   - Who owns a field is in managedFields, by the libraries of a real server. A writer
//     without a field manager goes by the name of its replica; CreateServiceCIDR,
//     SetReady and the other helpers of a test by "simapi". So an apply over what a
//     helper has set is a conflict, unless it is forced.
//   - A list in pages shows the moment of its first page. Once that is compacted, the
//     next page is answered 410, with a token for the rest as it is now.
//   - Hooks see a call twice, before it is applied and after, on the caller's
//     goroutine. A test that acts inside a hook acts exactly at that point.
//   - Time stands still unless the test's clock moves. Nothing here sleeps or times
//     out; a watch ends when its context, its Stop, CutWatches or Close ends it.
//
// # How it differs from a real server
//
//   - Answers are those that the typed client gives after its own retries: a fault of
//     429 reaches the caller at once.
//   - ServiceCIDR carries a generation (1, and one more for each change of its spec
//     and for its deletion); a real v1.37 server leaves it 0.
//   - No garbage collector: propagation policies are accepted and ignored.
//   - No managedFields of IPAddresses and Leases, and no apply of them: it is answered
//     MethodNotSupported. Keeping track makes a create ten times as slow, and tests
//     create hundreds of thousands of addresses.
//   - Services get no address, port or family from it: what the writer gives is stored,
//     so two may have one address. Ports, selectors and load balancers are not
//     validated. The name is a DNS-1035 label, as before v1.36.
//   - Any namespace exists. Deleting one is not simulated.
//   - No admission, no authorization, no events, no proxy.
//   - A watch of a held replica holds back the initial events too.
package simapi
