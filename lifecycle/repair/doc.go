// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repair keeps owners and IPAddress objects one to one: whatever address
// an owner claims has an IPAddress that names it, and no IPAddress is left
// whose owner is gone or does not claim it.
//
//	owners (Services, ...)      IPAddresses           ServiceCIDRs
//	     | list                      | list, or View       | list, or View
//	     v                           v                     v
//	+-----------------------------------------------------------+
//	| survey: who claims what, what is there: candidates        |  cheap, may be stale
//	+-----------------------------------------------------------+
//	     | one address that looks wrong, its grace period over
//	     v
//	+-----------------------------------------------------------+
//	| resolve: live GET of the IPAddress, then of the owners    |
//	|   judge: what is it, and what would put it right          |  pure
//	|   act:   create, fenced delete, fenced patch, or report   |
//	+-----------------------------------------------------------+
//	     |                   |                    |
//	   Report             events               metrics
//
// # Rules
//
//   - Nothing is written on the word of a list or a cache: every write follows
//     live reads of that IPAddress and of the owners concerned. The owner that
//     a deleted IPAddress names is read last.
//   - A delete carries the UID and the resourceVersion that were read. An
//     IPAddress that was replaced or changed meanwhile stays.
//   - An IPAddress is deleted only after the controller has seen for a grace
//     period, by its own clock, that its owner does not claim it. The
//     creationTimestamp, which another clock wrote, shortens no wait. So an
//     owner may be stored up to a grace period after its addresses.
//   - An owner counts as gone only in a pass that could list its resource: one
//     that is not served has no owners to be found.
//   - Only an IPAddress whose managed-by label is one of the configured values,
//     and whose owner's resource is registered, is changed or deleted. All
//     others are reported.
//   - An existing IPAddress is never overwritten. Where a create meets one,
//     that is reported, and the next pass sees it.
//   - An owner with a deletionTimestamp owns its addresses until it is gone.
//   - What cannot be put right without taking an address from a live owner is
//     reported only: two owners of one address, an address out of all ranges.
//   - Several replicas may run at once: the loser of a race finds the work done.
//   - A pass that ends at any point leaves nothing that the next one cannot
//     take up: all state in memory is the begin of grace periods.
package repair
