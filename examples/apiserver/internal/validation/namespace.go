// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Namespace says why a new Namespace is refused.
func Namespace(obj *corev1.Namespace) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.ValidateNamespaceName, metadataPath)
	for _, f := range obj.Spec.Finalizers {
		errs = append(errs, apivalidation.ValidateFinalizerName(string(f), specPath.Child("finalizers"))...)
	}
	return errs
}

// NamespaceUpdate says why a Namespace may not become obj.
func NamespaceUpdate(obj, old *corev1.Namespace) field.ErrorList {
	return apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, metadataPath)
}
