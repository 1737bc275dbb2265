// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// testManager is the field manager of the writes in this file.
const testManager = "simapi"

// This file is the test's own access: no faults, no hooks, no counts. A mistake in
// its use is a mistake in the test, so it panics rather than return errors.

// TrueIPAddresses returns all stored IPAddresses by name.
func (s *Server) TrueIPAddresses() []networkingv1.IPAddress { return values(s.ipAddresses.all()) }

// TrueServiceCIDRs returns all stored ServiceCIDRs by name.
func (s *Server) TrueServiceCIDRs() []networkingv1.ServiceCIDR { return values(s.serviceCIDRs.all()) }

// TrueServices returns all stored Services by namespace and name.
func (s *Server) TrueServices() []corev1.Service { return values(s.services.all()) }

func (st *store[T]) all() []T {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	return st.at(st.server.revision)
}

// CreateServiceCIDR stores a ServiceCIDR, with the condition Ready in the given
// status, or with no condition if ready is "". It panics if the server would refuse
// the object.
func (s *Server) CreateServiceCIDR(name string, ready metav1.ConditionStatus, cidrs ...string) *networkingv1.ServiceCIDR {
	obj := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
	obj, err := s.serviceCIDRs.create("", obj, metav1.CreateOptions{FieldManager: testManager})
	if err != nil {
		panic(fmt.Sprintf("simapi: CreateServiceCIDR: %v", err))
	}
	if ready == "" {
		return obj
	}
	return s.SetReady(name, ready)
}

// SetReady sets the condition Ready of a ServiceCIDR, or removes it if status is "".
// It panics if there is no such ServiceCIDR.
func (s *Server) SetReady(name string, status metav1.ConditionStatus) *networkingv1.ServiceCIDR {
	return edit(s.serviceCIDRs, key{name: name}, statusSubresource, func(obj *networkingv1.ServiceCIDR) {
		if status == "" {
			apimeta.RemoveStatusCondition(&obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
			return
		}
		apimeta.SetStatusCondition(&obj.Status.Conditions, metav1.Condition{
			Type:               networkingv1.ServiceCIDRConditionReady,
			Status:             status,
			Reason:             "SetByTest",
			ObservedGeneration: obj.Generation,
			LastTransitionTime: s.now(),
		})
	})
}

// AddFinalizer adds a finalizer to a ServiceCIDR that lacks it. It panics if there is
// no such ServiceCIDR, or if it is terminating.
func (s *Server) AddFinalizer(name, finalizer string) *networkingv1.ServiceCIDR {
	return edit(s.serviceCIDRs, key{name: name}, "", func(obj *networkingv1.ServiceCIDR) {
		if !slices.Contains(obj.Finalizers, finalizer) {
			obj.Finalizers = append(obj.Finalizers, finalizer)
		}
	})
}

// RemoveFinalizer removes a finalizer from a ServiceCIDR; a terminating one goes with
// its last. It panics if there is no such ServiceCIDR.
func (s *Server) RemoveFinalizer(name, finalizer string) *networkingv1.ServiceCIDR {
	return edit(s.serviceCIDRs, key{name: name}, "", func(obj *networkingv1.ServiceCIDR) {
		obj.Finalizers = slices.DeleteFunc(obj.Finalizers, func(f string) bool { return f == finalizer })
	})
}

func edit[T object](st *store[T], k key, subresource string, mutate func(T)) T {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	obj, err := st.change(k, subresource, nil, func(old T) (T, error) {
		obj := copyOf(old)
		mutate(obj)
		return st.owners.update(old, obj, subresource, testManager)
	})
	if err != nil {
		panic(fmt.Sprintf("simapi: %v", err))
	}
	return obj
}

// PutRaw stores a copy of obj (an *IPAddress, a *ServiceCIDR or a *Service) as it is,
// without validation, over whatever has its name: objects that older servers let in.
// Only resourceVersion is the server's; UID and creationTimestamp are filled in if empty.
// It panics for any other type.
func (s *Server) PutRaw(obj runtime.Object) {
	switch obj := obj.(type) {
	case *networkingv1.IPAddress:
		s.ipAddresses.putRaw(obj)
	case *networkingv1.ServiceCIDR:
		s.serviceCIDRs.putRaw(obj)
	case *corev1.Service:
		s.services.putRaw(obj)
	default:
		panic(fmt.Sprintf("simapi: PutRaw: %T is not served: give an *IPAddress, a *ServiceCIDR or a *Service", obj))
	}
}

func (st *store[T]) putRaw(in T) {
	obj := copyOf(in)
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if obj.GetUID() == "" {
		obj.SetUID(s.nextUID())
	}
	if created := obj.GetCreationTimestamp(); created.IsZero() {
		obj.SetCreationTimestamp(s.now())
	}
	st.put(obj)
}
