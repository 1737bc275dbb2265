// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit looks whether Services and IPAddresses are one to one, and whether they always were.
//
//	Now       lists Services, IPAddresses, ServiceCIDRs -> what is wrong
//	Ledger    every change of a Service, in order       -> two Services that had one address at the same time
//
// # Rules
//
// It believes what the API server tells, and nothing else: it shares no code with what it looks at, but for what an
// address is.
package audit
