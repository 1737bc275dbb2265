// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/examples/apiserver/internal/printers"
	"github.com/metacidr/metacidr/examples/apiserver/internal/validation"
	"github.com/metacidr/metacidr/informer"
)

// eventSeconds is for how long events are kept.
const eventSeconds = 3600

// newServiceCIDRs: a ServiceCIDR has its finalizer when it is stored, so that no allocation can meet one whose deletion waits for nobody.
func newServiceCIDRs(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter, now clock.PassiveClock) (*REST, *StatusREST, error) {
	r := rules[*networkingv1.ServiceCIDR]{
		resource:  networkingv1.SchemeGroupVersion.WithResource("servicecidrs"),
		singular:  "servicecidr",
		newObject: func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
		newList:   func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		resets:    []string{"status"},
		prepareCreate: func(obj *networkingv1.ServiceCIDR) {
			obj.Status = networkingv1.ServiceCIDRStatus{}
			if !slices.Contains(obj.Finalizers, informer.Finalizer) {
				obj.Finalizers = append(obj.Finalizers, informer.Finalizer)
			}
		},
		prepareUpdate:  func(obj, old *networkingv1.ServiceCIDR) { obj.Status = old.Status },
		validateCreate: validation.ServiceCIDR,
		validateUpdate: validation.ServiceCIDRUpdate,
		table:          printers.ServiceCIDRs(now),
	}
	store, err := newREST(typer, opts, r)
	if err != nil {
		return nil, nil, err
	}
	r.resets = []string{"spec", "metadata"}
	r.prepareUpdate = func(obj, old *networkingv1.ServiceCIDR) {
		obj.Spec = old.Spec
		// As for other resources: the status subresource writes no metadata, but for who owns the fields.
		managed := obj.ManagedFields
		obj.ObjectMeta = *old.ObjectMeta.DeepCopy()
		obj.ManagedFields = managed
	}
	r.validateUpdate = validation.ServiceCIDRStatusUpdate
	return store, newStatusREST(store.Store, typer, r), nil
}

func newIPAddresses(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter, now clock.PassiveClock) (*REST, error) {
	return newREST(typer, opts, rules[*networkingv1.IPAddress]{
		resource:       networkingv1.SchemeGroupVersion.WithResource("ipaddresses"),
		singular:       "ipaddress",
		shortNames:     []string{"ip"},
		newObject:      func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
		newList:        func() runtime.Object { return &networkingv1.IPAddressList{} },
		validateCreate: validation.IPAddress,
		validateUpdate: validation.IPAddressUpdate,
		table:          printers.IPAddresses(now),
		selectable: func(obj *networkingv1.IPAddress) fields.Set {
			if obj.Spec.ParentRef == nil {
				return nil
			}
			p := obj.Spec.ParentRef
			return fields.Set{"spec.parentRef.name": p.Name, "spec.parentRef.namespace": p.Namespace, "spec.parentRef.resource": p.Resource}
		},
	})
}

func newLeases(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter) (*REST, error) {
	return newREST(typer, opts, rules[*coordinationv1.Lease]{
		resource:       coordinationv1.SchemeGroupVersion.WithResource("leases"),
		singular:       "lease",
		namespaced:     true,
		createOnUpdate: true,
		newObject:      func() *coordinationv1.Lease { return &coordinationv1.Lease{} },
		newList:        func() runtime.Object { return &coordinationv1.LeaseList{} },
		validateCreate: metadata[*coordinationv1.Lease], validateUpdate: metadataUpdate[*coordinationv1.Lease],
	})
}

func newEvents(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter) (*REST, error) {
	return newREST(typer, opts, rules[*corev1.Event]{
		resource:       corev1.SchemeGroupVersion.WithResource("events"),
		singular:       "event",
		shortNames:     []string{"ev"},
		namespaced:     true,
		ttl:            eventSeconds,
		newObject:      func() *corev1.Event { return &corev1.Event{} },
		newList:        func() runtime.Object { return &corev1.EventList{} },
		validateCreate: metadata[*corev1.Event], validateUpdate: metadataUpdate[*corev1.Event],
		selectable: func(obj *corev1.Event) fields.Set {
			o := obj.InvolvedObject
			source := obj.Source.Component
			if source == "" {
				source = obj.ReportingController
			}
			return fields.Set{
				"involvedObject.kind": o.Kind, "involvedObject.namespace": o.Namespace, "involvedObject.name": o.Name, "involvedObject.uid": string(o.UID),
				"involvedObject.apiVersion": o.APIVersion, "involvedObject.resourceVersion": o.ResourceVersion, "involvedObject.fieldPath": o.FieldPath,
				"reason": obj.Reason, "reportingComponent": obj.ReportingController, "source": source, "type": obj.Type,
			}
		},
	})
}

func metadata[T object](obj T) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(obj, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

func metadataUpdate[T object](obj, old T) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))
}

// namespaceREST deletes with a namespace what is in it.
type namespaceREST struct {
	*REST
	contents []rest.CollectionDeleter
}

func newNamespaces(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter, now clock.PassiveClock) (*namespaceREST, error) {
	active := corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	store, err := newREST(typer, opts, rules[*corev1.Namespace]{
		resource:   corev1.SchemeGroupVersion.WithResource("namespaces"),
		singular:   "namespace",
		shortNames: []string{"ns"},
		newObject:  func() *corev1.Namespace { return &corev1.Namespace{} },
		newList:    func() runtime.Object { return &corev1.NamespaceList{} },
		resets:     []string{"status"},
		prepareCreate: func(obj *corev1.Namespace) {
			obj.Status = active
			// Nothing works on this finalizer here: Delete does its work.
			obj.Spec.Finalizers = nil
			if obj.Labels == nil {
				obj.Labels = map[string]string{}
			}
			obj.Labels[corev1.LabelMetadataName] = obj.Name
		},
		prepareUpdate: func(obj, old *corev1.Namespace) {
			obj.Status, obj.Spec.Finalizers = old.Status, old.Spec.Finalizers
		},
		validateCreate: validation.Namespace,
		validateUpdate: validation.NamespaceUpdate,
		table:          printers.Namespaces(now),
		selectable: func(obj *corev1.Namespace) fields.Set {
			return fields.Set{"status.phase": string(obj.Status.Phase)}
		},
	})
	if err != nil {
		return nil, err
	}
	return &namespaceREST{REST: store}, nil
}

// Delete deletes what is in the namespace, and then the namespace. A Service that is created at that very moment may be
// left without it: like one of an API server whose namespace controller does not run.
func (r *namespaceREST) Delete(ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	if !dryrun.IsDryRun(options.DryRun) {
		if _, err := r.Get(ctx, name, &metav1.GetOptions{}); err != nil {
			return nil, false, err
		}
		for _, c := range r.contents {
			in := request.WithNamespace(ctx, name)
			if _, err := c.DeleteCollection(in, rest.ValidateAllObjectFunc, &metav1.DeleteOptions{}, &internalversion.ListOptions{}); err != nil {
				return nil, false, err
			}
		}
	}
	return r.REST.Delete(ctx, name, validate, options)
}
