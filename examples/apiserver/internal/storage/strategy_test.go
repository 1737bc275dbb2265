// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func TestStrategy_GoesByItsRules(t *testing.T) {
	s := strategy[*networkingv1.IPAddress]{rules: rules[*networkingv1.IPAddress]{
		resource:      networkingv1.SchemeGroupVersion.WithResource("ipaddresses"),
		resets:        []string{"status"},
		namespaced:    true,
		prepareCreate: func(obj *networkingv1.IPAddress) { obj.Labels = map[string]string{"made": "yes"} },
		prepareUpdate: func(obj, old *networkingv1.IPAddress) { obj.Labels = old.Labels },
		validateUpdate: func(obj, old *networkingv1.IPAddress) field.ErrorList {
			return field.ErrorList{field.Required(field.NewPath("x"), "")}
		},
	}}
	obj, old := &networkingv1.IPAddress{}, &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"old": "yes"}}}
	s.PrepareForCreate(t.Context(), obj)
	if obj.Labels["made"] != "yes" || len(s.Validate(t.Context(), obj)) != 0 || !s.NamespaceScoped() || s.AllowCreateOnUpdate(t.Context()) {
		t.Errorf("%+v", obj)
	}
	s.PrepareForUpdate(t.Context(), obj, old)
	if obj.Labels["old"] != "yes" || len(s.ValidateUpdate(t.Context(), obj, old)) != 1 {
		t.Errorf("%+v", obj)
	}
	reset := s.GetResetFields()["networking.k8s.io/v1"]
	if reset == nil || !reset.Has(fieldpath.MakePathOrDie("status")) {
		t.Errorf("resets %v", reset)
	}
}

func TestRules_AttributesAreWhatSelectorsSee(t *testing.T) {
	r := rules[*networkingv1.ServiceCIDR]{resource: networkingv1.SchemeGroupVersion.WithResource("servicecidrs")}
	labels, fields, err := r.attributes(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "c"}}})
	if err != nil || labels["b"] != "c" || fields["metadata.name"] != "a" || fields.Has("metadata.namespace") {
		t.Errorf("%v, %v, %v", labels, fields, err)
	}
	if _, _, err := r.attributes(&runtime.Unknown{}); err == nil {
		t.Error("another type is taken")
	}
}
