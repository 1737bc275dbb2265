// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultFamilies sets ipFamilyPolicy and ipFamilies. families are those that the server has ranges for, the first is
// the primary one; old is what is stored, nil at a creation. clusterIP and clusterIPs are in step already.
//
//	policy      given, else that of old, else RequireDualStack if headless without selector, else SingleStack
//	families    given, else those of the clusterIPs, else the primary one
//	            a second one is added unless the policy is SingleStack, and if the server has it
//	            or the Service is headless without selector, whose endpoints the server cannot know
//
// A Service never gains or loses a family without a word of its author: one that is PreferDualStack stays as it is
// when the server gains or loses a family.
//
// If it returns errors then svc may be half done, and is to be refused.
func DefaultFamilies(svc, old *corev1.Service, families []corev1.IPFamily) field.ErrorList {
	if !HasClusterIP(svc) || staysPreferDualStack(svc, old) {
		return nil
	}
	spec := &svc.Spec
	manual := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(defaultPolicy(old, manual))
	}
	if errs := clusterIPsAndFamilies(svc, old); len(errs) > 0 {
		return errs
	}
	errs := fitPolicy(svc, old)
	errs = append(errs, inferFamilies(svc, families)...)
	if len(errs) > 0 {
		return errs
	}
	if !manual {
		if errs := configured(svc, families); len(errs) > 0 {
			return errs
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = families[:1:1]
	}
	if policyOf(svc) != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (manual || len(families) == 2) {
		spec.IPFamilies = []corev1.IPFamily{spec.IPFamilies[0], otherFamily(spec.IPFamilies[0])}
	}
	return nil
}

func defaultPolicy(old *corev1.Service, manual bool) corev1.IPFamilyPolicy {
	switch {
	case old != nil && old.Spec.IPFamilyPolicy != nil:
		return *old.Spec.IPFamilyPolicy
	case manual:
		return corev1.IPFamilyPolicyRequireDualStack
	}
	return corev1.IPFamilyPolicySingleStack
}

// staysPreferDualStack reports whether svc is and was PreferDualStack, with the same type, addresses and families.
func staysPreferDualStack(svc, old *corev1.Service) bool {
	const prefer = corev1.IPFamilyPolicyPreferDualStack
	return old != nil && old.Spec.Type == svc.Spec.Type && policyOf(svc) == prefer &&
		(old.Spec.IPFamilyPolicy == nil || policyOf(old) == prefer) &&
		sameClusterIPs(svc, old) && sameFamilies(svc, old)
}

// fitPolicy drops the second address and family where the policy turned SingleStack and they were sent as they were
// stored. It refuses addresses and families that do not go with the policy.
func fitPolicy(svc, old *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	refuse := func(msg string) {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), policyOf(svc), msg))
	}
	single := policyOf(svc) == corev1.IPFamilyPolicySingleStack
	if old != nil && single {
		if sameClusterIPs(svc, old) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1:1]
		}
		if sameFamilies(svc, old) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1:1]
		}
	}
	if old != nil && !single {
		if shrank(spec.ClusterIPs, old.Spec.ClusterIPs) {
			refuse("the second clusterIP is given up only with 'SingleStack'")
		}
		if shrank(spec.IPFamilies, old.Spec.IPFamilies) {
			refuse("the second family is given up only with 'SingleStack'")
		}
	}
	if single && len(spec.ClusterIPs) == 2 {
		refuse("two clusterIPs need 'RequireDualStack' or 'PreferDualStack'")
	}
	if single && len(spec.IPFamilies) == 2 {
		refuse("two families need 'RequireDualStack' or 'PreferDualStack'")
	}
	return errs
}

// shrank reports whether a list was sent, and is shorter than it was.
func shrank[T any](now, before []T) bool { return len(now) > 0 && len(now) < len(before) }

// inferFamilies appends the families of the clusterIPs that ipFamilies does not cover.
func inferFamilies(svc *corev1.Service, families []corev1.IPFamily) (errs field.ErrorList) {
	spec := &svc.Spec
	for i, address := range spec.ClusterIPs {
		if address == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		family := FamilyOf(address)
		if !slices.Contains(families, family) {
			errs = append(errs, field.Invalid(specPath.Child("clusterIPs").Index(i), spec.ClusterIPs,
				fmt.Sprintf("the server has no range of family %s", family)))
			continue
		}
		spec.IPFamilies = append(slices.Clip(spec.IPFamilies), family)
	}
	return errs
}

// configured refuses what the server has no ranges for.
func configured(svc *corev1.Service, families []corev1.IPFamily) (errs field.ErrorList) {
	if policyOf(svc) == corev1.IPFamilyPolicyRequireDualStack && len(families) < 2 {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), policyOf(svc),
			"the server has ranges of one family only"))
	}
	for i, family := range svc.Spec.IPFamilies {
		if !slices.Contains(families, family) {
			errs = append(errs, field.Invalid(specPath.Child("ipFamilies").Index(i), family, "the server has no range of this family"))
		}
	}
	return errs
}
