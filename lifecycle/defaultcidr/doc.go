// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package defaultcidr makes sure that the default ServiceCIDR exists with the
// ranges that an API server is configured with, and keeps watching over it.
//
//	          consistent read of ServiceCIDR "kubernetes"
//	    +---------------+---------+---------+------------------+
//	    |               |                   |                  |
//	 absent        [v4], where         configured        anything else,
//	    |       [v4,v6] is configured    ranges          or terminating
//	    v               v                   |                  |
//	 create,         append v6              |                  v
//	with the      (resourceVersion)         |          reported, with the
//	finalizer           |                   |         remedy; never written
//	    v               v                   v
//	 Created         Extended          Consistent
//
// Every replica of an API server runs a [Controller] from its start on, each
// with the ranges of its own flags. They need no leader.
//
// # Rules
//
//   - Ranges are compared by value: 10.096.0.0/12 is 10.96.0.0/12.
//   - The only change ever made to a ServiceCIDR is to append the second family
//     to a single one whose range is the first of those configured, once. An
//     object is never deleted, and its ranges are never rewritten. So replicas
//     with different flags cannot undo each other's work, in whatever order they
//     act: the first one decides, and the others report.
//   - A terminating ServiceCIDR is left alone until it is gone. Then the first
//     replica to see that creates it again, with that replica's ranges.
//   - A finding that is not as configured is reported by an Event when it
//     changes, not at each look, and by [Controller.Status] at any time. With no
//     object to attach it to there is no Event, only a log line.
//   - An API server that starts may be refused for a while, or get no answer: it
//     tries again with growing pauses, and when the server says. A write whose
//     answer was lost is judged by what the next look finds.
//   - It does not write status: the condition Ready is that of a ServiceCIDR
//     controller, such as package lifecycle/servicecidr.
//
// # After a family was added
//
// Existing Services stay as they are: single-stack ones get no address of the
// new family. Package lifecycle/renumber lists them, and can convert them.
package defaultcidr
