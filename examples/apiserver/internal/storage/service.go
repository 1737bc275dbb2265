// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/examples/apiserver/internal/allocation"
	"github.com/metacidr/metacidr/examples/apiserver/internal/printers"
	"github.com/metacidr/metacidr/examples/apiserver/internal/validation"
)

// Services are what the storage of Services needs beyond the registry.
type Services struct {
	Addresses allocation.Addresses
	Ports     *allocation.Ports
	// Families are those that the server has ranges for, the primary one first.
	Families []corev1.IPFamily
}

// serviceREST serves Services: the registry, in a transaction.
type serviceREST struct {
	*REST
	services   Services
	namespaces rest.Getter
}

func newServices(typer runtime.ObjectTyper, opts generic.RESTOptionsGetter, now clock.PassiveClock, services Services, namespaces rest.Getter) (*serviceREST, *StatusREST, error) {
	r := rules[*corev1.Service]{
		resource:       corev1.SchemeGroupVersion.WithResource("services"),
		singular:       "service",
		shortNames:     []string{"svc"},
		categories:     []string{"all"},
		namespaced:     true,
		createOnUpdate: true,
		newObject:      func() *corev1.Service { return &corev1.Service{} },
		newList:        func() runtime.Object { return &corev1.ServiceList{} },
		resets:         []string{"status"},
		prepareCreate:  func(obj *corev1.Service) { obj.Status = corev1.ServiceStatus{} },
		prepareUpdate: func(obj, old *corev1.Service) {
			obj.Status = *old.Status.DeepCopy()
			validation.ClearUnused(obj, old)
		},
		validateCreate: validation.Service,
		validateUpdate: validation.ServiceUpdate,
		table:          printers.Services(now),
		selectable: func(obj *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": obj.Spec.ClusterIP, "spec.type": string(obj.Spec.Type)}
		},
	}
	store, err := newREST(typer, opts, r)
	if err != nil {
		return nil, nil, err
	}
	out := &serviceREST{store, services, namespaces}
	store.BeginCreate = func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
		return finished, out.begin(ctx, obj.(*corev1.Service), nil)
	}
	store.BeginUpdate = func(ctx context.Context, obj, old runtime.Object, _ *metav1.UpdateOptions) (registry.FinishFunc, error) {
		return finished, out.begin(ctx, obj.(*corev1.Service), old.(*corev1.Service))
	}
	store.AfterDelete = func(obj runtime.Object, options *metav1.DeleteOptions) {
		if !dryrun.IsDryRun(options.DryRun) {
			allocation.Deleted(context.Background(), services.Addresses, services.Ports, obj.(*corev1.Service))
		}
	}
	r.resets = []string{"spec"}
	r.prepareUpdate = func(obj, old *corev1.Service) { obj.Spec = *old.Spec.DeepCopy() }
	r.validateUpdate = validation.ServiceStatusUpdate
	return out, newStatusREST(store.Store, typer, r), nil
}

// finished does nothing: the transaction is settled when the outcome of the write is known.
func finished(context.Context, bool) {}

// begin is the part of a write in which the Service gets what it needs. An update that meets another one begins again.
func (r *serviceREST) begin(ctx context.Context, svc, old *corev1.Service) error {
	if old == nil {
		if err := r.namespaceExists(ctx, svc.Namespace); err != nil {
			return err
		}
	}
	validation.KeepAllocated(svc, old)
	validation.NormalizeClusterIPs(svc, old)
	if errs := validation.DefaultFamilies(svc, old, r.services.Families); len(errs) > 0 {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, errs)
	}
	return allocation.From(ctx).Begin(ctx, svc, old)
}

// namespaceExists asks the watch cache first. That may not have a namespace yet which was made a moment ago, so only
// etcd says that there is none.
func (r *serviceREST) namespaceExists(ctx context.Context, name string) error {
	_, err := r.namespaces.Get(ctx, name, &metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		_, err = r.namespaces.Get(ctx, name, &metav1.GetOptions{})
	}
	return err
}

// Create creates a Service.
func (r *serviceREST) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	ctx, t := allocation.With(ctx, r.services.Addresses, r.services.Ports, dryrun.IsDryRun(options.DryRun))
	out, err := r.REST.Create(ctx, obj, validate, options)
	t.Settle(ctx, err)
	return out, err
}

// Update updates a Service, or creates it.
func (r *serviceREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, forceAllowCreate bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	ctx, t := allocation.With(ctx, r.services.Addresses, r.services.Ports, dryrun.IsDryRun(options.DryRun))
	out, created, err := r.REST.Update(ctx, name, info, createValidation, updateValidation, forceAllowCreate, options)
	t.Settle(ctx, err)
	return out, created, err
}
