// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metacidr/metacidr/cidr"
)

// clusterIPsAndFamilies checks clusterIP, clusterIPs, ipFamilies and ipFamilyPolicy, each by itself and against the
// others. Addresses that old has are taken as they are.
func clusterIPsAndFamilies(svc, old *corev1.Service) (errs field.ErrorList) {
	if !HasClusterIP(svc) {
		return nil // typeRules forbids all four
	}
	spec := &svc.Spec
	path := specPath.Child("clusterIPs")
	switch {
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "clusterIP is empty"))
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(path, "clusterIP is set"))
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "the first one is clusterIP"))
	}
	errs = append(errs, families(spec)...)

	wellFormed := true
	for i, address := range spec.ClusterIPs {
		if i == 0 && address == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				errs = append(errs, field.Invalid(path, spec.ClusterIPs, "'None' stands alone"))
				wellFormed = false
			}
			continue
		}
		if found := legacyAddress(path.Index(i), address, clusterIPsOf(old)); len(found) > 0 {
			errs = append(errs, found...)
			wellFormed = false
		}
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "two at most"))
	}
	if !wellFormed {
		return errs
	}
	if len(spec.ClusterIPs) > 1 && !haveBoth(spec.ClusterIPs) {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "one of each family"))
	}
	if IsHeadless(svc) {
		return errs
	}
	for i := range min(len(spec.ClusterIPs), len(spec.IPFamilies)) {
		if want := spec.IPFamilies[i]; ipFamilies.has(want) && FamilyOf(spec.ClusterIPs[i]) != want {
			errs = append(errs, field.Invalid(path.Index(i), spec.ClusterIPs[i], fmt.Sprintf("ipFamilies[%d] is %s", i, want)))
		}
	}
	return errs
}

func families(spec *corev1.ServiceSpec) (errs field.ErrorList) {
	seen := sets.New[corev1.IPFamily]()
	for i, family := range spec.IPFamilies {
		path := specPath.Child("ipFamilies").Index(i)
		errs = append(errs, ipFamilies.check(path, family)...)
		if seen.Has(family) {
			errs = append(errs, field.Duplicate(path, family))
		}
		seen.Insert(family)
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, familyPolicies.check(specPath.Child("ipFamilyPolicy"), *spec.IPFamilyPolicy)...)
	}
	return errs
}

// haveBoth reports whether there is an address of each family.
func haveBoth(addresses []string) bool {
	return slices.ContainsFunc(addresses, func(a string) bool { return FamilyOf(a) != FamilyOf(addresses[0]) })
}

func clusterIPsOf(svc *corev1.Service) []string {
	if svc == nil {
		return nil
	}
	return svc.Spec.ClusterIPs
}

// legacyAddress checks an address in a field that was there before addresses had to be canonical.
// Leading zeros and IPv4-mapped addresses, which can be read in two ways, are refused.
func legacyAddress(path *field.Path, address string, stored []string) field.ErrorList {
	return utilvalidation.IsValidIPForLegacyField(path, address, true, stored)
}

// externalIPs takes what could be an address of the network.
func externalIPs(svc, old *corev1.Service) (errs field.ErrorList) {
	var stored []string
	if old != nil {
		stored = old.Spec.ExternalIPs
	}
	for i, address := range svc.Spec.ExternalIPs {
		path := specPath.Child("externalIPs").Index(i)
		if found := legacyAddress(path, address, stored); len(found) > 0 {
			errs = append(errs, found...)
			continue
		}
		addr, _, err := cidr.ParseAddrLenient(address)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(path, address, "not an IP address"))
		case addr.IsUnspecified():
			errs = append(errs, field.Invalid(path, address, "the unspecified address"))
		case addr.IsLoopback():
			errs = append(errs, field.Invalid(path, address, "a loopback address"))
		case addr.IsLinkLocalUnicast():
			errs = append(errs, field.Invalid(path, address, "a link-local address"))
		case addr.IsLinkLocalMulticast():
			errs = append(errs, field.Invalid(path, address, "a link-local multicast address"))
		}
	}
	return errs
}
