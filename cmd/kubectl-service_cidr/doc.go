// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl-service_cidr is a kubectl plugin for the ServiceCIDRs of a
// cluster: put it into the PATH, and call it as kubectl service-cidr.
//
//	explain CIDR...   what a range is made of; needs no cluster
//	plan PLAYBOOK     what a renumbering would do; writes nothing to the cluster
//	diff -f PLAN      what each Service will look like after it
//
// Exit codes: 0 done; 1 it could not be done, and the message on standard error
// says why and what would help; 2 it was called wrongly; 3 a plan was made, and has
// blockers.
package main
