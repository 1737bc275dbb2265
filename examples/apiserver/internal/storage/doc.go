// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storage has a registry store for each served resource.
//
//	                    rules                                      what happens besides
//	namespaces          validation.Namespace                       deletion takes along what is in it
//	services            validation.Service, ...                    addresses and node ports, see package allocation
//	services/status
//	servicecidrs        validation.ServiceCIDR                     the finalizer is there from the first moment
//	servicecidrs/status
//	ipaddresses         validation.IPAddress
//	leases, events      metadata only                              for controllers, and for kubectl describe
//
// # Rules
//
// A resource is its rules: a value of type rules. The strategy that the generic registry wants is made of them once,
// for all. What the registry does by itself, it does: optimistic locking, finalizers, server-side apply, watches.
package storage
