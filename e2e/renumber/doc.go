// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package renumber tests the renumbering runner on a real kube-apiserver, with
// upstream's ServiceCIDR controller, as on an ordinary cluster.
//
//	story_test.go      Services of every class to another range, to the end
//	playbooks_test.go  every playbook, there and back, with the restarts they need
//	others_test.go     other clients at the same time
//	managers_test.go   the Services' own managers, and their EndpointSlices, afterwards
//	command_test.go    the kubectl plugin itself, as an operator uses it
//	kill_test.go       the runner killed at every call and every write of its journal
//
// The test is the operator: it restarts the API server with the flags that the runner
// waits for.
package renumber
