// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1apply "k8s.io/client-go/applyconfigurations/networking/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metacidr/metacidr/proptest/simapi"
)

type config = networkingv1apply.ServiceCIDRApplyConfiguration

func cidrConfig(name string) *config { return networkingv1apply.ServiceCIDR(name) }

// condition is a configuration of the status with one condition.
func condition(name, conditionType string, status metav1.ConditionStatus) *config {
	return cidrConfig(name).WithStatus(networkingv1apply.ServiceCIDRStatus().WithConditions(metav1apply.Condition().
		WithType(conditionType).WithStatus(status).WithReason("Test").
		WithLastTransitionTime(metav1.NewTime(time.Unix(1000, 0)))))
}

func by(manager string) metav1.ApplyOptions { return metav1.ApplyOptions{FieldManager: manager} }

func forcedBy(manager string) metav1.ApplyOptions {
	return metav1.ApplyOptions{FieldManager: manager, Force: true}
}

// owners spells each entry of managedFields "manager operation subresource fields".
func owners(obj metav1.Object) []string {
	var out []string
	for _, e := range obj.GetManagedFields() {
		out = append(out, strings.Join([]string{e.Manager, string(e.Operation), e.Subresource, e.FieldsV1.String()}, " "))
	}
	return out
}

func expectOwners(t *testing.T, obj metav1.Object, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, owners(obj)); diff != "" {
		t.Errorf("managedFields (-want +got):\n%s", diff)
	}
}

func conditions(obj *networkingv1.ServiceCIDR) map[string]metav1.ConditionStatus {
	out := map[string]metav1.ConditionStatus{}
	for _, c := range obj.Status.Conditions {
		out[c.Type] = c.Status
	}
	return out
}

func expectConditions(t *testing.T, obj *networkingv1.ServiceCIDR, want map[string]metav1.ConditionStatus) {
	t.Helper()
	if diff := cmp.Diff(want, conditions(obj)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

const ready, other = networkingv1.ServiceCIDRConditionReady, "example.com/Other"

func TestApply_CreatesAnAbsentObject(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	conf := cidrConfig("x").WithFinalizers(finalizer).WithSpec(networkingv1apply.ServiceCIDRSpec().WithCIDRs("10.0.0.0/24"))
	got := must(client.Apply(t.Context(), conf, by("m")))(t)
	if got.UID == "" || got.Generation != 1 || got.Spec.CIDRs[0] != "10.0.0.0/24" || got.Kind != "" {
		t.Errorf("created %+v", got)
	}
	expectOwners(t, got, `m Apply  {"f:metadata":{"f:finalizers":{"v:\"`+finalizer+`\"":{}}},"f:spec":{"f:cidrs":{}}}`)

	_, err := client.Apply(t.Context(), cidrConfig("y").WithSpec(networkingv1apply.ServiceCIDRSpec().WithCIDRs("x")), by("m"))
	expect(t, isInvalid, err)
	_, err = client.Apply(t.Context(), cidrConfig("y").WithUID("gone"), by("m"))
	expect(t, isConflict, err)
}

func TestApply_StatusOfAnAbsentObjectIsNotFound(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	_, err := client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m"))
	expect(t, isNotFound, err)
	_, err = client.Patch(t.Context(), "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
	expect(t, isNotFound, err)
	if len(s.TrueServiceCIDRs()) != 0 {
		t.Error("it was created")
	}
}

func TestApply_OfNothingTakesNoRevision(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newServer(t, simapi.WithClock(clock))
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	first := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m")))(t)
	rev := s.Revision()

	clock.SetTime(clock.Now().Add(time.Hour))
	again := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m")))(t)
	if s.Revision() != rev {
		t.Errorf("revision %d after %d", s.Revision(), rev)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("answer (-first +again):\n%s", diff)
	}

	changed := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionFalse), by("m")))(t)
	if s.Revision() != rev+1 {
		t.Errorf("revision %d, want %d", s.Revision(), rev+1)
	}
	for _, e := range changed.ManagedFields {
		if e.Manager == "m" && !e.Time.Time.Equal(clock.Now()) {
			t.Errorf("entry of m at %v, want the server's time", e.Time)
		}
		if e.Manager != "m" && e.Time.Time.Equal(clock.Now()) {
			t.Errorf("the entry of %s was touched", e.Manager)
		}
	}
}

func TestApply_ConditionsMergeByType(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("core")))(t)
	got := must(client.ApplyStatus(t.Context(), condition("x", other, metav1.ConditionTrue), by("ours")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "True", other: "True"})

	got = must(client.ApplyStatus(t.Context(), condition("x", other, metav1.ConditionFalse), by("ours")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "True", other: "False"})

	// Whoever leaves out what he alone owns takes it away.
	got = must(client.ApplyStatus(t.Context(), cidrConfig("x"), by("ours")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "True"})
}

func TestApply_AnothersFieldIsAConflictUnlessForced(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("first")))(t)
	before := s.Revision()

	_, err := client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionFalse), by("second"))
	expect(t, isConflict, err)
	if !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("%v does not name the owner as the cause", err)
	}
	if s.Revision() != before {
		t.Error("a conflict changed something")
	}

	// The same value is shared.
	got := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("second")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "True"})

	got = must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionFalse), forcedBy("second")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "False"})
	_, err = client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("first"))
	expect(t, isConflict, err)
}

func TestApply_AnUpdateTakesFieldsOver(t *testing.T) {
	s := newServer(t)
	client := s.Client("b").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	obj := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m")))(t)
	obj.Status.Conditions[0].Status = metav1.ConditionFalse
	obj = must(client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}))(t) // as "b", the replica
	expectOwners(t, obj,
		`m Apply status {"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:reason":{},"f:type":{}}}}}`,
		`b Update status {"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{"f:status":{}}}}}`,
		`simapi Update  {"f:spec":{"f:cidrs":{}}}`)
	_, err := client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m"))
	expect(t, isConflict, err)
	must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), forcedBy("m")))(t)
}

func TestApply_SetReadyOwnsTheCondition(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
	_, err := client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionFalse), by("m"))
	expect(t, isConflict, err)
	got := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionFalse), forcedBy("m")))(t)
	expectConditions(t, got, map[string]metav1.ConditionStatus{ready: "False"})
}

func TestApply_SubresourcesStayApart(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	both := condition("x", ready, metav1.ConditionTrue).WithLabels(map[string]string{"a": "b"})
	got := must(client.ApplyStatus(t.Context(), both, by("m")))(t)
	if len(got.Labels) != 0 || len(got.Status.Conditions) != 1 || got.Generation != 1 {
		t.Errorf("ApplyStatus wrote labels %v, conditions %v", got.Labels, got.Status.Conditions)
	}
	both = condition("x", ready, metav1.ConditionFalse).WithLabels(map[string]string{"a": "b"})
	got = must(client.Apply(t.Context(), both, by("m")))(t)
	if got.Labels["a"] != "b" || got.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("Apply wrote labels %v, conditions %v", got.Labels, got.Status.Conditions)
	}
	expectOwners(t, got,
		`m Apply  {"f:metadata":{"f:labels":{"f:a":{}}}}`,
		`m Apply status {"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`,
		`simapi Update  {"f:spec":{"f:cidrs":{}}}`)
}

func TestApply_Preconditions(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	obj := s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	stale := obj.ResourceVersion
	obj = s.AddFinalizer("x", finalizer)
	cases := map[string]struct {
		pre  func(*config) *config
		want check
	}{
		"another UID":     {func(c *config) *config { return c.WithUID("other") }, isInvalid},
		"a stale version": {func(c *config) *config { return c.WithResourceVersion(stale) }, isConflict},
		"its UID":         {func(c *config) *config { return c.WithUID(obj.UID) }, isOK},
		"its version":     {func(c *config) *config { return c.WithResourceVersion(s.TrueServiceCIDRs()[0].ResourceVersion) }, isOK},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			before := s.Revision()
			_, err := client.ApplyStatus(t.Context(), test.pre(condition("x", ready, metav1.ConditionTrue)), forcedBy(name))
			expect(t, test.want, err)
			_, err2 := client.Apply(t.Context(), test.pre(cidrConfig("x").WithLabels(map[string]string{"a": "b"})), forcedBy(name))
			if err != nil || err2 != nil {
				expect(t, test.want, err2)
				if s.Revision() != before {
					t.Error("a failed precondition changed something")
				}
			}
		})
	}
}

func TestApply_Refusals(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	const head = `{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"x"}`
	managed := metav1.PatchOptions{FieldManager: "m"}
	cases := map[string]struct {
		pt   types.PatchType
		data string
		opts metav1.PatchOptions
		want check
	}{
		"well formed":        {types.ApplyYAMLPatchType, head + `}`, managed, isOK},
		"YAML":               {types.ApplyYAMLPatchType, "apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: x}\n", managed, isOK},
		"no manager":         {types.ApplyYAMLPatchType, head + `}`, metav1.PatchOptions{}, isInvalid},
		"not decodable":      {types.ApplyYAMLPatchType, `{`, managed, isBadRequest},
		"no kind":            {types.ApplyYAMLPatchType, `{"metadata":{"name":"x"}}`, managed, isBadRequest},
		"another name":       {types.ApplyYAMLPatchType, strings.Replace(head, `"x"`, `"y"`, 1) + `}`, managed, isBadRequest},
		"with managedFields": {types.ApplyYAMLPatchType, strings.Replace(head, `"x"`, `"x","managedFields":[{}]`, 1) + `}`, managed, isBadRequest},
		"unknown field":      {types.ApplyYAMLPatchType, head + `,"spec":{"cidr":"x"}}`, managed, check{"InternalError", apierrors.IsInternalError}},
		"immutable":          {types.ApplyYAMLPatchType, head + `,"spec":{"cidrs":["10.9.0.0/24"]}}`, metav1.PatchOptions{FieldManager: "m", Force: new(true)}, isInvalid},
		"forced merge patch": {types.MergePatchType, `{}`, metav1.PatchOptions{Force: new(true)}, isInvalid},
		"CBOR":               {types.ApplyCBORPatchType, `{}`, managed, isMediaType},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := client.Patch(t.Context(), "x", test.pt, []byte(test.data), test.opts)
			expect(t, test.want, err)
		})
	}
	if _, err := client.Apply(t.Context(), nil, by("m")); err == nil {
		t.Error("nil was applied")
	}
	if _, err := client.Apply(t.Context(), &config{}, by("m")); err == nil {
		t.Error("an object without a name was applied")
	}
}

func TestApply_ExtractReadsBackWhatOneApplied(t *testing.T) {
	s := newServer(t)
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	conf := condition("x", other, metav1.ConditionTrue)
	obj := must(s.Client("a").ServiceCIDRs().ApplyStatus(t.Context(), conf, by("m")))(t)
	got := must(networkingv1apply.ExtractServiceCIDRStatus(obj, "m"))(t)
	if diff := cmp.Diff(conf, got); diff != "" {
		t.Errorf("extracted (-applied +got):\n%s", diff)
	}
}

func TestApply_IsAPatchToHooksFaultsAndDryRun(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	before := s.Revision()
	dry := metav1.ApplyOptions{FieldManager: "m", DryRun: []string{metav1.DryRunAll}}
	got := must(client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), dry))(t)
	must(client.Apply(t.Context(), cidrConfig("y").WithSpec(networkingv1apply.ServiceCIDRSpec().WithCIDRs("10.1.0.0/24")), dry))(t)
	if len(got.Status.Conditions) != 1 || s.Revision() != before {
		t.Errorf("dry run answered %v and took %d revisions", got.Status, s.Revision()-before)
	}
	s.Fail(simapi.Fault{Verb: "patch", Resource: "servicecidrs/status", When: simapi.After, Err: simapi.ConnectionCut()})
	_, err := client.ApplyStatus(t.Context(), condition("x", ready, metav1.ConditionTrue), by("m"))
	expect(t, check{"a cut connection", func(err error) bool { return err != nil }}, err)
	expectConditions(t, &s.TrueServiceCIDRs()[0], map[string]metav1.ConditionStatus{ready: "True"})
}

func TestManagedFields_AreKeptOfEveryWriterAndCanBePutBack(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newServer(t, simapi.WithClock(clock))
	client := s.Client("a").Services("default")
	conf := corev1apply.Service("web", "default").WithSpec(corev1apply.ServiceSpec().
		WithClusterIP("10.0.0.1").
		WithPorts(corev1apply.ServicePort().WithName("http").WithPort(80)))
	first := must(client.Apply(t.Context(), conf, by("gitops")))(t)
	if p := first.Spec.Ports[0]; p.Protocol != corev1.ProtocolTCP || p.TargetPort.IntValue() != 80 {
		t.Errorf("port %+v lacks its defaults", p)
	}
	expectOwners(t, first, `gitops Apply  {"f:spec":{"f:clusterIP":{},"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{}}}}}`)

	// A writer that drops managedFields loses nobody's.
	bare := first.DeepCopy()
	bare.ManagedFields = nil
	bare.Labels = map[string]string{"a": "b"}
	bare = must(client.Update(t.Context(), bare, metav1.UpdateOptions{FieldManager: "other"}))(t)
	expectOwners(t, bare, owners(first)[0], `other Update  {"f:metadata":{"f:labels":{".":{},"f:a":{}}}}`)

	clock.SetTime(clock.Now().Add(time.Hour))
	// The way to another address takes fields over; managedFields in an update puts them back.
	away := bare.DeepCopy()
	away.Spec.Type, away.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	away = must(client.Update(t.Context(), away, metav1.UpdateOptions{FieldManager: "mover"}))(t)
	away.Spec.Type, away.Spec.ExternalName, away.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "", "10.9.0.1"
	back := must(client.Update(t.Context(), away, metav1.UpdateOptions{FieldManager: "mover"}))(t)
	_, err := client.Apply(t.Context(), conf, by("gitops"))
	expect(t, isConflict, err)
	back.ManagedFields = first.ManagedFields
	back = must(client.Update(t.Context(), back, metav1.UpdateOptions{FieldManager: "mover"}))(t)
	if diff := cmp.Diff(first.ManagedFields, back.ManagedFields); diff != "" { // times too
		t.Errorf("put back (-want +got):\n%s", diff)
	}
	conf.Spec.WithClusterIP("10.9.0.1")
	again := must(client.Apply(t.Context(), conf, by("gitops")))(t)
	if again.ResourceVersion != back.ResourceVersion {
		t.Error("the owner's next apply changed something")
	}
}

// TestManagedFields_OfARecreatedObject: what a create carries in managedFields is
// taken over by its creator; only an update afterwards puts it back.
func TestManagedFields_OfARecreatedObject(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newServer(t, simapi.WithClock(clock))
	client := s.Client("a").Services("default")
	conf := corev1apply.Service("web", "default").WithSpec(corev1apply.ServiceSpec().WithClusterIP("10.0.0.1"))
	first := must(client.Apply(t.Context(), conf, by("gitops")))(t)
	expect(t, isOK, client.Delete(t.Context(), "web", metav1.DeleteOptions{}))

	clock.SetTime(clock.Now().Add(time.Hour))
	again := first.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	again = must(client.Create(t.Context(), again, metav1.CreateOptions{FieldManager: "mover"}))(t)
	if e := again.ManagedFields; len(e) != 1 || e[0].Manager != "mover" || !e[0].Time.Time.Equal(clock.Now()) {
		t.Errorf("managedFields %v, want the creator alone", e)
	}
	again.ManagedFields = first.ManagedFields
	again = must(client.Update(t.Context(), again, metav1.UpdateOptions{FieldManager: "mover"}))(t)
	if diff := cmp.Diff(first.ManagedFields, again.ManagedFields); diff != "" { // times too
		t.Errorf("put back (-want +got):\n%s", diff)
	}
}

func TestManagedFields_OfIPAddressesAreNotKept(t *testing.T) {
	s := newServer(t)
	if obj := mustCreate(t, s.Client("a"), "10.0.0.1"); obj.ManagedFields != nil {
		t.Errorf("managedFields %v", obj.ManagedFields)
	}
	_, err := s.Client("a").IPAddresses().Apply(t.Context(), networkingv1apply.IPAddress("10.0.0.1"), by("m"))
	expect(t, isNotSupported, err)
}
