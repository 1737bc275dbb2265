// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle runs the controllers in its sub-packages as the leader of
// several replicas.
//
//	servicecidr   finalizer and Ready of every ServiceCIDR; lets it go when nothing depends on it
//	defaultcidr   makes the default ServiceCIDR from the configured ranges
//	repair        owners and IPAddresses one to one
//
// Two replicas of any of them do no harm: what they decide by is read anew, and
// what they write carries what they read. Leader election spares calls and
// doubled events, no more. A leader that has lost its lease without knowing is
// such a second replica.
package lifecycle
