// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package renumber is the engine of the renumbering playbooks. So far it has
// what needs no cluster: what a range is made of.
//
//	"10.96.10.10/20" --> Explain --> 10.96.0.0/20, 4094 usable addresses
//	                                 10.96.0.1 ... 10.96.15.254
//	                                 |-- static 255 --|------ dynamic ------|
//	                                 first address: the API server's own
//
// # Rules
//
//   - It decides, and prints nothing: the kubectl plugin in
//     cmd/kubectl-service_cidr does.
//   - Whatever is odd about an input is a warning with its consequence, and
//     whatever has no meaning is an error that names the input and the remedy.
package renumber
