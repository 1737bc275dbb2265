// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/metacidr/metacidr/cidr"
)

// IPAddress says why a new IPAddress is refused. That its name is the one canonical spelling of the address is what
// makes an address unique: two owners would have to create the same object (S53).
func IPAddress(obj *networkingv1.IPAddress) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, isAddressName, metadataPath)
	return append(errs, parentRef(obj.Spec.ParentRef)...)
}

// isAddressName is an apivalidation.ValidateNameFunc. No prefix of an address is one, so nothing is generated.
func isAddressName(name string, _ bool) []string {
	if _, err := cidr.ParseAddr(name); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func parentRef(ref *networkingv1.ParentReference) (errs field.ErrorList) {
	path := specPath.Child("parentRef")
	if ref == nil {
		return field.ErrorList{field.Required(path, "who has the address")}
	}
	segment := func(name, value string, required bool) {
		switch {
		case value != "":
			errs = append(errs, invalid(path.Child(name), value, content.IsPathSegmentName(value))...)
		case required:
			errs = append(errs, field.Required(path.Child(name), ""))
		}
	}
	// The core group has the empty name.
	if ref.Group != "" {
		errs = append(errs, invalid(path.Child("group"), ref.Group, utilvalidation.IsDNS1123Subdomain(ref.Group))...)
	}
	segment("resource", ref.Resource, true)
	segment("namespace", ref.Namespace, false)
	segment("name", ref.Name, true)
	return errs
}

// IPAddressUpdate says why an IPAddress may not become obj. An address does not change hands: it is released, and
// taken anew.
func IPAddressUpdate(obj, old *networkingv1.IPAddress) field.ErrorList {
	errs := IPAddress(obj)
	errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, metadataPath)...)
	return append(errs, apivalidation.ValidateImmutableField(obj.Spec.ParentRef, old.Spec.ParentRef, specPath.Child("parentRef"))...)
}
