// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/metacidr/metacidr/examples/apiserver/internal/validation"
)

// Set is a scheme and what is made from it. Make one for each server.
type Set struct {
	Scheme         *runtime.Scheme
	Codecs         serializer.CodecFactory
	ParameterCodec runtime.ParameterCodec
}

// Versions are the served ones, as they are stored.
func Versions() []schema.GroupVersion {
	return []schema.GroupVersion{corev1.SchemeGroupVersion, networkingv1.SchemeGroupVersion, coordinationv1.SchemeGroupVersion}
}

// New makes the set. It panics if a type cannot be registered, which depends on no input.
func New() Set {
	s := runtime.NewScheme()
	register(s, corev1.SchemeGroupVersion, &corev1.Namespace{}, &corev1.NamespaceList{}, &corev1.Service{}, &corev1.ServiceList{},
		&corev1.Event{}, &corev1.EventList{})
	register(s, networkingv1.SchemeGroupVersion, &networkingv1.ServiceCIDR{}, &networkingv1.ServiceCIDRList{},
		&networkingv1.IPAddress{}, &networkingv1.IPAddressList{})
	register(s, coordinationv1.SchemeGroupVersion, &coordinationv1.Lease{}, &coordinationv1.LeaseList{})
	// The options of a call and the answers that belong to no group.
	v1 := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(s, v1)
	s.AddUnversionedTypes(v1, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	s.AddTypeDefaultingFunc(&corev1.Service{}, func(obj any) { validation.DefaultService(obj.(*corev1.Service)) })
	s.AddTypeDefaultingFunc(&corev1.ServiceList{}, func(obj any) {
		list := obj.(*corev1.ServiceList)
		for i := range list.Items {
			validation.DefaultService(&list.Items[i])
		}
	})
	selectable(s, corev1.SchemeGroupVersion.WithKind("Namespace"), "metadata.name", "status.phase")
	selectable(s, corev1.SchemeGroupVersion.WithKind("Service"), "metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type")
	selectable(s, corev1.SchemeGroupVersion.WithKind("Event"), "metadata.name", "metadata.namespace", "involvedObject.kind", "involvedObject.namespace",
		"involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
		"reportingComponent", "source", "type")
	selectable(s, networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"), "metadata.name")
	selectable(s, networkingv1.SchemeGroupVersion.WithKind("IPAddress"), "metadata.name", "spec.parentRef.name", "spec.parentRef.namespace", "spec.parentRef.resource")
	for _, gv := range Versions() {
		utilruntime.Must(s.SetVersionPriority(gv))
	}
	return Set{Scheme: s, Codecs: serializer.NewCodecFactory(s), ParameterCodec: runtime.NewParameterCodec(s)}
}

func register(s *runtime.Scheme, gv schema.GroupVersion, types ...runtime.Object) {
	s.AddKnownTypes(gv, types...)
	s.AddKnownTypes(schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}, types...)
	metav1.AddToGroupVersion(s, gv)
}

// selectable says which fields a field selector may name.
func selectable(s *runtime.Scheme, gvk schema.GroupVersionKind, fields ...string) {
	known := make(map[string]bool, len(fields))
	for _, f := range fields {
		known[f] = true
	}
	utilruntime.Must(s.AddFieldLabelConversionFunc(gvk, func(label, value string) (string, string, error) {
		if !known[label] {
			return "", "", fmt.Errorf("%q is not a known field selector: give one of %q", label, fields)
		}
		return label, value, nil
	}))
}
