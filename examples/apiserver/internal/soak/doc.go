// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak wears several replicas of metacidr-apiserver on one etcd: many clients create, change and delete Services,
// and every few seconds a replica is killed and started again.
//
//	replica.go    a metacidr-apiserver as a child process: start, kill
//	client.go     a client that does not give up: it goes on at the next replica
//	worker.go     what the clients do
//	follow.go     the history of all Services, as a watch of whichever replica is there tells it
//	report.go     figures, and the verdict
//	soak.go       the course of a run
//
// # Rules
//
//   - Exactly those Services are there in the end that the clients created and did not delete.
//   - No two Services have an address at the same time, at any revision of the history: that is a failure, whenever.
//   - When the clients have stopped, the replicas' own repair has a bounded time to make Services and IPAddresses one to
//     one. What is left then is a failure.
//   - An answer that the API server must never give for what the clients do, such as Invalid or Forbidden, is a failure;
//     a lost or refused connection is what the run is for, and is counted.
package soak
