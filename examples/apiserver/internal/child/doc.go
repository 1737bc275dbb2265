// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package child starts programs as children of this one, and ends them.
//
// # Rules
//
//   - A child is reaped as soon as it ends.
//   - On Linux it ends with this process, however that ends.
package child
