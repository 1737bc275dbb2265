// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutants has allocators and controllers that are broken in one known way
// each, and says which property of package proptest must notice.
//
//	subject (meta.MetaAllocator)          proptest.Property
//	   |  wrapped, or its client is           |
//	   v                                      v
//	Mutant{Name, Broken, CaughtBy} -----> Find: a failure?  none: the mutant survives
//
// A property that lets its mutant live proves nothing. So the test of this package
// runs each mutant against the property that it names, prints a table, and fails if
// one survives, or if another property's check is what noticed.
//
// # Rules
//
//   - A mutant is wrong in one thing only, and it is a mistake that people make.
//   - It is made from outside: by a wrapper of the allocator, of its client, or by a
//     configuration. The code under test has no switch for it.
//   - To add one, add a row to All.
package mutants
