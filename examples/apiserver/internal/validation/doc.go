// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation has the rules of the served objects as pure functions: what is filled in, what is carried over
// from the stored object, and what is refused. It decides as kube-apiserver 1.37 does, with the same kind of error at
// the same path; the words are its own.
//
// A Service is worked on in this order, which the storage follows:
//
//	DefaultService         values that depend on nothing but the object
//	                         |  (decoding)
//	KeepAllocated          update: what the client left out and we had allocated
//	NormalizeClusterIPs    clusterIP <-> clusterIPs
//	DefaultFamilies        policy and families, from those that the server has ranges for
//	                         |  (here the storage allocates)
//	ClearUnused            update: what a change of type leaves without meaning
//	Service, ServiceUpdate what is refused
//
// # Rules
//
// A function that fills in or clears never overrides what the client wrote: it only touches a field that is empty, or
// that is as it was stored. All else is left for validation to refuse.
//
// An address or range that becomes the name or the range of an object has one spelling, that of package cidr. The
// clusterIPs of a Service may be spelled as kube-apiserver takes them, capitals and uncompressed IPv6 included: the
// IPAddress that stands for one always has the canonical name, so no two Services get one address by spelling it in
// two ways.
//
// Nothing here reads a clock, a flag or the network.
package validation
