// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// resourceClient has the methods that the typed interfaces of all resources share:
// T is the pointer to the type, L the pointer to its list. Like the real ones, they
// return an empty object, not nil, beside an error.
type resourceClient[T object, L runtime.Object] struct {
	*Client
	store     *store[T]
	namespace string
	list      func(metav1.ListMeta, []T) L // copies the items
}

// call runs one call that answers with an object.
func (r resourceClient[T, L]) call(ctx context.Context, verb, subresource, name string, apply func() (T, error)) (T, error) {
	var out T
	err := r.server.do(ctx, r.describe(verb, subresource, name), func() (err error) {
		out, err = apply()
		return err
	})
	if err != nil {
		return r.store.kind.new(), err
	}
	return out, nil
}

func (r resourceClient[T, L]) describe(verb, subresource, name string) Call {
	resource := r.store.kind.resource.Resource
	if subresource != "" {
		resource += "/" + subresource
	}
	return Call{Replica: r.replica, Verb: verb, Resource: resource, Namespace: r.namespace, Name: name}
}

func (r resourceClient[T, L]) key(name string) key { return key{r.namespace, name} }

func (r resourceClient[T, L]) Create(ctx context.Context, obj T, opts metav1.CreateOptions) (T, error) {
	return r.call(ctx, "create", "", obj.GetName(), func() (T, error) {
		opts.FieldManager = cmp.Or(opts.FieldManager, r.replica)
		return r.store.create(r.namespace, obj, opts)
	})
}

func (r resourceClient[T, L]) Update(ctx context.Context, obj T, opts metav1.UpdateOptions) (T, error) {
	return r.update(ctx, obj, opts, "")
}

func (r resourceClient[T, L]) update(ctx context.Context, obj T, opts metav1.UpdateOptions, subresource string) (T, error) {
	return r.call(ctx, "update", subresource, obj.GetName(), func() (T, error) {
		opts.FieldManager = cmp.Or(opts.FieldManager, r.replica)
		return r.store.replace(r.key(obj.GetName()), subresource, obj, opts)
	})
}

func (r resourceClient[T, L]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error) {
	subresource := ""
	if len(subresources) > 0 {
		subresource = subresources[0]
	}
	return r.call(ctx, "patch", subresource, name, func() (T, error) {
		if errs := metav1validation.ValidatePatchOptions(&opts, pt); len(errs) > 0 {
			return r.store.kind.new(), apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("PatchOptions").GroupKind(), "", errs)
		}
		if pt == types.ApplyYAMLPatchType {
			return r.store.apply(r.key(name), subresource, data, opts)
		}
		opts.FieldManager = cmp.Or(opts.FieldManager, r.replica)
		return r.store.patch(r.key(name), subresource, pt, data, opts)
	})
}

// applyConfig is server-side apply as the typed client does it: a patch.
func applyConfig[T object, L runtime.Object, C interface {
	comparable
	GetName() *string
}](ctx context.Context, r resourceClient[T, L], config C, opts metav1.ApplyOptions, subresource string) (T, error) {
	if config == *new(C) || config.GetName() == nil {
		return r.store.kind.new(), errors.New("the object to apply must be there and have a name")
	}
	data, err := json.Marshal(config)
	if err != nil {
		return r.store.kind.new(), err
	}
	return r.Patch(ctx, *config.GetName(), types.ApplyYAMLPatchType, data, opts.ToPatchOptions(), subresource)
}

func (r resourceClient[T, L]) Get(ctx context.Context, name string, opts metav1.GetOptions) (T, error) {
	return r.call(ctx, "get", "", name, func() (T, error) {
		return r.store.get(r.key(name), opts)
	})
}

func (r resourceClient[T, L]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	return r.server.do(ctx, r.describe("delete", "", name), func() error {
		return r.store.delete(r.key(name), opts)
	})
}

// DeleteCollection deletes, one by one, what a list with listOpts finds.
func (r resourceClient[T, L]) DeleteCollection(ctx context.Context, opts metav1.DeleteOptions, listOpts metav1.ListOptions) error {
	return r.server.do(ctx, r.describe("deletecollection", "", ""), func() error {
		items, _, err := r.store.list(r.namespace, listOpts)
		if err != nil {
			return err
		}
		for _, obj := range items {
			err := r.store.delete(keyOf(obj), preconditionUID(opts, obj.GetUID()))
			if err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		return nil
	})
}

func (r resourceClient[T, L]) List(ctx context.Context, opts metav1.ListOptions) (L, error) {
	var items []T
	var meta metav1.ListMeta
	err := r.server.do(ctx, r.describe("list", "", ""), func() (err error) {
		items, meta, err = r.store.list(r.namespace, opts)
		return err
	})
	if err != nil {
		return r.list(metav1.ListMeta{}, nil), err
	}
	return r.list(meta, items), nil
}

func (r resourceClient[T, L]) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	var w watch.Interface
	err := r.server.do(ctx, r.describe("watch", "", ""), func() (err error) {
		w, err = r.store.watch(ctx, r.replica, r.namespace, opts)
		return err
	})
	if err != nil {
		if w != nil {
			w.Stop() // opened, but the answer was lost
		}
		return nil, err
	}
	return w, nil
}

// values copies stored objects into the items of a list.
func values[V any, T interface {
	*V
	DeepCopyInto(*V)
}](items []T) []V {
	out := make([]V, len(items))
	for i, obj := range items {
		obj.DeepCopyInto(&out[i])
	}
	return out
}
