// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// statusSubresource is the one subresource that is served.
const statusSubresource = "status"

// key names one object of a resource. The namespace of a cluster-scoped one is "".
type key struct{ namespace, name string }

func keyOf(obj metav1.Object) key { return key{obj.GetNamespace(), obj.GetName()} }

// compareKeys is the order of a list.
func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// store is one resource: its objects and the rules of each verb. Objects in it are
// never mutated, so they may be read without the lock once taken out.
type store[T object] struct {
	server *Server
	kind   kind[T]
	owners *owners[T] // nil: not tracked

	// Guarded by server.mu.
	objects map[key]T
	sorted  []key // the keys in order; nil when stale
	history []change[T]
	watches map[*stream]selector[T]
	serial  uint64 // of generated names
}

func newStore[T object](s *Server, k kind[T]) *store[T] {
	return &store[T]{server: s, kind: k, owners: newOwners(s, &k), objects: make(map[key]T), watches: make(map[*stream]selector[T])}
}

// create stores a copy of in.
func (st *store[T]) create(namespace string, in T, opts metav1.CreateOptions) (T, error) {
	if rv := in.GetResourceVersion(); rv != "" && rv != "0" {
		return in, apierrors.NewInternalError(errors.New("resourceVersion should not be set on objects to be created"))
	}
	obj, err := st.receive(in)
	if err != nil {
		return in, err
	}
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	wipe(obj)
	if obj, err = st.owners.update(st.kind.new(), obj, "", opts.FieldManager); err != nil {
		return in, err
	}
	return st.insert(namespace, obj, opts.DryRun)
}

// receive copies an object as it comes in. Over a wire, times lose their fractions,
// and empty lists are none: else an apply that says the same would seem to change
// them.
func (st *store[T]) receive(in T) (T, error) {
	if !st.kind.overWire {
		return copyOf(in), nil
	}
	data, err := json.Marshal(in)
	if err != nil {
		return in, apierrors.NewBadRequest("the object does not encode: " + err.Error())
	}
	return st.decode(data)
}

// decode reads an object, and fills in its defaults.
func (st *store[T]) decode(data []byte) (T, error) {
	obj := st.kind.new()
	if err := json.Unmarshal(data, obj); err != nil {
		return obj, apierrors.NewBadRequest("the object does not decode: " + err.Error())
	}
	if st.kind.defaults != nil {
		st.kind.defaults(obj)
	}
	return obj, nil
}

// insert stores obj, which becomes the store's, as a new object. The caller holds
// the server's lock.
func (st *store[T]) insert(namespace string, obj T, dryRunOpt []string) (T, error) {
	dry, err := dryRun(dryRunOpt)
	if err != nil {
		return obj, err
	}
	wipe(obj)
	obj.SetCreationTimestamp(st.server.now())
	if err := st.fillNamespace(obj, namespace); err != nil {
		return obj, err
	}
	st.kind.prepareCreate(obj)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		st.serial++
		obj.SetName(st.kind.generateName(obj.GetGenerateName(), st.serial))
	}
	if errs := st.kind.validateCreate(obj); len(errs) > 0 {
		return obj, st.invalid(obj.GetName(), errs)
	}
	if _, exists := st.objects[keyOf(obj)]; exists {
		return obj, apierrors.NewAlreadyExists(st.kind.groupResource(), obj.GetName())
	}
	obj.SetUID(st.server.nextUID())
	if !dry {
		st.put(obj)
	}
	return copyOf(obj), nil
}

// get returns a copy of the object.
func (st *store[T]) get(k key, opts metav1.GetOptions) (T, error) {
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	obj, exists := st.objects[k]
	if _, err := s.notOlderThan(opts.ResourceVersion); err != nil {
		return obj, err
	}
	if !exists {
		return obj, st.notFound(k)
	}
	return copyOf(obj), nil
}

// wipe clears what no creator decides.
func wipe(obj object) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
}

// fillNamespace gives obj the namespace of the request, and refuses another.
func (st *store[T]) fillNamespace(obj T, namespace string) error {
	switch {
	case !st.kind.namespaced:
		return nil // validation refuses a namespace
	case namespace == "":
		return apierrors.NewMethodNotSupported(st.kind.groupResource(), "a write without a namespace")
	case obj.GetNamespace() == "":
		obj.SetNamespace(namespace)
	case obj.GetNamespace() != namespace:
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", obj.GetNamespace(), namespace))
	}
	return nil
}

// replace is PUT: the object becomes a copy of in, in all but what the system or
// the other subresource owns.
func (st *store[T]) replace(k key, subresource string, in T, opts metav1.UpdateOptions) (T, error) {
	received, err := st.receive(in)
	if err != nil {
		return in, err
	}
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := st.objects[k]; !exists {
		if in.GetUID() != "" && st.kind.createOnUpdate {
			// The UID of an update is a precondition, and an absent object has none.
			// Where an update creates nothing, that it is absent comes first.
			return in, st.conflict(k, preconditionFailed("UID", string(in.GetUID()), ""))
		}
		if st.kind.createOnUpdate { // through the status too, as a real server
			wipe(received)
			obj, err := st.owners.update(st.kind.new(), received, subresource, opts.FieldManager)
			if err != nil {
				return in, err
			}
			return st.insert(k.namespace, obj, opts.DryRun) // whatever resourceVersion it has
		}
	}
	return st.change(k, subresource, opts.DryRun, func(old T) (T, error) {
		if uid := received.GetUID(); uid != "" && uid != old.GetUID() {
			return old, st.conflict(k, preconditionFailed("UID", string(uid), string(old.GetUID())))
		}
		return st.owners.update(old, received, subresource, opts.FieldManager)
	})
}

// change is what PUT and PATCH share: edit makes the wanted object out of the
// stored one, which it must not mutate. The caller holds the server's lock.
func (st *store[T]) change(k key, subresource string, dryRunOpt []string, edit func(old T) (T, error)) (T, error) {
	old, exists := st.objects[k]
	dry, err := dryRun(dryRunOpt)
	if err != nil {
		return old, err
	}
	if subresource != "" && (subresource != statusSubresource || st.kind.status == nil) {
		return old, apierrors.NewNotFound(st.kind.groupResource(), k.name+"/"+subresource)
	}
	if !exists {
		return old, st.notFound(k)
	}
	obj, err := edit(old)
	if err != nil {
		return old, err
	}
	if err := st.fillNamespace(obj, k.namespace); err != nil {
		return old, err
	}
	if keyOf(obj) != k {
		return old, st.nameMismatch(obj.GetName(), k)
	}
	if obj.GetResourceVersion() == "" && st.kind.needsVersion {
		return old, st.invalid(k.name, field.ErrorList{
			field.Required(field.NewPath("metadata", "resourceVersion"), "an update must say which version it changes"),
		})
	}
	if rv := obj.GetResourceVersion(); rv != "" && rv != old.GetResourceVersion() {
		return old, st.conflict(k, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}

	// What no writer decides.
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if obj.GetUID() == "" { // another one, validation refuses
		obj.SetUID(old.GetUID())
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	obj.SetGeneration(old.GetGeneration())
	if old.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(old.GetDeletionTimestamp().DeepCopy())
		if obj.GetDeletionGracePeriodSeconds() == nil {
			obj.SetDeletionGracePeriodSeconds(ptr.To(ptr.Deref(old.GetDeletionGracePeriodSeconds(), 0)))
		}
	}

	prepare, validate := st.kind.prepareUpdate, st.kind.validateUpdate
	if subresource == statusSubresource {
		prepare, validate = st.kind.status.prepareUpdate, st.kind.status.validateUpdate
	}
	prepare(obj, old)
	errs := apivalidation.ValidateFinalizers(obj.GetFinalizers(), field.NewPath("metadata", "finalizers"))
	if errs = append(errs, validate(obj, old)...); len(errs) > 0 {
		return old, st.invalid(k.name, errs)
	}
	if old.GetGeneration() > 0 && !st.kind.specEqual(obj, old) {
		obj.SetGeneration(old.GetGeneration() + 1)
	}

	switch {
	case apiequality.Semantic.DeepEqual(obj, old):
		obj = old
	case dry:
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0:
		st.remove(old)
	default:
		st.put(obj)
	}
	return copyOf(obj), nil
}

// delete removes the object, or marks it when finalizers hold it.
func (st *store[T]) delete(k key, opts metav1.DeleteOptions) error {
	dry, err := dryRun(opts.DryRun)
	if err != nil {
		return err
	}
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	old, exists := st.objects[k]
	if !exists {
		return st.notFound(k)
	}
	if p := opts.Preconditions; p != nil {
		if p.UID != nil && *p.UID != old.GetUID() {
			return st.conflict(k, preconditionFailed("UID", string(*p.UID), string(old.GetUID())))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
			return st.conflict(k, preconditionFailed("ResourceVersion", *p.ResourceVersion, old.GetResourceVersion()))
		}
	}
	switch {
	case dry:
	case len(old.GetFinalizers()) == 0:
		st.remove(old)
	case old.GetDeletionTimestamp() == nil:
		obj := copyOf(old)
		obj.SetDeletionTimestamp(ptr.To(s.now()))
		obj.SetDeletionGracePeriodSeconds(ptr.To[int64](0))
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		st.put(obj)
	}
	return nil
}

// put stores obj, which becomes the store's, under the next revision. The caller
// holds the server's lock.
func (st *store[T]) put(obj T) {
	k := keyOf(obj)
	old, exists := st.objects[k]
	rev := st.server.nextRevision()
	obj.SetResourceVersion(formatRevision(rev))
	st.objects[k] = obj
	c := change[T]{revision: rev, kind: watch.Modified, object: obj, previous: old}
	if !exists {
		c.kind = watch.Added
		st.sorted = nil
	}
	st.record(c)
}

// remove deletes old under the next revision; the event carries old as it was last
// stored, with the revision of its deletion. The caller holds the server's lock.
func (st *store[T]) remove(old T) {
	k := keyOf(old)
	rev := st.server.nextRevision()
	delete(st.objects, k)
	st.sorted = nil
	last := copyOf(old)
	last.SetResourceVersion(formatRevision(rev))
	st.record(change[T]{revision: rev, kind: watch.Deleted, object: last, previous: old})
}

// keys returns the keys in order. The caller holds the server's lock, and must not
// change the slice.
func (st *store[T]) keys() []key {
	if st.sorted == nil {
		st.sorted = make([]key, 0, len(st.objects))
		for k := range st.objects {
			st.sorted = append(st.sorted, k)
		}
		slices.SortFunc(st.sorted, compareKeys)
	}
	return st.sorted
}

func (st *store[T]) notFound(k key) error {
	return apierrors.NewNotFound(st.kind.groupResource(), k.name)
}

func (st *store[T]) conflict(k key, why error) error {
	return apierrors.NewConflict(st.kind.groupResource(), k.name, why)
}

func (st *store[T]) invalid(name string, errs field.ErrorList) error {
	return apierrors.NewInvalid(st.kind.groupKind(), name, errs)
}

func (st *store[T]) nameMismatch(name string, k key) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, k.name))
}

func preconditionFailed(what, want, have string) error {
	return fmt.Errorf("precondition failed: %s in precondition: %s, %s in object meta: %s", what, want, what, have)
}

// dryRun reads the DryRun option of a write.
func dryRun(opt []string) (bool, error) {
	for _, o := range opt {
		if o != metav1.DryRunAll {
			return false, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("Options").GroupKind(), "", field.ErrorList{
				field.NotSupported(field.NewPath("dryRun"), o, []string{metav1.DryRunAll}),
			})
		}
	}
	return len(opt) > 0, nil
}

// preconditionUID is for DeleteCollection: it deletes what it listed, nothing else.
func preconditionUID(opts metav1.DeleteOptions, uid types.UID) metav1.DeleteOptions {
	p := metav1.Preconditions{UID: &uid}
	if opts.Preconditions != nil {
		p.ResourceVersion = opts.Preconditions.ResourceVersion
		if opts.Preconditions.UID != nil {
			p.UID = opts.Preconditions.UID
		}
	}
	opts.Preconditions = &p
	return opts
}
