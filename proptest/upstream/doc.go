// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command upstream runs the properties of package proptest against Kubernetes' own
// allocator of cluster IPs and its own ServiceCIDR controller, and reports which
// invariants hold and which fail, with a short story for each that fails.
//
//	go run .  -- for each row, two at a time -->  a process of its own
//	    ^                                           search: the same cases each time
//	    |                                           shrink: rapid's, for a shorter story
//	    |                                           watch:  nothing moves, and a mutex is waited for
//	    +-- table, then stories  <-- result --------+
//
// # Rules
//
//   - A property that fails, or hangs, is a result: the exit code is 0. It is 1 if a
//     row could not be run, or did not end in its time.
//   - Each property runs twice: as upstream is, and with a lock that bubbles know
//     before upstream's mutex (see package adapter), for as it is some of them hang.
//   - Upstream trusts whoever releases an address. What that touches also runs with
//     careful releases: the adapter reads the address first.
//   - Go's order of maps decides where upstream allocates. So a story, and how many
//     cases it took, can differ from run to run.
package main
