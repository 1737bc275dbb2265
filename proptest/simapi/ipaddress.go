// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// ipAddressKind: the name is a canonical address, the parent is required, the spec
// never changes.
func ipAddressKind() kind[*networkingv1.IPAddress] {
	return kind[*networkingv1.IPAddress]{
		resource:       networkingv1.SchemeGroupVersion.WithResource("ipaddresses"),
		name:           "IPAddress",
		new:            func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
		generateName:   func(base string, _ uint64) string { return base },
		prepareCreate:  func(*networkingv1.IPAddress) {},
		validateCreate: validateIPAddress,
		prepareUpdate:  func(_, _ *networkingv1.IPAddress) {},
		validateUpdate: func(obj, old *networkingv1.IPAddress) field.ErrorList {
			errs := validateIPAddress(obj)
			errs = append(errs, apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
			return append(errs, apivalidation.ValidateImmutableField(obj.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
		},
		specEqual: func(a, b *networkingv1.IPAddress) bool { return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

func validateIPAddress(obj *networkingv1.IPAddress) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, ipAddressName, field.NewPath("metadata"))
	return append(errs, validateParentRef(obj.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
}

// ipAddressName accepts exactly one spelling of each address.
func ipAddressName(name string, _ bool) []string {
	var details []string
	for _, err := range validation.IsValidIP(nil, name) {
		details = append(details, err.Detail)
	}
	return details
}

func validateParentRef(ref *networkingv1.ParentReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return field.ErrorList{field.Required(at, "an IPAddress belongs to an object")}
	}
	var errs field.ErrorList
	if ref.Group != "" {
		for _, msg := range validation.IsDNS1123Subdomain(ref.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), ref.Group, msg))
		}
	}
	for _, segment := range []struct {
		field, value string
		required     bool
	}{
		{"resource", ref.Resource, true},
		{"name", ref.Name, true},
		{"namespace", ref.Namespace, false},
	} {
		switch {
		case segment.value != "":
			for _, msg := range content.IsPathSegmentName(segment.value) {
				errs = append(errs, field.Invalid(at.Child(segment.field), segment.value, msg))
			}
		case segment.required:
			errs = append(errs, field.Required(at.Child(segment.field), ""))
		}
	}
	return errs
}

// IPAddresses returns the replica's client for IPAddress objects.
func (c *Client) IPAddresses() networkingv1client.IPAddressInterface {
	return ipAddressClient{resourceClient[*networkingv1.IPAddress, *networkingv1.IPAddressList]{
		Client: c,
		store:  c.server.ipAddresses,
		list: func(meta metav1.ListMeta, items []*networkingv1.IPAddress) *networkingv1.IPAddressList {
			return &networkingv1.IPAddressList{ListMeta: meta, Items: values(items)}
		},
	}}
}

type ipAddressClient struct {
	resourceClient[*networkingv1.IPAddress, *networkingv1.IPAddressList]
}

// Apply is not simulated: it is answered MethodNotSupported.
func (r ipAddressClient) Apply(ctx context.Context, config *networkingv1apply.IPAddressApplyConfiguration, opts metav1.ApplyOptions) (*networkingv1.IPAddress, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, "")
}
