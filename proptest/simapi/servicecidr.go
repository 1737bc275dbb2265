// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	netutils "k8s.io/utils/net"
)

// serviceCIDRKind: one or two CIDRs of different families, which never change but
// that a second family may be appended; the status has its own subresource.
func serviceCIDRKind() kind[*networkingv1.ServiceCIDR] {
	return kind[*networkingv1.ServiceCIDR]{
		resource:     networkingv1.SchemeGroupVersion.WithResource("servicecidrs"),
		name:         "ServiceCIDR",
		new:          func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
		overWire:     true,
		tracked:      true,
		generateName: serialName,
		prepareCreate: func(obj *networkingv1.ServiceCIDR) {
			obj.Generation = 1
			obj.Status = networkingv1.ServiceCIDRStatus{}
		},
		validateCreate: func(obj *networkingv1.ServiceCIDR) field.ErrorList {
			errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			return append(errs, validateCIDRs(obj.Spec.CIDRs, field.NewPath("spec", "cidrs"))...)
		},
		prepareUpdate: func(obj, old *networkingv1.ServiceCIDR) {
			obj.Status = *old.Status.DeepCopy()
		},
		validateUpdate: func(obj, old *networkingv1.ServiceCIDR) field.ErrorList {
			errs := apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
			return append(errs, validateCIDRsUpdate(obj.Spec.CIDRs, old.Spec.CIDRs, field.NewPath("spec", "cidrs"))...)
		},
		status: &statusRules[*networkingv1.ServiceCIDR]{
			resets: []string{"metadata", "spec"},
			prepareUpdate: func(obj, old *networkingv1.ServiceCIDR) {
				obj.Spec = *old.Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(&obj.ObjectMeta, &copyOf(old).ObjectMeta)
			},
			validateUpdate: func(obj, old *networkingv1.ServiceCIDR) field.ErrorList {
				return apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
			},
		},
		specEqual: func(a, b *networkingv1.ServiceCIDR) bool { return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

func validateCIDRs(cidrs []string, at *field.Path) field.ErrorList {
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(at, "name one CIDR, or one of each family")}
	case len(cidrs) > 2:
		return field.ErrorList{field.TooMany(at, len(cidrs), 2)}
	}
	var errs field.ErrorList
	for i, c := range cidrs {
		errs = append(errs, validation.IsValidCIDR(at.Index(i), c)...)
	}
	if len(errs) == 0 && len(cidrs) == 2 && netutils.IsIPv6CIDRString(cidrs[0]) == netutils.IsIPv6CIDRString(cidrs[1]) {
		errs = append(errs, field.Invalid(at, cidrs, "two CIDRs must be of different families"))
	}
	return errs
}

func validateCIDRsUpdate(cidrs, old []string, at *field.Path) field.ErrorList {
	if apiequality.Semantic.DeepEqual(cidrs, old) {
		return nil
	}
	if len(old) == 1 && len(cidrs) == 2 && cidrs[0] == old[0] {
		return validateCIDRs(cidrs, at)
	}
	return field.ErrorList{field.Invalid(at, cidrs, apivalidation.FieldImmutableErrorMsg)}
}

// ServiceCIDRs returns the replica's client for ServiceCIDR objects.
func (c *Client) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return serviceCIDRClient{resourceClient[*networkingv1.ServiceCIDR, *networkingv1.ServiceCIDRList]{
		Client: c,
		store:  c.server.serviceCIDRs,
		list: func(meta metav1.ListMeta, items []*networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRList {
			return &networkingv1.ServiceCIDRList{ListMeta: meta, Items: values(items)}
		},
	}}
}

type serviceCIDRClient struct {
	resourceClient[*networkingv1.ServiceCIDR, *networkingv1.ServiceCIDRList]
}

// UpdateStatus writes the status and nothing else.
func (r serviceCIDRClient) UpdateStatus(ctx context.Context, obj *networkingv1.ServiceCIDR, opts metav1.UpdateOptions) (*networkingv1.ServiceCIDR, error) {
	return r.update(ctx, obj, opts, statusSubresource)
}

// Apply is server-side apply of all but the status. An absent ServiceCIDR is created.
func (r serviceCIDRClient) Apply(ctx context.Context, config *networkingv1apply.ServiceCIDRApplyConfiguration, opts metav1.ApplyOptions) (*networkingv1.ServiceCIDR, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, "")
}

// ApplyStatus is server-side apply of the status. An absent ServiceCIDR is NotFound.
func (r serviceCIDRClient) ApplyStatus(ctx context.Context, config *networkingv1apply.ServiceCIDRApplyConfiguration, opts metav1.ApplyOptions) (*networkingv1.ServiceCIDR, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, statusSubresource)
}
