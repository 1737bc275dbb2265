// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history records what becomes of the ServiceCIDRs and IPAddresses of a
// cluster, so that "at every moment" can be checked without a clock.
//
//	list --> state at the begin      revision 0
//	watch -> events                  in the order of etcd's revisions, from any
//	                                 number of watches
//	Replay -> the world after each event
//
// # Rules
//
//   - It is what the API server tells, not what anybody believes.
//   - Two events have the same revision only if they are of the begin, which is
//     one moment: checks of the world begin with the first later one.
package history
