// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	coordinationv1apply "k8s.io/client-go/applyconfigurations/coordination/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// leaseKind: whoever updates one must say which version he has seen. On that leader
// election rests.
func leaseKind() kind[*coordinationv1.Lease] {
	return kind[*coordinationv1.Lease]{
		resource:       coordinationv1.SchemeGroupVersion.WithResource("leases"),
		name:           "Lease",
		new:            func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
		namespaced:     true,
		createOnUpdate: true,
		needsVersion:   true,
		overWire:       true,
		generateName:   serialName,
		prepareCreate:  func(*coordinationv1.Lease) {},
		validateCreate: func(obj *coordinationv1.Lease) field.ErrorList {
			errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			return append(errs, validateLeaseSpec(&obj.Spec, field.NewPath("spec"))...)
		},
		prepareUpdate: func(_, _ *coordinationv1.Lease) {},
		validateUpdate: func(obj, old *coordinationv1.Lease) field.ErrorList {
			errs := apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
			return append(errs, validateLeaseSpec(&obj.Spec, field.NewPath("spec"))...)
		},
		specEqual: func(a, b *coordinationv1.Lease) bool { return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

func validateLeaseSpec(spec *coordinationv1.LeaseSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seconds := spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(at.Child("leaseDurationSeconds"), *seconds, "must be above 0"))
	}
	if n := ptr.Deref(spec.LeaseTransitions, 0); n < 0 {
		errs = append(errs, field.Invalid(at.Child("leaseTransitions"), n, "must not be below 0"))
	}
	return errs
}

// Leases returns the replica's client for the Leases of a namespace. With "" it
// lists and watches those of all namespaces.
func (c *Client) Leases(namespace string) coordinationv1client.LeaseInterface {
	return leaseClient{resourceClient[*coordinationv1.Lease, *coordinationv1.LeaseList]{
		Client:    c,
		store:     c.server.leases,
		namespace: namespace,
		list: func(meta metav1.ListMeta, items []*coordinationv1.Lease) *coordinationv1.LeaseList {
			return &coordinationv1.LeaseList{ListMeta: meta, Items: values(items)}
		},
	}}
}

type leaseClient struct {
	resourceClient[*coordinationv1.Lease, *coordinationv1.LeaseList]
}

// Apply is not simulated: it is answered MethodNotSupported.
func (r leaseClient) Apply(ctx context.Context, config *coordinationv1apply.LeaseApplyConfiguration, opts metav1.ApplyOptions) (*coordinationv1.Lease, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, "")
}
