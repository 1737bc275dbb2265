// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selector is the label and field selectors of a list or a watch.
type selector[T object] struct {
	labels     labels.Selector
	fields     fields.Selector
	selectable map[string]func(T) string // as in kind
}

func (s selector[T]) matches(obj T) bool {
	if !s.labels.Empty() && !s.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if s.fields.Empty() {
		return true
	}
	set := fields.Set{
		"metadata.name":      obj.GetName(),
		"metadata.namespace": obj.GetNamespace(),
	}
	for name, value := range s.selectable {
		set[name] = value(obj)
	}
	return s.fields.Matches(set)
}

// parseListOptions checks the options as a real server does, and reads the selectors.
func (k *kind[T]) parseListOptions(opts metav1.ListOptions) (selector[T], error) {
	var sel selector[T]
	var internal internalversion.ListOptions
	if err := internalversion.Convert_v1_ListOptions_To_internalversion_ListOptions(&opts, &internal, nil); err != nil {
		return sel, apierrors.NewBadRequest(err.Error())
	}
	if errs := internalvalidation.ValidateListOptions(&internal, true); len(errs) > 0 {
		return sel, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	sel = selector[T]{labels: internal.LabelSelector, fields: internal.FieldSelector, selectable: k.selectable}
	if sel.labels == nil {
		sel.labels = labels.Everything()
	}
	if sel.fields == nil {
		sel.fields = fields.Everything()
	}
	for _, r := range sel.fields.Requirements() {
		if r.Field != "metadata.name" && r.Field != "metadata.namespace" && k.selectable[r.Field] == nil {
			return sel, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
		}
	}
	return sel, nil
}

// page is a continue token: where the next page starts, at which revision. Revision 0
// is the present one: what is left of a list whose own revision is compacted.
type page struct {
	Revision  uint64 `json:"rv,omitempty"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"name"` // the last one of the page before
}

func (p page) token() string {
	b, _ := json.Marshal(p) // a struct of numbers and strings always marshals
	return base64.RawURLEncoding.EncodeToString(b)
}

func parsePage(token string) (page, error) {
	var p page
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		return p, apierrors.NewBadRequest("continue key is not valid: " + err.Error())
	}
	return p, nil
}

// list returns stored objects, not copies: the caller must copy what it hands out.
// An empty namespace means all.
func (st *store[T]) list(namespace string, opts metav1.ListOptions) ([]T, metav1.ListMeta, error) {
	opts.Watch = false
	sel, err := st.kind.parseListOptions(opts)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()

	asked, err := s.notOlderThan(opts.ResourceVersion)
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	at, start := s.revision, key{}
	switch {
	case opts.Continue != "":
		if asked != 0 {
			return nil, metav1.ListMeta{}, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		p, err := parsePage(opts.Continue)
		if err != nil {
			return nil, metav1.ListMeta{}, err
		}
		if p.Revision > s.revision {
			return nil, metav1.ListMeta{}, apierrors.NewBadRequest("continue key is not valid: it is from the future of this server")
		}
		start = key{p.Namespace, p.Name}
		if p.Revision != 0 {
			at = p.Revision
		}
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact,
		opts.ResourceVersionMatch == "" && opts.Limit > 0 && asked != 0:
		at = asked
	}
	if err := s.notCompacted(at); err != nil {
		if opts.Continue != "" {
			err.ErrStatus.ListMeta.Continue = page{Namespace: start.namespace, Name: start.name}.token()
		}
		return nil, metav1.ListMeta{}, err
	}

	limit := opts.Limit
	if opts.ResourceVersion == "0" {
		limit = 0 // served from a cache, which does not page
	}
	meta := metav1.ListMeta{ResourceVersion: formatRevision(at)}
	var items []T
	var left int64 // that match, beyond the limit
	for _, obj := range st.candidates(namespace, sel, at) {
		switch k := keyOf(obj); {
		case opts.Continue != "" && compareKeys(k, start) <= 0,
			namespace != "" && k.namespace != namespace,
			!sel.matches(obj):
		case limit > 0 && int64(len(items)) == limit:
			left++
		default:
			items = append(items, obj)
		}
	}
	if left > 0 {
		last := keyOf(items[len(items)-1])
		meta.Continue = page{Revision: at, Namespace: last.namespace, Name: last.name}.token()
		if sel.labels.Empty() && sel.fields.Empty() {
			meta.RemainingItemCount = &left // as a real server, which counts only without selectors
		}
	}
	return items, meta, nil
}

// candidates is all objects at a revision, or the one that the selector names.
func (st *store[T]) candidates(namespace string, sel selector[T], at uint64) []T {
	if name, ok := sel.fields.RequiresExactMatch("metadata.name"); ok && at == st.server.revision {
		if obj, exists := st.objects[key{namespace, name}]; exists {
			return []T{obj}
		}
		if namespace != "" {
			return nil
		}
	}
	return st.at(at)
}
