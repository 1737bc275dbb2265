// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Trim is a client-go TransformFunc that drops from ServiceCIDRs and
// IPAddresses what no part of metacidr reads: managedFields, labels and
// annotations of others, ownerReferences. Any other object passes unchanged.
// Set it on informers that are shared with the view, unless another consumer
// needs those fields.
func Trim(obj any) (any, error) {
	switch o := obj.(type) {
	case *networkingv1.IPAddress:
		return &networkingv1.IPAddress{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: o.Spec}, nil
	case *networkingv1.ServiceCIDR:
		return &networkingv1.ServiceCIDR{ObjectMeta: trimMeta(&o.ObjectMeta), Spec: o.Spec, Status: o.Status}, nil
	case cache.DeletedFinalStateUnknown:
		last, err := Trim(o.Obj)
		return cache.DeletedFinalStateUnknown{Key: o.Key, Obj: last}, err
	}
	return obj, nil
}

// compact is the transform of the view's own informers, whose stores nobody else
// reads: an IPAddress becomes the row that the view's table holds as well. It
// takes less than half the memory of a trimmed object.
func compact(obj any) (any, error) {
	switch o := obj.(type) {
	case *networkingv1.IPAddress:
		return newIPAddress(o), nil
	case cache.DeletedFinalStateUnknown:
		last, err := compact(o.Obj)
		return cache.DeletedFinalStateUnknown{Key: o.Key, Obj: last}, err
	}
	return Trim(obj)
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              m.Name,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		Generation:        m.Generation,
		CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp,
		Finalizers:        m.Finalizers,
		Labels:            pick(m.Labels, LabelManagedBy, LabelIPFamily),
		Annotations:       pick(m.Annotations, AnnotationNonce, AnnotationPriority),
	}
}

func pick(from map[string]string, keys ...string) map[string]string {
	var out map[string]string
	for _, k := range keys {
		if v, ok := from[k]; ok {
			if out == nil {
				out = make(map[string]string, len(keys))
			}
			out[k] = v
		}
	}
	return out
}
