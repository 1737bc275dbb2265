// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1fields "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// object is what all served types are.
type object interface {
	runtime.Object
	metav1.Object
}

// rules are what one resource is. Those without a function have none.
type rules[T object] struct {
	resource   schema.GroupVersionResource
	singular   string
	shortNames []string
	categories []string
	namespaced bool

	newObject func() T
	newList   func() runtime.Object
	// prepareCreate and prepareUpdate set what a client may not.
	prepareCreate  func(obj T)
	prepareUpdate  func(obj, old T)
	validateCreate func(obj T) field.ErrorList
	validateUpdate func(obj, old T) field.ErrorList
	// resets are the fields that a write of this (sub)resource does not change.
	resets []string
	// createOnUpdate lets a PUT create.
	createOnUpdate bool
	// ttl is for how many seconds it is kept; 0 for ever.
	ttl uint64
	// selectable are the fields that a selector may name, beside name and namespace.
	selectable func(obj T) metav1fields.Set
	table      rest.TableConvertor
}

// strategy is what the generic registry wants.
type strategy[T object] struct {
	runtime.ObjectTyper
	names.NameGenerator
	rules rules[T]
}

var (
	_ rest.RESTCreateStrategy  = strategy[object]{}
	_ rest.RESTUpdateStrategy  = strategy[object]{}
	_ rest.RESTDeleteStrategy  = strategy[object]{}
	_ rest.ResetFieldsStrategy = strategy[object]{}
)

func (s strategy[T]) NamespaceScoped() bool                                            { return s.rules.namespaced }
func (s strategy[T]) AllowCreateOnUpdate(context.Context) bool                         { return s.rules.createOnUpdate }
func (s strategy[T]) AllowUnconditionalUpdate(context.Context) bool                    { return true }
func (s strategy[T]) Canonicalize(runtime.Object)                                      {}
func (s strategy[T]) WarningsOnCreate(context.Context, runtime.Object) []string        { return nil }
func (s strategy[T]) WarningsOnUpdate(_ context.Context, _, _ runtime.Object) []string { return nil }

func (s strategy[T]) PrepareForCreate(_ context.Context, obj runtime.Object) {
	if s.rules.prepareCreate != nil {
		s.rules.prepareCreate(obj.(T))
	}
}

func (s strategy[T]) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	if s.rules.prepareUpdate != nil {
		s.rules.prepareUpdate(obj.(T), old.(T))
	}
}

func (s strategy[T]) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	if s.rules.validateCreate == nil {
		return nil
	}
	return s.rules.validateCreate(obj.(T))
}

func (s strategy[T]) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	if s.rules.validateUpdate == nil {
		return nil
	}
	return s.rules.validateUpdate(obj.(T), old.(T))
}

// GetResetFields keeps server-side apply from owning what is reset.
func (s strategy[T]) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	set := fieldpath.NewSet()
	for _, f := range s.rules.resets {
		set.Insert(fieldpath.MakePathOrDie(f))
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.rules.resource.GroupVersion().String()): set}
}

// attributes are what selectors see.
func (r rules[T]) attributes(obj runtime.Object) (labels.Set, metav1fields.Set, error) {
	t, ok := obj.(T)
	if !ok {
		return nil, nil, errors.New("another type than that of " + r.resource.Resource)
	}
	set := metav1fields.Set{"metadata.name": t.GetName()}
	if r.namespaced {
		set["metadata.namespace"] = t.GetNamespace()
	}
	if r.selectable != nil {
		for k, v := range r.selectable(t) {
			set[k] = v
		}
	}
	return labels.Set(t.GetLabels()), set, nil
}

// REST serves a resource.
type REST struct {
	*registry.Store
	shortNames, categories []string
}

var (
	_ rest.ShortNamesProvider = &REST{}
	_ rest.CategoriesProvider = &REST{}
)

// ShortNames are what kubectl takes for the name of the resource.
func (r *REST) ShortNames() []string { return r.shortNames }

// Categories are the groups of resources that it is in, such as all.
func (r *REST) Categories() []string { return r.categories }

// newREST makes a store from rules.
func newREST[T object](typer runtime.ObjectTyper, opts generic.RESTOptionsGetter, r rules[T]) (*REST, error) {
	s := strategy[T]{typer, names.SimpleNameGenerator, r}
	store := &registry.Store{
		NewFunc:                   func() runtime.Object { return r.newObject() },
		NewListFunc:               r.newList,
		DefaultQualifiedResource:  r.resource.GroupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: r.resource.Group, Resource: r.singular},
		PredicateFunc: func(label labels.Selector, field metav1fields.Selector) storage.SelectionPredicate {
			return storage.SelectionPredicate{Label: label, Field: field, GetAttrs: r.attributes}
		},
		CreateStrategy:      s,
		UpdateStrategy:      s,
		DeleteStrategy:      s,
		ResetFieldsStrategy: s,
		ReturnDeletedObject: true,
		TableConvertor:      r.table,
	}
	if r.table == nil {
		store.TableConvertor = rest.NewDefaultTableConvertor(store.DefaultQualifiedResource)
	}
	if r.ttl > 0 {
		store.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) { return r.ttl, nil }
	}
	if err := store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: opts, AttrFunc: r.attributes}); err != nil {
		return nil, err
	}
	return &REST{Store: store, shortNames: r.shortNames, categories: r.categories}, nil
}

// StatusREST serves the status of a resource.
type StatusREST struct{ store *registry.Store }

var (
	_ rest.Patcher             = &StatusREST{}
	_ rest.ResetFieldsStrategy = &StatusREST{}
)

// newStatusREST makes it from a store, and rules that reset everything but the status.
func newStatusREST[T object](store *registry.Store, typer runtime.ObjectTyper, r rules[T]) *StatusREST {
	status := *store
	s := strategy[T]{typer, names.SimpleNameGenerator, r}
	status.UpdateStrategy, status.ResetFieldsStrategy = s, s
	// A status takes and gives nothing up.
	status.BeginUpdate, status.AfterUpdate = nil, nil
	return &StatusREST{&status}
}

func (r *StatusREST) New() runtime.Object { return r.store.New() }

// Destroy does nothing: the store belongs to the resource.
func (r *StatusREST) Destroy() {}

func (r *StatusREST) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return r.store.Get(ctx, name, options)
}

// Update never creates.
func (r *StatusREST) Update(ctx context.Context, name string, info rest.UpdatedObjectInfo, createValidation rest.ValidateObjectFunc,
	updateValidation rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions) (runtime.Object, bool, error) {
	return r.store.Update(ctx, name, info, createValidation, updateValidation, false, options)
}

func (r *StatusREST) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return r.store.GetResetFields()
}

func (r *StatusREST) ConvertToTable(ctx context.Context, object, options runtime.Object) (*metav1.Table, error) {
	return r.store.ConvertToTable(ctx, object, options)
}
