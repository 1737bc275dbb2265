// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

// check looks for one kind of trouble.
type check func(w *World, p *Plan) []Finding

// checks lists them; each is a function that says nothing when all is well.
func checks() []check {
	return []check{
		checkCapacity, checkFirst, checkOverlaps, checkSpecial, checkRefused, checkOtherRanges, // preflight_range.go
		checkServiceCIDRs, checkAddresses, checkMissing, // preflight_address.go
		countClasses, checkLoadBalancers, checkParked, checkKubernetes, checkHardCoded, checkOwned, checkInPlace, // preflight_service.go
		checkExternalIPs, checkSingleStack, checkNetworkPolicies, checkEndpointSlices, checkWebhooks,
		checkDNS, checkCertificate, checkRestart, checkConsumers, checkNodes, // preflight_outside.go
		checkPermissions, checkUnread,
	}
}

// preflight runs all checks on a plan that has its rows.
func preflight(w *World, p *Plan) []Finding {
	var all []Finding
	for _, c := range checks() {
		all = append(all, c(w, p)...)
	}
	return all
}
