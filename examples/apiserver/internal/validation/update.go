// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ServiceUpdate says why a Service may not become svc.
//
// A Service keeps its first address and family for life. It may take a second one, and give that up again by turning
// SingleStack. As ExternalName it has no address, so what comes after that is a new beginning.
func ServiceUpdate(svc, old *corev1.Service) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&svc.ObjectMeta, &old.ObjectMeta, metadataPath)
	errs = append(errs, keptAddresses(svc, old)...)
	if old.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		!equalPtr(old.Spec.LoadBalancerClass, svc.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(specPath.Child("loadBalancerClass"), deref(svc.Spec.LoadBalancerClass), onceSet))
	}
	if HasHealthCheckNodePort(old) && HasHealthCheckNodePort(svc) && old.Spec.HealthCheckNodePort != svc.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(specPath.Child("healthCheckNodePort"), onceSet))
	}
	return append(errs, service(svc, old)...)
}

const onceSet = "does not change once it is set"

func keptAddresses(svc, old *corev1.Service) (errs field.ErrorList) {
	if !HasClusterIP(old) || !HasClusterIP(svc) {
		return nil
	}
	now, before := &svc.Spec, &old.Spec
	headless, wasHeadless := IsHeadless(svc), IsHeadless(old)
	if !headless || !wasHeadless {
		path := specPath.Child("clusterIPs")
		errs = append(errs, kept(path.Index, now.ClusterIPs, before.ClusterIPs, policyOf(svc))...)
	}
	if !headless && !wasHeadless {
		// Whichever family changed, kube-apiserver names the first.
		first := func(int) *field.Path { return specPath.Child("ipFamilies").Index(0) }
		errs = append(errs, kept(first, now.IPFamilies, before.IPFamilies, policyOf(svc))...)
	}
	return errs
}

// kept checks that a list of one or two either stays, or has a second entry added or removed.
func kept[T comparable](path func(int) *field.Path, now, before []T, policy corev1.IPFamilyPolicy) (errs field.ErrorList) {
	for i := range min(len(now), len(before)) {
		// The second one is free to change only together with the length.
		if now[i] != before[i] && (i == 0 || len(now) == len(before)) {
			errs = append(errs, field.Invalid(path(i), now, onceSet))
		}
	}
	if len(now) == 0 && len(before) > 0 {
		errs = append(errs, field.Invalid(path(0), now, "the first one is not given up"))
	}
	if len(now) == 1 && len(before) > 1 && policy != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(specPath.Child("ipFamilyPolicy"), policy, "the second one is given up only with 'SingleStack'"))
	}
	return errs
}

// ServiceStatusUpdate says why the status of a Service may not become that of svc.
func ServiceStatusUpdate(svc, old *corev1.Service) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&svc.ObjectMeta, &old.ObjectMeta, metadataPath)
	path := field.NewPath("status", "loadBalancer", "ingress")
	ingress := svc.Status.LoadBalancer.Ingress
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer && len(ingress) > 0 {
		return append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	var stored []string
	for _, in := range old.Status.LoadBalancer.Ingress {
		stored = append(stored, in.IP)
	}
	for i := range ingress {
		errs = append(errs, loadBalancerIngress(&ingress[i], path.Index(i), stored)...)
	}
	return errs
}

func loadBalancerIngress(in *corev1.LoadBalancerIngress, path *field.Path, stored []string) (errs field.ErrorList) {
	if in.IP != "" {
		errs = append(errs, legacyAddress(path.Child("ip"), in.IP, stored)...)
	}
	modePath := path.Child("ipMode")
	switch {
	case in.IPMode == nil:
		if in.IP != "" {
			errs = append(errs, field.Required(modePath, "an ip has a mode"))
		}
	case in.IP == "":
		errs = append(errs, field.Forbidden(modePath, "there is no ip"))
	default:
		errs = append(errs, ipModes.check(modePath, *in.IPMode)...)
	}
	if in.Hostname != "" {
		path := path.Child("hostname")
		errs = append(errs, invalid(path, in.Hostname, utilvalidation.IsDNS1123Subdomain(in.Hostname))...)
		if FamilyOf(in.Hostname) != "" {
			errs = append(errs, field.Invalid(path, in.Hostname, "a name, not an address"))
		}
	}
	return errs
}
