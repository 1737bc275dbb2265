// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const onlyLoadBalancer = "only for a LoadBalancer Service"

// loadBalancer checks the fields that only a LoadBalancer Service has.
func loadBalancer(svc, old *corev1.Service) field.ErrorList {
	spec := &svc.Spec
	isLoadBalancer := spec.Type == corev1.ServiceTypeLoadBalancer
	errs := sourceRanges(svc, old, isLoadBalancer)

	path := specPath.Child("allocateLoadBalancerNodePorts")
	switch {
	case isLoadBalancer && spec.AllocateLoadBalancerNodePorts == nil:
		errs = append(errs, field.Required(path, ""))
	case !isLoadBalancer && spec.AllocateLoadBalancerNodePorts != nil:
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}

	path = specPath.Child("loadBalancerClass")
	switch class := spec.LoadBalancerClass; {
	case class == nil:
	case !isLoadBalancer:
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	default:
		errs = append(errs, invalid(path, *class, utilvalidation.IsQualifiedName(*class))...)
	}
	return errs
}

// sourceRanges checks loadBalancerSourceRanges, or the annotation that means the same if the field is empty.
// kube-apiserver gives the path of the field with a capital, and clients may look for that.
func sourceRanges(svc, old *corev1.Service, isLoadBalancer bool) (errs field.ErrorList) {
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		path := specPath.Child("LoadBalancerSourceRanges")
		if !isLoadBalancer {
			errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
		}
		var stored []string
		if old != nil {
			stored = trimmed(old.Spec.LoadBalancerSourceRanges)
		}
		for i, v := range trimmed(ranges) {
			errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path.Index(i), v, true, stored)...)
		}
		return errs
	}
	const key = corev1.AnnotationLoadBalancerSourceRangesKey
	annotation, set := svc.Annotations[key]
	if !set {
		return nil
	}
	path := metadataPath.Child("annotations").Key(key)
	if !isLoadBalancer {
		errs = append(errs, field.Forbidden(path, onlyLoadBalancer))
	}
	if strings.TrimSpace(annotation) == "" || old != nil && old.Annotations[key] == annotation {
		return errs
	}
	for _, v := range trimmed(strings.Split(annotation, ",")) {
		errs = append(errs, utilvalidation.IsValidCIDRForLegacyField(path, v, true, nil)...)
	}
	return errs
}

// trimmed returns the values without the spaces around them, which are allowed.
func trimmed(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.TrimSpace(v)
	}
	return out
}

// traffic checks the policies that say which endpoints get the traffic, and the port that the health checks go to.
func traffic(svc *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	path := specPath.Child("externalTrafficPolicy")
	switch {
	case isExternal(svc):
		errs = append(errs, externalTrafficPolicies.require(path, spec.ExternalTrafficPolicy)...)
	case spec.ExternalTrafficPolicy != "":
		errs = append(errs, field.Invalid(path, spec.ExternalTrafficPolicy, "the Service cannot be reached from outside"))
	}

	path = specPath.Child("healthCheckNodePort")
	switch number := spec.HealthCheckNodePort; {
	case !HasHealthCheckNodePort(svc):
		if number != 0 {
			errs = append(errs, field.Invalid(path, number, "only for a LoadBalancer Service with externalTrafficPolicy Local"))
		}
	case number == 0:
		errs = append(errs, field.Required(path, ""))
	default:
		errs = append(errs, invalid(path, number, utilvalidation.IsValidPortNum(int(number)))...)
	}

	path = specPath.Child("internalTrafficPolicy")
	switch policy := spec.InternalTrafficPolicy; {
	case policy != nil:
		errs = append(errs, internalTrafficPolicies.check(path, *policy)...)
	case HasClusterIP(svc) && serviceTypes.has(spec.Type):
		errs = append(errs, field.Required(path, ""))
	}

	if d := spec.TrafficDistribution; d != nil {
		errs = append(errs, trafficDistributions.check(specPath.Child("trafficDistribution"), *d)...)
	}
	return errs
}
