// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// object is what a store can hold: a pointer to an API type.
type object interface {
	runtime.Object
	metav1.Object
}

// kind holds what one resource does in its own way. All else is in store.
// Functions receive objects that they may change only where they say so.
type kind[T object] struct {
	resource schema.GroupVersionResource
	name     string // the Kind
	new      func() T

	namespaced     bool
	createOnUpdate bool // PUT of an absent object creates it
	needsVersion   bool // PUT without a resourceVersion is refused
	overWire       bool // an object comes in through JSON, which rounds its times
	tracked        bool // keeps managedFields, and so can be applied

	// generateName makes a name of metadata.generateName and a serial number.
	generateName func(base string, serial uint64) string

	// selectable are the fields, besides name and namespace, that a field selector
	// may name.
	selectable map[string]func(obj T) string

	// defaults fills in what a writer leaves out; it may change obj. Nil: nothing.
	defaults func(obj T)

	prepareCreate  func(obj T) // may change obj
	validateCreate func(obj T) field.ErrorList
	prepareUpdate  func(obj, old T) // may change obj
	validateUpdate func(obj, old T) field.ErrorList
	status         *statusRules[T] // nil: no status subresource

	// specEqual tells whether the generation stays.
	specEqual func(a, b T) bool
}

// statusRules are the rules of the status subresource.
type statusRules[T object] struct {
	resets         []string         // the top-level fields that it does not write
	prepareUpdate  func(obj, old T) // may change obj
	validateUpdate func(obj, old T) field.ErrorList
}

func (k *kind[T]) groupResource() schema.GroupResource { return k.resource.GroupResource() }

func (k *kind[T]) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: k.resource.Group, Kind: k.name}
}

// serialName is a name as generateName asks for it. It is the same in every run.
func serialName(base string, serial uint64) string { return fmt.Sprintf("%s%05x", base, serial) }

// copyOf returns a deep copy.
func copyOf[T object](obj T) T { return obj.DeepCopyObject().(T) }
