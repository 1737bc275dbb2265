// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation is the glue between the storage of Services and a MetaAllocator: what an author of an API server
// takes along.
//
//	Create ──► Begin: allocate ──► write ──► applied      keep
//	                                    ├──► refused      release
//	                                    └──► unknown      keep: the repair controller decides, after its grace period
//
//	Update ──► Begin: allocate what is new, once, however often the write is tried ──► write ──► applied   release what is no longer there
//	                                                                                       ├──► refused   release what is new
//	                                                                                       └──► unknown   release nothing
//
//	Delete ──► write ──► gone: release
//
// # Rules
//
//   - An address is taken before the object that names it is written, and given up after the object that named it is gone:
//     a crash at any point leaves an address too many, never one too few.
//   - Whether a write was applied is read off its error. A time-out, a cut connection and an internal error tell nothing,
//     so nothing is released on their strength: an IPAddress whose Service does not claim it is collected by
//     lifecycle/repair, and no younger one is.
//   - The registry's finish function is told of success before the write of an update, so it cannot release. A
//     Transaction in the context is settled by whoever sees the outcome.
//   - A Service's IPAddress is released by owner and UID (I8), so releasing twice does no harm.
package allocation
