// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package openapi

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// named is a type that has a name in OpenAPI.
type named interface{ OpenAPIModelName() string }

func definitions() map[string]common.OpenAPIDefinition {
	return GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef("#/definitions/" + path) })
}

func TestEachServedKindIsDefined(t *testing.T) {
	defs := definitions()
	for _, obj := range []named{
		corev1.Service{}, corev1.ServiceList{}, corev1.Namespace{}, corev1.NamespaceList{}, corev1.Event{}, corev1.EventList{},
		networkingv1.ServiceCIDR{}, networkingv1.ServiceCIDRList{}, networkingv1.IPAddress{}, networkingv1.IPAddressList{},
		coordinationv1.Lease{}, coordinationv1.LeaseList{},
		metav1.Table{}, metav1.Status{}, metav1.WatchEvent{}, metav1.DeleteOptions{}, metav1.PartialObjectMetadata{},
	} {
		if def, ok := defs[obj.OpenAPIModelName()]; !ok || def.Schema.Description == "" {
			t.Errorf("%T: defined %t, description %q", obj, ok, def.Schema.Description)
		}
	}
}

// A definition that refers to one that is not there would make the server refuse to start.
func TestNoDefinitionIsMissing(t *testing.T) {
	defs := definitions()
	for name, def := range defs {
		for _, needed := range def.Dependencies {
			if _, ok := defs[needed]; !ok {
				t.Errorf("%s needs %s", name, needed)
			}
		}
	}
}

// How server-side apply merges a list is said by its schema.
func TestListsMergeByKey(t *testing.T) {
	for _, tc := range []struct {
		of    named
		field string
		typ   string
		keys  []string
	}{
		{corev1.ServiceSpec{}, "ports", "map", []string{"port", "protocol"}},
		{corev1.ServiceSpec{}, "clusterIPs", "atomic", nil},
		{corev1.ServiceSpec{}, "ipFamilies", "atomic", nil},
		{corev1.ServiceSpec{}, "externalIPs", "atomic", nil},
		{corev1.ServiceStatus{}, "conditions", "map", []string{"type"}},
		{networkingv1.ServiceCIDRSpec{}, "cidrs", "atomic", nil},
		{networkingv1.ServiceCIDRStatus{}, "conditions", "map", []string{"type"}},
		{metav1.ObjectMeta{}, "finalizers", "set", nil},
		{metav1.ObjectMeta{}, "ownerReferences", "map", []string{"uid"}},
	} {
		t.Run(tc.of.OpenAPIModelName()+"."+tc.field, func(t *testing.T) {
			extensions := definitions()[tc.of.OpenAPIModelName()].Schema.Properties[tc.field].Extensions
			if got := extensions["x-kubernetes-list-type"]; got != tc.typ {
				t.Errorf("list type %v, want %v", got, tc.typ)
			}
			var keys []string
			if all, ok := extensions["x-kubernetes-list-map-keys"].([]any); ok {
				for _, k := range all {
					keys = append(keys, k.(string))
				}
			}
			slices.Sort(keys)
			if diff := cmp.Diff(tc.keys, keys); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
		})
	}
}
