// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metacidr/metacidr/cidr"
)

// ServiceCIDR says why a new ServiceCIDR is refused.
func ServiceCIDR(obj *networkingv1.ServiceCIDR) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, metadataPath)
	return append(errs, prefixes(obj)...)
}

// prefixes wants one or two canonical ones, of different families.
func prefixes(obj *networkingv1.ServiceCIDR) (errs field.ErrorList) {
	path, cidrs := specPath.Child("cidrs"), obj.Spec.CIDRs
	switch len(cidrs) {
	case 0:
		return field.ErrorList{field.Required(path, "at least one")}
	case 1, 2:
	default:
		return field.ErrorList{field.Invalid(path, cidrs, "two at most")}
	}
	var parsed []cidr.Family
	for i, s := range cidrs {
		r, err := cidr.Parse(s)
		if err != nil {
			errs = append(errs, field.Invalid(path.Index(i), s, err.Error()))
			continue
		}
		parsed = append(parsed, r.Family())
	}
	if len(parsed) == 2 && parsed[0] == parsed[1] {
		errs = append(errs, field.Invalid(path, cidrs, "one of each family"))
	}
	return errs
}

// ServiceCIDRUpdate says why a ServiceCIDR may not become obj. Its prefixes stay, but one of the other family may be
// appended to a single one (S34).
func ServiceCIDRUpdate(obj, old *networkingv1.ServiceCIDR) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, metadataPath)
	path, now, before := specPath.Child("cidrs"), obj.Spec.CIDRs, old.Spec.CIDRs
	appended := len(before) == 1 && len(now) == 2
	if len(now) != len(before) && !appended {
		return append(errs, field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg))
	}
	for i := range before {
		if now[i] != before[i] {
			errs = append(errs, field.Invalid(path.Index(i), now[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if appended {
		errs = append(errs, prefixes(obj)...)
	}
	return errs
}

// ServiceCIDRStatusUpdate says why the status of a ServiceCIDR may not become that of obj.
func ServiceCIDRStatusUpdate(obj, old *networkingv1.ServiceCIDR) field.ErrorList {
	return apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, metadataPath)
}
