// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import networkingv1 "k8s.io/api/networking/v1"

// Names that Kubernetes gives, and the ones that metacidr adds.
const (
	// Finalizer keeps a ServiceCIDR until no address depends on it.
	Finalizer = "networking.k8s.io/service-cidr-finalizer"

	// LabelManagedBy names who repairs and collects an IPAddress.
	LabelManagedBy = networkingv1.LabelManagedBy
	// LabelIPFamily is IPv4 or IPv6.
	LabelIPFamily = networkingv1.LabelIPAddressFamily

	// CoreManager is the LabelManagedBy value of Kubernetes' own allocator. Its
	// repair loop recreates the IPAddress of a Service that bears another
	// value, and deletes one that bears this value and has no Service.
	CoreManager = "ipallocator.k8s.io"
	// DefaultManager is the LabelManagedBy value for owners other than Services.
	DefaultManager = "metacidr.io"

	// AnnotationNonce marks the call that created an IPAddress, so that a call
	// whose answer was lost can recognise its own work.
	AnnotationNonce = "metacidr.io/nonce"
	// AnnotationPriority on a ServiceCIDR is an integer that the priority
	// strategy reads: higher first, 0 when absent.
	AnnotationPriority = "metacidr.io/priority"
)
