// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// owners keeps metadata.managedFields of one resource: who owns which field. A
// writer of a resource has one record for the object and another for its status.
//
//	create, update, patch --> update: the writer owns what it changed
//	apply ------------------> apply:  the writer owns what it says; another's field
//	                                  is a conflict, unless forced
//
// The merging is that of a real server, from the libraries. Only the clock is ours.
type owners[T object] struct {
	server *Server
	byPart map[string]*managedfields.FieldManager // by subresource, "" for the object
}

// newOwners returns nil for a kind that is not tracked.
func newOwners[T object](s *Server, k *kind[T]) *owners[T] {
	if !k.tracked {
		return nil
	}
	o := &owners[T]{server: s, byPart: make(map[string]*managedfields.FieldManager)}
	o.add(k, "", statusSubresource)
	o.add(k, statusSubresource, k.status.resets...)
	return o
}

// add makes the manager of one subresource. The reset fields are those that a writer
// through it does not reach, so does not own.
func (o *owners[T]) add(k *kind[T], subresource string, resets ...string) {
	gvk := k.resource.GroupVersion().WithKind(k.name)
	unreached := fieldpath.NewSet()
	for _, name := range resets {
		unreached.Insert(fieldpath.MakePathOrDie(name))
	}
	manager, err := managedfields.NewDefaultFieldManager(
		applyconfigurations.NewTypeConverter(scheme.Scheme), scheme.Scheme, defaulter[T]{k.defaults}, scheme.Scheme,
		gvk, gvk.GroupVersion(), subresource,
		map[fieldpath.APIVersion]fieldpath.Filter{
			fieldpath.APIVersion(gvk.GroupVersion().String()): fieldpath.NewExcludeSetFilter(unreached),
		})
	if err != nil {
		panic(fmt.Sprintf("simapi: %v", err)) // the kind is served, so it is in the scheme
	}
	o.byPart[subresource] = manager
}

// defaulter fills in what an apply leaves out: nobody owns it.
type defaulter[T object] struct{ fill func(T) }

func (d defaulter[T]) Default(obj runtime.Object) {
	if typed, ok := obj.(T); ok && d.fill != nil {
		d.fill(typed)
	}
}

// update returns obj, which it may change, with the fields that it changes against
// live owned by manager. managedFields that obj itself carries count, as a real server
// has it, so a writer can put ownership back. The live object is not mutated.
func (o *owners[T]) update(live, obj T, subresource, manager string) (T, error) {
	if o == nil {
		obj.SetManagedFields(nil)
		return obj, nil
	}
	known := slices.Concat(obj.GetManagedFields(), live.GetManagedFields())
	got, err := o.byPart[subresource].Update(copyOf(live), obj, manager)
	return o.answer(got, err, known)
}

// apply returns what becomes of live when manager applies config to it. The live
// object is not mutated.
func (o *owners[T]) apply(live T, config *unstructured.Unstructured, subresource, manager string, force bool) (T, error) {
	got, err := o.byPart[subresource].Apply(copyOf(live), config, manager, force)
	return o.answer(got, err, live.GetManagedFields())
}

// answer reads what the library answered, and puts the server's time on the entries
// that the library has stamped: those with a time that is in none of the known ones.
func (o *owners[T]) answer(got runtime.Object, err error, known []metav1.ManagedFieldsEntry) (T, error) {
	var none T
	if err != nil {
		if _, answered := errors.AsType[*apierrors.StatusError](err); answered {
			return none, err
		}
		return none, apierrors.NewInternalError(err)
	}
	obj, ok := got.(T)
	if !ok {
		return none, apierrors.NewInternalError(fmt.Errorf("merged to a %T, want a %T", got, none))
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	entries := obj.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if !slices.ContainsFunc(known, func(k metav1.ManagedFieldsEntry) bool { return sameOwner(*e, k) && e.Time.Equal(k.Time) }) {
			now := o.server.now()
			e.Time = &now
		}
	}
	slices.SortStableFunc(entries, compareOwners)
	obj.SetManagedFields(entries)
	return obj, nil
}

// sameOwner tells whether two entries are records of one writer.
func sameOwner(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource &&
		(a.APIVersion == b.APIVersion || a.Operation == metav1.ManagedFieldsOperationApply)
}

// compareOwners is the order of managedFields: appliers first, then by time.
func compareOwners(a, b metav1.ManagedFieldsEntry) int {
	seconds := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	return cmp.Or(
		cmp.Compare(a.Operation, b.Operation),
		cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager),
		cmp.Compare(a.APIVersion, b.APIVersion),
		cmp.Compare(a.Subresource, b.Subresource),
	)
}
