// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A LoadBalancer that came after the plan was made waits for the flag, as one that the
// plan knows does.
func TestRunner_LoadBalancerThatThePlanDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, oldRange)
		c.populate(t, false)
		before := c.byKey()["web/balanced"]
		plan := c.plan(t, Request{Playbook: Replace, To: []string{newRange}})
		plan.Request.LoadBalancers = false
		journal := &memory{}
		c.next = []string{newRange}
		err := c.run(t, plan, journal, nil, 0)
		if !errors.Is(err, ErrPaused) || !strings.Contains(err.Error(), "web/balanced") {
			t.Errorf("want %v about web/balanced, got %v", ErrPaused, err)
		}
		if got := c.byKey()["web/balanced"]; got.ResourceVersion != before.ResourceVersion {
			t.Errorf("it was written: %v", got.Spec)
		}
		plan.Request.LoadBalancers = true
		if err := c.run(t, plan, journal, nil, 0); err != nil {
			t.Fatal(err)
		}
		c.allIn(t, newRange)
	})
}

// A Service that another client deletes on its way stays deleted, whoever deleted
// it before; only what a runner has deleted is made again.
func TestMove_DeletedByAnother(t *testing.T) {
	for _, strategy := range []Strategy{InPlace, Recreate} {
		for _, nth := range []int{1, 2} {
			t.Run(string(strategy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, oldRange)
					svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
					if _, err := c.create(t.Context(), c.admin, svc); err != nil {
						t.Fatal(err)
					}
					c.onUpdate = func(n int) {
						// The runner's update of Service kubernetes is another.
						if n != nth || c.byKey()["web/web"] == nil {
							return
						}
						if err := c.admin.Services("web").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
						c.collect()
					}
					journal := &memory{}
					c.next = []string{newRange}
					plan := c.plan(t, Request{Playbook: Replace, To: []string{newRange}, Strategy: strategy})
					if err := c.run(t, plan, journal, nil, 0); err != nil {
						t.Fatal(err)
					}
					status := ReadStatus(plan, journal.entries)
					if strategy == Recreate && nth == 2 {
						// One update only, which gives the fields back: nothing to delete before.
						if c.byKey()["web/web"] == nil || len(status.Left) > 0 {
							t.Errorf("left %v", status.Left)
						}
						return
					}
					if got := c.byKey()["web/web"]; got != nil || !strings.Contains(status.Left["web/web"], "deleted by another") {
						t.Errorf("it is %v; left %v", got, status.Left)
					}
				})
			})
		}
	}
}

// What a type may not have is not given back when another client has changed the type.
func TestUnparked_AnotherType(t *testing.T) {
	local := corev1.ServiceExternalTrafficPolicyLocal
	class := "example.com/lb"
	original := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: local, HealthCheckNodePort: 32000, LoadBalancerClass: &class,
		LoadBalancerSourceRanges: []string{"192.0.2.0/24"}, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}},
	}}
	for kind, want := range map[corev1.ServiceType]corev1.ServiceSpec{
		corev1.ServiceTypeClusterIP: {Ports: []corev1.ServicePort{{Port: 80}}},
		corev1.ServiceTypeNodePort:  {Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}, ExternalTrafficPolicy: local},
		corev1.ServiceTypeLoadBalancer: {Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}, ExternalTrafficPolicy: local,
			HealthCheckNodePort: 32000, LoadBalancerClass: &class, LoadBalancerSourceRanges: []string{"192.0.2.0/24"}},
	} {
		live := parked(original, "plan-1")
		live.Spec.Type, live.Spec.ExternalName = kind, ""
		got, told, err := unparked(live, original, "plan-1")
		if err != nil {
			t.Fatal(err)
		}
		want.Type = kind
		if d := SameService(got, &corev1.Service{Spec: want}, false, true); len(d) > 0 {
			t.Errorf("%s: %v", kind, d)
		}
		if (len(told) > 0) != (kind != original.Spec.Type) {
			t.Errorf("%s: told %v", kind, told)
		}
	}
}

// unparked(parked(x)) is x, whatever x is, and whatever another changes stays.
func TestUnparked_ThreeWays(t *testing.T) {
	original := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster, Selector: map[string]string{"app": "web"},
		SessionAffinity: corev1.ServiceAffinityNone,
		Ports:           []corev1.ServicePort{{Name: "a", Port: 80, Protocol: "TCP", NodePort: 30080}, {Name: "b", Port: 53, Protocol: "UDP", NodePort: 30053}},
	}}
	cluster := corev1.ServiceInternalTrafficPolicyCluster
	for name, c := range map[string]struct {
		theirs, want func(*corev1.ServiceSpec)
		told         bool
	}{
		"nothing":     {func(*corev1.ServiceSpec) {}, func(*corev1.ServiceSpec) {}, false},
		"selector":    {func(s *corev1.ServiceSpec) { s.Selector["app"] = "x" }, func(s *corev1.ServiceSpec) { s.Selector["app"] = "x" }, false},
		"affinity":    {func(s *corev1.ServiceSpec) { s.SessionAffinity = "ClientIP" }, func(s *corev1.ServiceSpec) { s.SessionAffinity = "ClientIP" }, false},
		"a port goes": {func(s *corev1.ServiceSpec) { s.Ports = s.Ports[:1] }, func(s *corev1.ServiceSpec) { s.Ports = s.Ports[:1] }, false},
		"a port comes": {func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, corev1.ServicePort{Name: "c", Port: 1}) },
			func(s *corev1.ServiceSpec) { s.Ports = append(s.Ports, corev1.ServicePort{Name: "c", Port: 1}) }, false},
		"a port changes its number": {func(s *corev1.ServiceSpec) { s.Ports[0].Port = 81 }, func(s *corev1.ServiceSpec) { s.Ports[0].Port, s.Ports[0].NodePort = 81, 0 }, false},
		"a port has a node port": {func(s *corev1.ServiceSpec) { s.Ports[1].NodePort = 30080 },
			func(s *corev1.ServiceSpec) { s.Ports[0].NodePort, s.Ports[1].NodePort = 0, 30080 }, false},
		"what parking takes": {func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &cluster }, func(s *corev1.ServiceSpec) { s.InternalTrafficPolicy = &cluster }, false},
		"external traffic": {func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal },
			func(s *corev1.ServiceSpec) { s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }, true},
	} {
		live := parked(original, "plan-1")
		c.theirs(&live.Spec)
		want := original.DeepCopy()
		c.want(&want.Spec)
		got, told, err := unparked(live, original, "plan-1")
		if err != nil {
			t.Fatal(err)
		}
		if d := SameService(got, want, false, true); len(d) > 0 {
			t.Errorf("%s: %v", name, d)
		}
		if (len(told) > 0) != c.told {
			t.Errorf("%s: told %v", name, told)
		}
	}
}

// Fields go back to whom they belonged, with what others did meanwhile, and without the runner.
func TestOwnership(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	original := []metav1.ManagedFieldsEntry{entry("helm", `{"f:spec":{"f:type":{},"f:selector":{}}}`)}
	live := []metav1.ManagedFieldsEntry{
		entry("helm", `{"f:spec":{"f:selector":{}}}`), entry(FieldManager, `{"f:spec":{"f:type":{}}}`), entry("kubectl", `{"f:metadata":{"f:labels":{}}}`),
	}
	owned := map[string]string{}
	for _, e := range ownership(live, original) {
		owned[e.Manager] = e.FieldsV1.GetRawString()
	}
	want := map[string]string{"helm": `{"f:spec":{"f:type":{},"f:selector":{}}}`, "kubectl": `{"f:metadata":{"f:labels":{}}}`}
	if !maps.Equal(owned, want) {
		t.Errorf("got %v, want %v", owned, want)
	}
	grown := ownership([]metav1.ManagedFieldsEntry{entry("helm", `{"f:spec":{"f:ports":{}}}`)}, original)
	for _, field := range []string{"f:type", "f:selector", "f:ports"} {
		if len(grown) != 1 || !strings.Contains(grown[0].FieldsV1.GetRawString(), field) {
			t.Errorf("%v lacks %s", grown, field)
		}
	}
}

// A node port that no Service has is waited for: the API server frees it in time. One that another Service has ends the
// run, and says which.
func TestMove_NodePortTaken(t *testing.T) {
	for name, says := range map[string]string{"freed": "", "never freed": "has not freed it", "another has it": "web/thief took it meanwhile: free it, and resume"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, oldRange)
				ports := []corev1.ServicePort{{Port: 80, NodePort: 30080}}
				if name == "another has it" {
					thief := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "thief"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports}}
					if _, err := c.create(t.Context(), c.admin, thief); err != nil {
						t.Fatal(err)
					}
				}
				r, err := NewRunner(Config{API: c, Plan: c.plan(t, Request{Playbook: Replace, To: []string{newRange}}), Journal: &memory{}})
				if err != nil {
					t.Fatal(err)
				}
				m := &move{r: r, step: 1, original: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"}, Spec: corev1.ServiceSpec{Ports: ports}}}
				taken := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "web",
					field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(0).Child("nodePort"), 30080, "provided port is already allocated")})
				for tries := 0; ; tries++ {
					if name == "freed" && tries == 20 {
						return
					}
					if err := m.awaitPort(t.Context(), taken); err != nil {
						if says == "" || !strings.Contains(err.Error(), says) {
							t.Errorf("after %d tries: %v", tries, err)
						}
						return
					}
				}
			})
		})
	}
}

// Another node port that another client chooses while a Service moves is its choice, and stays.
func TestMove_AnotherNodePortIsAnEdit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, oldRange)
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "web"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080}}}}
		if _, err := c.create(t.Context(), c.admin, svc); err != nil {
			t.Fatal(err)
		}
		edited := false
		c.onUpdate = func(n int) {
			live, err := c.admin.Services("web").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil || n < 3 || edited || isParked(live) {
				return
			}
			edited = true
			live.Spec.Ports[0].NodePort = 30099
			if _, err := c.update(t.Context(), c.admin, live); err != nil {
				t.Error(err)
			}
		}
		c.next = []string{newRange}
		if err := c.run(t, c.plan(t, Request{Playbook: Replace, To: []string{newRange}}), &memory{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		if got := c.byKey()["web/web"].Spec.Ports[0].NodePort; !edited || got != 30099 {
			t.Errorf("edited %v, node port %d", edited, got)
		}
	})
}
