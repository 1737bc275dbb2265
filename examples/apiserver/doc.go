// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver is the root of an example: a custom API server that allocates the addresses of its Services with
// metacidr. It has no code of its own.
//
//	cmd/metacidr-apiserver   the server, with etcd inside
//	cmd/soak                 replicas that are killed, and what must hold all the same
//	cmd/demo                 a walk through what metacidr is for, on that server
//	internal/scheme          the served types, and how they are written
//	internal/validation      defaults, normalisation, what is refused
//	internal/openapi         generated definitions, for server-side apply and kubectl explain
//	internal/printers        the tables of kubectl get
//	internal/allocation      what connects Service storage with the MetaAllocator: copy this
//	internal/storage         a registry.Store for each resource
//	internal/server          flags, etcd, keys, hooks, controllers
//	internal/demo            the steps of the walk
//	internal/soak            the course of a soak
//	internal/child           programs as children of another
//	internal/audit           are Services and IPAddresses one to one, and were they always?
//
// docs/apiserver.md goes through it in the order in which an author would write it.
package apiserver
