// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servicecidr keeps the lifecycle of ServiceCIDRs safe: it gives each
// its finalizer and its Ready condition, and lets a deleted one go only when no
// address depends on it.
//
//	                      deletionTimestamp
//	 created                     |
//	    |                        v
//	    v              +------------------+  last blocker   +----------------+
//	finalizer added -> | Ready=False      | --------------> | Ready=False    |
//	    |              | Terminating      |                 | Terminating    |
//	    v              | "3 addresses..." | <-------------- | "grace period" |
//	Ready=True         +------------------+  a new one      +-------+--------+
//	                                                                | grace period over
//	                                                                v
//	                                            consistent lists: ServiceCIDRs, then
//	                                            IPAddresses: nothing depends on it
//	                                                                |
//	                                                                v
//	                                            finalizer removed (resourceVersion)
//
// # Rules
//
//   - An address blocks a deletion if it is managed, usable in the ServiceCIDR,
//     and in no other one that counts as cover.
//   - Cover is a ServiceCIDR that is not terminating and bears the finalizer.
//     Two equal or nested ones that are deleted together never vouch for each
//     other.
//   - The view decides only that a deletion is blocked. That it is not is
//     decided by consistent lists, made after the deletionTimestamp was seen:
//     ServiceCIDRs first, addresses afterwards. An address that lost its other
//     cover in between is then the business of that cover's own deletion.
//   - The grace period is counted by this process from when it first saw the
//     deletionTimestamp, so that only the rate of its clock is trusted. An
//     allocator's freshness lease must be shorter.
//   - The controller is the only writer of Ready. Never run two kinds of
//     ServiceCIDR controllers beside each other: turn off
//     service-cidr-controller in kube-controller-manager first. Several
//     replicas of this one do no harm, only more calls.
package servicecidr
