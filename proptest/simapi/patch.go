// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"encoding/json"
	"errors"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// patch applies a patch to the stored object. A resourceVersion or a UID in it is a
// precondition. As on a real server, another UID is Invalid, not the Conflict that it
// is in an update.
func (st *store[T]) patch(k key, subresource string, pt types.PatchType, data []byte, opts metav1.PatchOptions) (T, error) {
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return st.change(k, subresource, opts.DryRun, func(old T) (T, error) {
		original, err := json.Marshal(old)
		if err != nil {
			return old, apierrors.NewInternalError(err)
		}
		patched, err := st.applyPatch(original, pt, data)
		if err != nil {
			return old, err
		}
		obj, err := st.decode(patched)
		if err != nil {
			return old, err
		}
		return st.owners.update(old, obj, subresource, opts.FieldManager)
	})
}

// apply is server-side apply. A UID or a resourceVersion in the configuration is a
// precondition, as in a patch; of an absent object only the UID is, and a Conflict.
func (st *store[T]) apply(k key, subresource string, data []byte, opts metav1.PatchOptions) (T, error) {
	if st.owners == nil {
		return st.kind.new(), apierrors.NewMethodNotSupported(st.kind.groupResource(), "apply")
	}
	config := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &config.Object); err != nil {
		return st.kind.new(), apierrors.NewBadRequest("the configuration does not decode: " + err.Error())
	}
	force := ptr.Deref(opts.Force, false)
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := st.objects[k]; exists || subresource != "" {
		return st.change(k, subresource, opts.DryRun, func(old T) (T, error) {
			return st.owners.apply(old, config, subresource, opts.FieldManager, force)
		})
	}
	obj, err := st.owners.apply(st.kind.new(), config, "", opts.FieldManager, force)
	if err != nil {
		return obj, err
	}
	if uid := obj.GetUID(); uid != "" {
		return obj, st.conflict(k, preconditionFailed("UID", string(uid), ""))
	}
	if obj.GetName() != k.name {
		return obj, st.nameMismatch(obj.GetName(), k)
	}
	return st.insert(k.namespace, obj, opts.DryRun)
}

func (st *store[T]) applyPatch(original []byte, pt types.PatchType, data []byte) ([]byte, error) {
	var patched []byte
	var err error
	switch pt {
	case types.MergePatchType:
		patched, err = jsonpatch.MergePatch(original, data)
	case types.StrategicMergePatchType:
		patched, err = strategicpatch.StrategicMergePatch(original, data, st.kind.new())
	case types.JSONPatchType:
		patched, err = jsonPatch(original, data)
	default:
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnsupportedMediaType,
			Reason:  metav1.StatusReasonUnsupportedMediaType,
			Message: "the body of the request was in an unknown format: " + string(pt),
		}}
	}
	if _, answered := errors.AsType[*apierrors.StatusError](err); err != nil && !answered {
		return nil, apierrors.NewBadRequest("the patch does not apply: " + err.Error())
	}
	return patched, err
}

// jsonPatch is RFC 6902. A step that does not fit the object (a test that fails) is
// 422, as a real server answers.
func jsonPatch(original, data []byte) ([]byte, error) {
	steps, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, err
	}
	patched, err := steps.Apply(original)
	if err != nil {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusUnprocessableEntity,
			Reason:  metav1.StatusReasonInvalid,
			Message: "the server rejected our request due to an error in our request: " + err.Error(),
		}}
	}
	return patched, nil
}
