// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proptest has properties that any allocator of cluster IPs must have, and
// the cases that try to break them. It is for the tests of an allocator, or of a
// ServiceCIDR controller, of whatever design.
//
//	your allocator          a world, one per case                      a property
//	+-----------+   +---------------------------------------+   +--------------------+
//	| Factory   |-->| r0  r1  r2   replicas: late watches,  |   | profile: what      |
//	|  Env ->   |   |  |   |   |   own clocks, crashes       |<--|  happens how often |
//	|  Allocator|   |  v   v   v                            |   | checks: what must  |
//	+-----------+   | simapi.Server <-- faults, people,     |-->|  be so, by the     |
//	                |  the truth        ServiceCIDR control |   |  server's truth    |
//	                +---------------------------------------+   +--------------------+
//
// An adapter has a method of a few lines for each of Allocator's: example_meta_test.go
// is a whole one. Then
//
//	func TestMine(t *testing.T) { proptest.All(t, newMine) }
//	func FuzzMine(f *testing.F) { proptest.Fuzz(f, newMine) }
//
//	Uniqueness       I1   one owner per address, under staleness, crashes, lost answers
//	Linearizable     I1   the same for calls that overlap: every address is a register
//	InRange          I2   usable in a CIDR that was ready during the call, or a lease before
//	NoFalseFull      I3   Full, and every other reason, only if it is the true one
//	Synced           I3   nothing is allocated before the cluster is known
//	BandOrder        I4   no static band while a dynamic address is free anywhere
//	Weighted         I5   CIDRs are drawn in proportion to what is free
//	Scan             I6   in a band the pick is that of a walk from a random start
//	FinalizerSafety  I7   no address loses its last ServiceCIDR
//	Fenced           I8   nothing is removed but what was read
//	NoLeak           I9   failed calls leave nothing
//	Counts           I10  free and used equal a recount
//	Bounded          I11  API calls per allocation; an error stops it and is passed on
//
// # Rules
//
//   - The judge is the server's true state, never what an allocator says of itself.
//   - An allocator is blamed for what it knows. Its caches may show any state since
//     they were last in step with the server; a check says "free" or "ready" of what
//     was so in all of them.
//   - One property asserts one invariant, so a failure has the name of what is broken.
//     Package mutants has faults for each, and holds the properties to finding them.
//   - A case is a bubble of testing/synctest: time is simulated, nothing sleeps, and
//     with all randomness from Env the same case comes back. In a bubble time passes
//     only while every goroutine waits. So hold no mutex across an API call, or the
//     first slow call stops everything; after two minutes a watchdog says so.
//   - client-go's reflectors report errors through k8s.io/apimachinery's
//     runtime.ErrorHandlers, one of which waits by the time of the error before,
//     and that may have been in another bubble's future: set it to nil in
//     TestMain.
//   - Statistical properties state their probability of error: ErrorProbability. They
//     use fixed seeds.
//   - A failure is a story: numbered steps, what each replica had seen, what was true.
//     Rapid makes it short, and says how to run it again.
//
// # What is assumed
//
//   - DESIGN's vocabulary: usable, static and dynamic band (KEP-3070), ready, maximal.
//   - IPAddresses are named by the canonical address, and their parentRef is the owner.
//   - An allocator may insist on the finalizer of a ServiceCIDR, or may not.
//   - Freed addresses may rest for a while, but not if nothing else is free; an address
//     of a failed call may be spared for two minutes.
//   - A freshness lease is at most that of WithLease, and the controller's grace period
//     is longer. Clocks have any start, and rates between 0.8 and 1.25.
package proptest
