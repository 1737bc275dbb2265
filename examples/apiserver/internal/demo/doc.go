// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo walks through what metacidr is for, on a real server: it starts metacidr-apiserver as a child process,
// plays the part of its users, and shows each step as they would see it in kubectl.
//
//	server.go    the child process: start, ready, stop, start again with other flags
//	steps.go     the story, as a list of steps
//	step_*.go    each step: a sentence, the command, what came of it, and whether that is what was said
//	screen.go    how it looks: sentences, commands, the server's own tables
//	chart.go     bars in a terminal
//	check.go     one to one: Services, IPAddresses, ServiceCIDRs
//
// # Rules
//
// Nothing is shown that did not happen: tables come from the server, and each step looks itself whether the outcome is
// what its sentence says. The first that is not ends the walk with an error.
//
// All traffic stays on 127.0.0.1, all data in one folder, and the child ends with the walk.
package demo
