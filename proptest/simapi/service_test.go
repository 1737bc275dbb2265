// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/proptest/simapi"
)

func service(name string, clusterIPs ...string) *corev1.Service {
	obj := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if len(clusterIPs) > 0 {
		obj.Spec.ClusterIP, obj.Spec.ClusterIPs = clusterIPs[0], clusterIPs
	}
	return obj
}

func mustCreateService(t *testing.T, client corev1client.ServiceInterface, obj *corev1.Service) *corev1.Service {
	t.Helper()
	return must(client.Create(t.Context(), obj, metav1.CreateOptions{}))(t)
}

func serviceNames(items []corev1.Service) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Namespace+"/"+i.Name)
	}
	return out
}

func TestService_StoresTheAddressesAsGiven(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Services("default")
	none := mustCreateService(t, client, service("none"))
	if none.Spec.ClusterIP != "" || none.Spec.ClusterIPs != nil {
		t.Errorf("addresses %q %q were made up", none.Spec.ClusterIP, none.Spec.ClusterIPs)
	}
	if none.UID == "" || none.ResourceVersion == "" || none.Namespace != "default" || none.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("created %+v lacks what the server fills in", none)
	}

	old := service("old")
	old.Spec.ClusterIP = "10.0.0.1" // a client that knows only the singular
	got := mustCreateService(t, client, old)
	if diff := cmp.Diff([]string{"10.0.0.1"}, got.Spec.ClusterIPs); diff != "" {
		t.Errorf("clusterIPs (-want +got):\n%s", diff)
	}
}

func TestService_CreateValidation(t *testing.T) {
	spec := func(mutate func(*corev1.ServiceSpec), clusterIPs ...string) *corev1.Service {
		obj := service("web", clusterIPs...)
		mutate(&obj.Spec)
		return obj
	}
	families := func(f ...corev1.IPFamily) func(*corev1.ServiceSpec) {
		return func(spec *corev1.ServiceSpec) { spec.IPFamilies = f }
	}
	external := func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	}
	cases := map[string]struct {
		obj  *corev1.Service
		want check
	}{
		"no address":              {service("web"), isOK},
		"headless":                {service("web", "None"), isOK},
		"dual-stack":              {service("web", "10.0.0.1", "2001:db8::1"), isOK},
		"dots in the name":        {service("web.a"), isInvalid},
		"digit first in the name": {service("1web"), isInvalid},
		"no name":                 {service(""), isInvalid},
		"no such type":            {spec(func(s *corev1.ServiceSpec) { s.Type = "Other" }), isInvalid},
		"not an address":          {service("web", "x"), isInvalid},
		"leading zero":            {service("web", "010.0.0.1"), isInvalid},
		"one family twice":        {service("web", "10.0.0.1", "10.0.0.2"), isInvalid},
		"three":                   {service("web", "10.0.0.1", "2001:db8::1", "10.0.0.2"), isInvalid},
		"None and another":        {service("web", "None", "10.0.0.1"), isInvalid},
		"out of step":             {spec(func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.2" }, "10.0.0.1"), isInvalid},
		"plural alone":            {spec(func(s *corev1.ServiceSpec) { s.ClusterIP = "" }, "10.0.0.1"), isInvalid},
		"the other family":        {spec(families(corev1.IPv6Protocol), "10.0.0.1"), isInvalid},
		"its family":              {spec(families(corev1.IPv4Protocol), "10.0.0.1"), isOK},
		"ExternalName":            {spec(external), isOK},
		"ExternalName, address":   {spec(external, "10.0.0.1"), isInvalid},
		"ExternalName, no name":   {spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeExternalName }), isInvalid},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			_, err := s.Client("a").Services("default").Create(t.Context(), test.obj, metav1.CreateOptions{})
			expect(t, test.want, err)
			if stored := len(s.TrueServices()) == 1; stored != (err == nil) {
				t.Errorf("stored: %v, error: %v", stored, err)
			}
		})
	}
}

func TestService_ClusterIPMayNotChangeOnceSet(t *testing.T) {
	cases := map[string]struct {
		before []string
		mutate func(*corev1.ServiceSpec)
		want   check
		after  []string
	}{
		"set": {nil, func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.1" }, isOK, []string{"10.0.0.1"}},
		"change both": {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "10.0.0.2", []string{"10.0.0.2"}
		}, isInvalid, []string{"10.0.0.1"}},
		"change the singular":  {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.2" }, isInvalid, []string{"10.0.0.1"}},
		"change the plural":    {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIPs = []string{"10.0.0.2"} }, isInvalid, []string{"10.0.0.1"}},
		"leave out both":       {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "", nil }, isOK, []string{"10.0.0.1"}},
		"leave out the plural": {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIPs = nil }, isOK, []string{"10.0.0.1"}},
		"become headless":      {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }, isInvalid, []string{"10.0.0.1"}},
		"headless gets one":    {[]string{"None"}, func(s *corev1.ServiceSpec) { s.ClusterIP = "10.0.0.1" }, isInvalid, []string{"None"}},
		"add a second":         {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.ClusterIPs = append(s.ClusterIPs, "2001:db8::1") }, isOK, []string{"10.0.0.1", "2001:db8::1"}},
		"give up the second":   {[]string{"10.0.0.1", "2001:db8::1"}, func(s *corev1.ServiceSpec) { s.ClusterIPs = s.ClusterIPs[:1] }, isInvalid, []string{"10.0.0.1", "2001:db8::1"}},
		"become single-stack": {[]string{"10.0.0.1", "2001:db8::1"}, func(s *corev1.ServiceSpec) {
			s.ClusterIPs = s.ClusterIPs[:1]
			s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
		}, isOK, []string{"10.0.0.1"}},
		"swap": {[]string{"10.0.0.1", "2001:db8::1"}, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "2001:db8::1", []string{"2001:db8::1", "10.0.0.1"}
		}, isInvalid, []string{"10.0.0.1", "2001:db8::1"}},
		"become ExternalName":   {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" }, isOK, nil},
		"another type, same IP": {[]string{"10.0.0.1"}, func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }, isOK, []string{"10.0.0.1"}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			client := s.Client("a").Services("default")
			obj := mustCreateService(t, client, service("web", test.before...))
			test.mutate(&obj.Spec)
			_, err := client.Update(t.Context(), obj, metav1.UpdateOptions{})
			expect(t, test.want, err)
			got := s.TrueServices()[0].Spec
			if diff := cmp.Diff(test.after, got.ClusterIPs); diff != "" {
				t.Errorf("clusterIPs (-want +got):\n%s", diff)
			}
			if len(got.ClusterIPs) > 0 && got.ClusterIPs[0] != got.ClusterIP || len(got.ClusterIPs) == 0 && got.ClusterIP != "" {
				t.Errorf("clusterIP %q, clusterIPs %q: out of step", got.ClusterIP, got.ClusterIPs)
			}
		})
	}
}

func TestService_ExternalNameIsTheWayToAnotherAddress(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Services("default")
	first := service("web", "10.0.0.1")
	first.Spec.Type = corev1.ServiceTypeLoadBalancer
	first.Spec.Ports = []corev1.ServicePort{{Port: 80, NodePort: 30000}}
	first.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	first.Spec.HealthCheckNodePort = 30001
	first.Spec.LoadBalancerClass = ptr.To("example.com/lb")
	first.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	first.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	first = mustCreateService(t, client, first)
	first.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	first = must(client.UpdateStatus(t.Context(), first, metav1.UpdateOptions{}))(t)

	away := first.DeepCopy()
	away.Spec.Type, away.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	away = must(client.Update(t.Context(), away, metav1.UpdateOptions{}))(t)
	if spec := away.Spec; spec.ClusterIP != "" || spec.IPFamilies != nil || spec.IPFamilyPolicy != nil ||
		spec.Ports[0].NodePort != 0 || spec.HealthCheckNodePort != 0 || spec.ExternalTrafficPolicy != "" ||
		spec.LoadBalancerClass != nil || spec.AllocateLoadBalancerNodePorts != nil || len(away.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("an ExternalName keeps %+v, %+v", spec, away.Status)
	}
	// The writer gives anew all that went.
	away.Spec = *first.Spec.DeepCopy()
	away.Spec.ClusterIP, away.Spec.ClusterIPs = "10.9.0.1", nil
	back := must(client.Update(t.Context(), away, metav1.UpdateOptions{}))(t)
	want := first.DeepCopy()
	want.Spec.ClusterIP, want.Spec.ClusterIPs = "10.9.0.1", []string{"10.9.0.1"}
	if diff := cmp.Diff(want.Spec, back.Spec); diff != "" || back.UID != first.UID {
		t.Errorf("back as another (-want +got):\n%s", diff)
	}
}

func TestService_StatusSubresourceWritesStatusAndMetadata(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Services("default")
	obj := mustCreateService(t, client, service("web", "10.0.0.1"))

	obj.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	obj.Spec.ClusterIP = "10.0.0.2"
	obj.Labels = map[string]string{"a": "b"}
	got := must(client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if len(got.Status.Conditions) != 1 || got.Spec.ClusterIP != "10.0.0.1" || got.Labels["a"] != "b" {
		t.Errorf("UpdateStatus stored %+v", got)
	}
	got.Status.Conditions = nil
	got = must(client.Update(t.Context(), got, metav1.UpdateOptions{}))(t)
	if len(got.Status.Conditions) != 1 {
		t.Error("Update wrote the status")
	}
	obj.ResourceVersion = "1"
	_, err := client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{})
	expect(t, isConflict, err)
}

func TestService_Namespaces(t *testing.T) {
	s := newServer(t)
	c := s.Client("a")
	all := must(c.Services("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}))(t)
	defer all.Stop()
	one := must(c.Services("b").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}))(t)
	defer one.Stop()
	mustCreateService(t, c.Services("a"), service("web"))
	inB := mustCreateService(t, c.Services("b"), service("web"))

	same(t, []string{"ADDED web@2", "ADDED web@3"}, next(t, all, 2))
	same(t, []string{"ADDED web@3"}, next(t, one, 1))
	lists := map[string][]string{"": {"a/web", "b/web"}, "b": {"b/web"}, "c": nil}
	for namespace, want := range lists {
		list := must(c.Services(namespace).List(t.Context(), metav1.ListOptions{}))(t)
		if diff := cmp.Diff(want, serviceNames(list.Items)); diff != "" {
			t.Errorf("list of %q (-want +got):\n%s", namespace, diff)
		}
	}
	_, err := c.Services("c").Get(t.Context(), "web", metav1.GetOptions{})
	expect(t, isNotFound, err)
	_, err = c.Services("").Create(t.Context(), service("web"), metav1.CreateOptions{})
	expect(t, isNotSupported, err)
	inB.ResourceVersion, inB.UID = "", ""
	_, err = c.Services("c").Create(t.Context(), inB, metav1.CreateOptions{})
	expect(t, isBadRequest, err)
	_, err = c.Services("a").Update(t.Context(), inB, metav1.UpdateOptions{})
	expect(t, isBadRequest, err)
	expect(t, isOK, c.Services("b").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	if diff := cmp.Diff([]string{"a/web"}, serviceNames(s.TrueServices())); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func TestService_FieldSelectors(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Services("default")
	mustCreateService(t, client, service("addressed", "10.0.0.1"))
	mustCreateService(t, client, service("headless", "None"))
	for selector, want := range map[string][]string{
		"spec.clusterIP!=None":     {"default/addressed"},
		"spec.clusterIP=10.0.0.1":  {"default/addressed"},
		"spec.type!=ExternalName":  {"default/addressed", "default/headless"},
		"metadata.namespace=other": nil,
	} {
		list := must(client.List(t.Context(), metav1.ListOptions{FieldSelector: selector}))(t)
		if diff := cmp.Diff(want, serviceNames(list.Items)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", selector, diff)
		}
	}
}

func TestService_PreconditionsAndFinalizers(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Services("default")
	obj := service("web", "10.0.0.1")
	obj.Finalizers = []string{"example.com/hold"}
	obj = mustCreateService(t, client, obj)

	expect(t, isConflict, client.Delete(t.Context(), "web", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}))
	expect(t, isOK, client.Delete(t.Context(), "web", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.UID))}))
	held := must(client.Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if held.DeletionTimestamp == nil {
		t.Fatal("not marked as terminating")
	}
	_, err := client.Update(t.Context(), obj, metav1.UpdateOptions{})
	expect(t, isConflict, err)
	must(client.Patch(t.Context(), "web", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}))(t)
	if n := len(s.TrueServices()); n != 0 {
		t.Errorf("%d Services after the last finalizer", n)
	}
	// A writer that still knows the old one cannot bring it back.
	_, err = client.Update(t.Context(), held, metav1.UpdateOptions{})
	expect(t, isConflict, err)
}

func TestService_UpdateOfAnAbsentOneCreatesIt(t *testing.T) {
	s := newServer(t)
	got := must(s.Client("a").Services("default").Update(t.Context(), service("web", "10.0.0.1"), metav1.UpdateOptions{}))(t)
	if got.UID == "" || len(s.TrueServices()) != 1 {
		t.Errorf("updated to %+v", got)
	}
	// Through the status too; what is written is all but the status.
	other := service("other", "10.0.0.2")
	other.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	got = must(s.Client("a").Services("default").UpdateStatus(t.Context(), other, metav1.UpdateOptions{}))(t)
	if len(s.TrueServices()) != 2 || got.Spec.ClusterIP != "10.0.0.2" || got.Status.Conditions != nil {
		t.Errorf("updated to %+v", got)
	}
	// A writer that has seen the old one does not.
	other.Name, other.UID = "third", "seen"
	_, err := s.Client("a").Services("default").Update(t.Context(), other, metav1.UpdateOptions{})
	expect(t, isConflict, err)
}

func TestService_PutRawStoresWhatValidationRefuses(t *testing.T) {
	s := newServer(t)
	raw := service("web", "010.0.0.1")
	raw.Namespace = "default"
	s.PutRaw(raw)
	client := s.Client("a").Services("default")
	got := must(client.Get(t.Context(), "web", metav1.GetOptions{}))(t)
	got.Labels = map[string]string{"a": "b"}
	got = must(client.Update(t.Context(), got, metav1.UpdateOptions{}))(t) // a stored spelling may stay
	if got.Spec.ClusterIP != "010.0.0.1" || got.UID == "" {
		t.Errorf("stored %+v", got)
	}
}

func TestService_CallsAndFaultsNameTheResource(t *testing.T) {
	s := newServer(t)
	var seen []simapi.Call
	s.OnCall(func(c simapi.Call) {
		if c.Phase == simapi.Before {
			seen = append(seen, c)
		}
	})
	s.Fail(simapi.Fault{Resource: "services", Err: simapi.Unavailable()})
	_, err := s.Client("a").Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{})
	expect(t, check{"an error", func(err error) bool { return err != nil }}, err)
	want := []simapi.Call{{Replica: "a", Verb: "create", Resource: "services", Namespace: "default", Name: "web"}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if _, err := s.Client("a").Services("default").ProxyGet("", "web", "", "", nil).DoRaw(t.Context()); err == nil {
		t.Error("the proxy answered")
	}
}
