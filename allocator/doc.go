// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocator allocates addresses out of one range: it picks a free one,
// reserves it, creates its IPAddress and gives it back.
//
//	 pick + reserve            create                   confirm
//	+--------------+   +---------------------+   +--------------------+
//	| Pool         |   | API server          |   | Verify: is a CIDR  |
//	| (short lock) |-->| one IPAddress of a  |-->| that covers it     |--> Allocation
//	|              |   | name: the arbiter   |   | still there to stay|
//	+--------------+   +---------------------+   +--------------------+
//	   ^      ^  taken already: mark it, pick again      |  no: fenced delete
//	   |      +------------------------------------------+
//	   | what the watch shows
//	+--------------+
//	| informer.View|
//	+--------------+
//
// A [Pool] holds what this process knows of one cluster's addresses: those the
// view shows, those it has reserved, and those that rest after a release. An
// [Allocator] is one range over the pool; several may overlap. Package meta
// chooses among them.
//
// # Rules
//
//   - The pool's lock guards memory only and is never held across an API call.
//   - A pick equals the naive walk: uniform random start in the band, then
//     forward, wrapping round, to the first address that is free. It costs
//     O(log n) look-ups in an ordered set, whatever the filling.
//   - The API server alone decides who has an address. The pool only keeps this
//     process from asking in vain.
//   - Every IPAddress carries the nonce of the call that created it. A call
//     whose answer was lost recognises its work by it, and work that no call
//     claims is reported as a [Stray].
//   - Every delete carries the UID of the object it is meant for.
package allocator
