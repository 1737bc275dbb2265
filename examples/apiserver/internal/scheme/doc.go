// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheme has the types that the server serves, and their codecs.
//
//	wire, v1  <-- codec -->  v1 Go type  <-- storage: the same object
//
// # Rules
//
// An API server converts between versions and an internal one. Here is only v1 of each group, so the v1 Go types are
// registered as the internal ones too: a conversion copies nothing. Add a version, and give it an internal type first.
package scheme
