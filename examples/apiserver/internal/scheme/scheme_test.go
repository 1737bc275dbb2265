// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What is decoded is the v1 type, with its defaults, and it is encoded again as v1.
func TestCodecs_RoundTripThroughTheInternalVersion(t *testing.T) {
	s := New()
	codec := s.Codecs.LegacyCodec(Versions()...)
	raw, err := runtime.Encode(codec, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := runtime.Decode(s.Codecs.UniversalDecoder(), raw)
	if err != nil {
		t.Fatal(err)
	}
	svc, ok := out.(*corev1.Service)
	if !ok || svc.Spec.Type != corev1.ServiceTypeClusterIP || svc.Spec.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Fatalf("decoded %T %+v", out, out)
	}
	again, err := runtime.Encode(codec, svc)
	if err != nil {
		t.Fatal(err)
	}
	second, err := runtime.Decode(s.Codecs.UniversalDecoder(), again)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
}

func TestSelectable(t *testing.T) {
	s := New().Scheme
	gvk := corev1.SchemeGroupVersion.WithKind("Service")
	if _, _, err := s.ConvertFieldLabel(gvk, "spec.clusterIP", "None"); err != nil {
		t.Error(err)
	}
	if _, _, err := s.ConvertFieldLabel(gvk, "spec.ports", "80"); err == nil {
		t.Error("a selector by ports is taken")
	}
}
