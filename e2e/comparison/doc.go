// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package comparison proves that the example API server does to a Service what kube-apiserver does. It has no code but
// its tests.
//
//	                 one table of scenarios (scenarios_test.go)
//	                    |                       |
//	kube-apiserver, beside etcd         metacidr-apiserver, one process
//	                    |                       |
//	                 what came of each step, flattened to "path: value" (outcome_test.go)
//	                    |                       |
//	                    +------ compared -------+
//	                               |
//	             what differs is in the table of differences_test.go, or the test fails
//
// # Rules
//
// Compared is all that a client can see of an answer: each field of an object, its managed fields included, or the
// code, the reason and the causes of an error, but not their wording; and after the last step which IPAddresses there
// are, with owner and labels. Chosen by the server and so never equal are uid, resourceVersion and times, which are
// left out, and addresses and node ports that nobody asked for, which are compared by the range that they are in. The
// status of a ServiceCIDR is its controller's, and left out too.
//
// A difference that the table does not list fails the test, and so does an entry of the table that no longer holds:
// the table says what is true now. Where kube-apiserver does not always do the same, an entry says so, and may be
// absent. Our server has to do the same each time.
package comparison
