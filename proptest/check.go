// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

// check is one invariant. It never looks into an allocator: it compares what a call
// answered with the truth and with what the replica can have known. Each lives in a
// file of its own, check_*.go, and a property asserts only those it names, so that
// a fault is told by the name of the invariant it breaks.
type check struct {
	// call judges an allocation that has just ended.
	call func(*world, *call)
	// always judges the state after each action.
	always func(*world)
	// settled judges the end, when all has arrived and time has passed.
	settled func(*world)
}
