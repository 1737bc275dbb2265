// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/examples/apiserver/internal/allocation"
	"github.com/metacidr/metacidr/informer"
)

// port80 is enough of a Service.
func port80(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

// gateway is an IPAddress of an owner that is no Service.
func gateway(name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.IPAddressSpec{
		ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Namespace: "default", Name: "g"},
	}}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// reason fails the test if err is of another one.
func reason(t *testing.T, what string, err error, want metav1.StatusReason) {
	t.Helper()
	if got := apierrors.ReasonForError(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

// What clients do with the served kinds. They share a server: each has names of its own.
func TestServe(t *testing.T) {
	o := testOptions(t)
	o.ServiceClusterIPRange, o.GracePeriod = "10.96.0.0/16,fd00:10:96::/112", 100*time.Millisecond
	r := startReplica(t, o)
	for name, test := range map[string]func(*testing.T, *replica){
		"Services":                    testServices,
		"ServiceCIDRs":                testServiceCIDRs,
		"IPAddresses":                 testIPAddresses,
		"Namespaces":                  testNamespaces,
		"Leases and Events":           testLeasesAndEvents,
		"watch":                       testWatch,
		"server-side apply":           testApply,
		"kubectl's apply":             testThreeWayPatch,
		"tables":                      testTables,
		"dry run":                     testDryRun,
		"status":                      testStatus,
		"finalizers":                  testFinalizers,
		"generated names":             testGeneratedNames,
		"deletion of many":            testDeleteCollection,
		"optimistic locking":          testOptimisticLocking,
		"pages, labels, field values": testLists,
		"discovery and OpenAPI":       testDiscovery,
		"metrics and health":          testMetrics,
	} {
		t.Run(name, func(t *testing.T) { test(t, r) })
	}
	faultless(t, r)
}

// faultless waits until Services and IPAddresses are one to one.
func faultless(t *testing.T, r *replica) {
	t.Helper()
	eventually(t, "one to one", func(ctx context.Context) error { return oneToOne(ctx, r, "") })
}

func testServices(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	svc := must[*corev1.Service](t)(services.Create(t.Context(), port80("web"), metav1.CreateOptions{}))
	if svc.Spec.ClusterIP == "" || !slices.Equal(svc.Spec.ClusterIPs, []string{svc.Spec.ClusterIP}) || svc.Spec.Type != corev1.ServiceTypeClusterIP ||
		svc.Spec.SessionAffinity != corev1.ServiceAffinityNone || *svc.Spec.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster ||
		*svc.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack || svc.Spec.Ports[0].TargetPort.IntVal != 80 || svc.Spec.Ports[0].Protocol != corev1.ProtocolTCP {
		t.Errorf("defaults: %+v", svc.Spec)
	}
	address := must[*networkingv1.IPAddress](t)(r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{}))
	if diff := cmp.Diff(&networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "web"}, address.Spec.ParentRef); diff != "" {
		t.Errorf("the IPAddress's parent, -want +got:\n%s", diff)
	}
	if got := address.Labels[networkingv1.LabelManagedBy]; got != informer.CoreManager {
		t.Errorf("the IPAddress is managed by %q", got)
	}

	_, err := services.Create(t.Context(), port80("web"), metav1.CreateOptions{})
	reason(t, "create again", err, metav1.StatusReasonAlreadyExists)
	twin := port80("twin")
	twin.Spec.ClusterIP = svc.Spec.ClusterIP
	_, err = services.Create(t.Context(), twin, metav1.CreateOptions{})
	reason(t, "create at a taken address", err, metav1.StatusReasonInvalid)
	twin.Spec.ClusterIP = "10.97.0.1"
	_, err = services.Create(t.Context(), twin, metav1.CreateOptions{})
	reason(t, "create out of range", err, metav1.StatusReasonInvalid)
	_, err = services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, metav1.CreateOptions{})
	reason(t, "create without ports", err, metav1.StatusReasonInvalid)
	_, err = r.client.CoreV1().Services("nowhere").Create(t.Context(), port80("web"), metav1.CreateOptions{})
	reason(t, "create in a namespace that is not there", err, metav1.StatusReasonNotFound)

	// Fields that a client leaves out on update stay.
	bare := port80("web")
	bare.Spec.Selector = map[string]string{"app": "web"}
	updated := must[*corev1.Service](t)(services.Update(t.Context(), bare, metav1.UpdateOptions{}))
	if updated.Spec.ClusterIP != svc.Spec.ClusterIP || updated.Spec.Selector["app"] != "web" {
		t.Errorf("after an update: %+v", updated.Spec)
	}
	moved := updated.DeepCopy()
	moved.Spec.ClusterIP, moved.Spec.ClusterIPs = "10.96.200.200", []string{"10.96.200.200"}
	_, err = services.Update(t.Context(), moved, metav1.UpdateOptions{})
	reason(t, "change the address", err, metav1.StatusReasonInvalid)

	// To dual-stack, to ExternalName, and back.
	dual := updated.DeepCopy()
	dual.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	dual = must[*corev1.Service](t)(services.Update(t.Context(), dual, metav1.UpdateOptions{}))
	if len(dual.Spec.ClusterIPs) != 2 || dual.Spec.ClusterIPs[0] != svc.Spec.ClusterIP || !strings.HasPrefix(dual.Spec.ClusterIPs[1], "fd00:10:96::") {
		t.Errorf("dual-stack: %v", dual.Spec.ClusterIPs)
	}
	external := dual.DeepCopy()
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "web.example"}
	external = must[*corev1.Service](t)(services.Update(t.Context(), external, metav1.UpdateOptions{}))
	if len(external.Spec.ClusterIPs) > 0 || len(external.Spec.IPFamilies) > 0 {
		t.Errorf("ExternalName: %+v", external.Spec)
	}
	for _, gone := range dual.Spec.ClusterIPs {
		_, err := r.client.NetworkingV1().IPAddresses().Get(t.Context(), gone, metav1.GetOptions{})
		reason(t, "the IPAddress of what is an ExternalName", err, metav1.StatusReasonNotFound)
	}
	back := external.DeepCopy()
	back.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: svc.Spec.ClusterIP, Ports: []corev1.ServicePort{{Port: 80}}}
	back = must[*corev1.Service](t)(services.Update(t.Context(), back, metav1.UpdateOptions{}))
	if !slices.Equal(back.Spec.ClusterIPs, []string{svc.Spec.ClusterIP}) {
		t.Errorf("it asked for %s back, and has %v", svc.Spec.ClusterIP, back.Spec.ClusterIPs)
	}

	nodePort := port80("node-port")
	nodePort.Spec.Type = corev1.ServiceTypeNodePort
	nodePort = must[*corev1.Service](t)(services.Create(t.Context(), nodePort, metav1.CreateOptions{}))
	number := nodePort.Spec.Ports[0].NodePort
	if number < allocation.FirstPort || number > allocation.LastPort {
		t.Errorf("node port %d", number)
	}
	again := port80("node-port-again")
	again.Spec.Type, again.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, number
	_, err = services.Create(t.Context(), again, metav1.CreateOptions{})
	reason(t, "a node port that is taken", err, metav1.StatusReasonInvalid)

	headless := port80("headless")
	headless.Spec.ClusterIP, headless.Spec.Selector = corev1.ClusterIPNone, map[string]string{"app": "web"}
	headless = must[*corev1.Service](t)(services.Create(t.Context(), headless, metav1.CreateOptions{}))
	if !slices.Equal(headless.Spec.ClusterIPs, []string{corev1.ClusterIPNone}) || len(headless.Spec.IPFamilies) != 1 {
		t.Errorf("headless: %+v", headless.Spec)
	}
	for _, name := range []string{"web", "node-port", "headless"} {
		if err := services.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	_, err = services.Get(t.Context(), "web", metav1.GetOptions{})
	reason(t, "get what was deleted", err, metav1.StatusReasonNotFound)
	_, err = r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{})
	reason(t, "the IPAddress of what was deleted", err, metav1.StatusReasonNotFound)
	// Its port is free again.
	must[*corev1.Service](t)(services.Create(t.Context(), again, metav1.CreateOptions{}))
}

func testServiceCIDRs(t *testing.T, r *replica) {
	cidrs := r.client.NetworkingV1().ServiceCIDRs()
	obj := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.98.0.0/24"}}}
	obj.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse, Reason: "X", LastTransitionTime: metav1.Now()}}
	created := must[*networkingv1.ServiceCIDR](t)(cidrs.Create(t.Context(), obj, metav1.CreateOptions{}))
	if !slices.Equal(created.Finalizers, []string{informer.Finalizer}) || len(created.Status.Conditions) > 0 {
		t.Errorf("created with finalizers %v, conditions %v; want the finalizer, and no condition", created.Finalizers, created.Status.Conditions)
	}
	r.ready(t, "more")

	change := must[*networkingv1.ServiceCIDR](t)(cidrs.Get(t.Context(), "more", metav1.GetOptions{}))
	change.Spec.CIDRs = []string{"10.98.0.0/23"}
	_, err := cidrs.Update(t.Context(), change, metav1.UpdateOptions{})
	reason(t, "another range", err, metav1.StatusReasonInvalid)
	// From single to dual goes; the controller may write at the same time.
	eventually(t, "to dual-stack", func(ctx context.Context) error {
		change, err := cidrs.Get(ctx, "more", metav1.GetOptions{})
		if err != nil {
			return err
		}
		change.Spec.CIDRs = []string{"10.98.0.0/24", "fd00:98::/112"}
		_, err = cidrs.Update(ctx, change, metav1.UpdateOptions{})
		return err
	})
	for _, bad := range [][]string{nil, {"10.98.0.1/24"}, {"10.98.0.0"}, {"10.98.0.0/24", "10.99.0.0/24"}, {"FD00::/112"}} {
		obj := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: bad}}
		_, err := cidrs.Create(t.Context(), obj, metav1.CreateOptions{})
		reason(t, fmt.Sprint(bad), err, metav1.StatusReasonInvalid)
	}

	// An address keeps it.
	svc := port80("in-more")
	svc.Spec.ClusterIP = "10.98.0.77"
	eventually(t, "a Service in it", func(ctx context.Context) error {
		_, err := r.client.CoreV1().Services("default").Create(ctx, svc, metav1.CreateOptions{})
		return err
	})
	if err := cidrs.Delete(t.Context(), "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is blocked, and says by what", func(ctx context.Context) error {
		obj, err := cidrs.Get(ctx, "more", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range obj.Status.Conditions {
			if c.Type == networkingv1.ServiceCIDRConditionReady && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "10.98.0.77") {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", obj.Status.Conditions)
	})
	if err := r.client.CoreV1().Services("default").Delete(t.Context(), "in-more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is gone", func(ctx context.Context) error {
		_, err := cidrs.Get(ctx, "more", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

func testIPAddresses(t *testing.T, r *replica) {
	addresses := r.client.NetworkingV1().IPAddresses()
	obj := must[*networkingv1.IPAddress](t)(addresses.Create(t.Context(), gateway("10.96.9.9"), metav1.CreateOptions{}))
	for _, bad := range []string{"10.96.9.09", "::ffff:10.96.9.8", "fd00:0::1", "gateway", "fe80::1%eth0"} {
		_, err := addresses.Create(t.Context(), gateway(bad), metav1.CreateOptions{})
		reason(t, bad, err, metav1.StatusReasonInvalid)
	}
	orphan := gateway("10.96.9.10")
	orphan.Spec.ParentRef = nil
	_, err := addresses.Create(t.Context(), orphan, metav1.CreateOptions{})
	reason(t, "no parent", err, metav1.StatusReasonInvalid)
	obj.Spec.ParentRef.Name = "h"
	_, err = addresses.Update(t.Context(), obj, metav1.UpdateOptions{})
	reason(t, "another parent", err, metav1.StatusReasonInvalid)

	// It is taken, whoever made it.
	svc := port80("ip-taken")
	svc.Spec.ClusterIP = "10.96.9.9"
	_, err = r.client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{})
	reason(t, "a Service at it", err, metav1.StatusReasonInvalid)
	other := types.UID("another")
	err = addresses.Delete(t.Context(), "10.96.9.9", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	reason(t, "delete another one of that name", err, metav1.StatusReasonConflict)
	if err := addresses.Delete(t.Context(), "10.96.9.9", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &obj.UID}}); err != nil {
		t.Error(err)
	}
}

func testNamespaces(t *testing.T, r *replica) {
	namespaces := r.client.CoreV1().Namespaces()
	ns := must[*corev1.Namespace](t)(namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}))
	if ns.Status.Phase != corev1.NamespaceActive || ns.Labels[corev1.LabelMetadataName] != "shop" {
		t.Errorf("%+v", ns)
	}
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "No_Name"}}, metav1.CreateOptions{})
	reason(t, "a bad name", err, metav1.StatusReasonInvalid)
	svc := must[*corev1.Service](t)(r.client.CoreV1().Services("shop").Create(t.Context(), port80("web"), metav1.CreateOptions{}))
	if err := namespaces.Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = namespaces.Get(t.Context(), "shop", metav1.GetOptions{})
	reason(t, "the namespace", err, metav1.StatusReasonNotFound)
	_, err = r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{})
	reason(t, "the address of a Service in it", err, metav1.StatusReasonNotFound)
}

func testLeasesAndEvents(t *testing.T, r *replica) {
	leases := r.client.CoordinationV1().Leases("default")
	lease := must[*coordinationv1.Lease](t)(leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")}}, metav1.CreateOptions{}))
	stale := lease.DeepCopy()
	lease.Spec.HolderIdentity = ptr.To("b")
	must[*coordinationv1.Lease](t)(leases.Update(t.Context(), lease, metav1.UpdateOptions{}))
	_, err := leases.Update(t.Context(), stale, metav1.UpdateOptions{})
	reason(t, "an update of what was changed", err, metav1.StatusReasonConflict)

	events := r.client.CoreV1().Events("default")
	for _, name := range []string{"web", "api"} {
		must[*corev1.Event](t)(events.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Name: name + ".1"}, Reason: "Tested", Type: corev1.EventTypeNormal,
			InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: name},
		}, metav1.CreateOptions{}))
	}
	// As kubectl describe asks.
	list := must[*corev1.EventList](t)(events.List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=web,involvedObject.namespace=default,reason=Tested"}))
	if len(list.Items) != 1 || list.Items[0].Name != "web.1" {
		t.Errorf("%+v", list.Items)
	}
}

func testWatch(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	w := must[watch.Interface](t)(services.Watch(t.Context(), metav1.ListOptions{LabelSelector: "watched=yes", TimeoutSeconds: ptr.To[int64](60)}))
	defer w.Stop()
	next := func(want watch.EventType) *corev1.Service {
		t.Helper()
		e, ok := <-w.ResultChan()
		if !ok || e.Type != want {
			t.Fatalf("got %v %v, want %s", ok, e, want)
		}
		return e.Object.(*corev1.Service)
	}
	svc := port80("watched")
	svc.Labels = map[string]string{"watched": "yes"}
	svc = must[*corev1.Service](t)(services.Create(t.Context(), svc, metav1.CreateOptions{}))
	if got := next(watch.Added); got.ResourceVersion != svc.ResourceVersion || got.Spec.ClusterIP != svc.Spec.ClusterIP {
		t.Errorf("added %+v", got)
	}
	svc.Annotations = map[string]string{"a": "b"}
	must[*corev1.Service](t)(services.Update(t.Context(), svc, metav1.UpdateOptions{}))
	next(watch.Modified)
	// What no longer matches is gone for the one who watches.
	must[*corev1.Service](t)(services.Patch(t.Context(), "watched", types.MergePatchType, []byte(`{"metadata":{"labels":{"watched":"no"}}}`), metav1.PatchOptions{}))
	next(watch.Deleted)
	must[*corev1.Service](t)(services.Patch(t.Context(), "watched", types.JSONPatchType, []byte(`[{"op":"replace","path":"/metadata/labels/watched","value":"yes"}]`), metav1.PatchOptions{}))
	next(watch.Added)
	if err := services.Delete(t.Context(), "watched", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next(watch.Deleted)
}

// Two managers own their fields; a port is one by its number and protocol.
func testApply(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	apply := func(manager, body string, force bool) (*corev1.Service, error) {
		return services.Patch(t.Context(), "applied", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: manager, Force: &force})
	}
	head := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"applied"},`
	one := head + `"spec":{"selector":{"app":"one"},"ports":[{"name":"web","port":80,"protocol":"TCP"}]}}`
	svc := must[*corev1.Service](t)(apply("one", one, false))
	if svc.Spec.ClusterIP == "" {
		t.Error("it has no address")
	}
	svc = must[*corev1.Service](t)(apply("two", head+`"spec":{"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}}`, false))
	if len(svc.Spec.Ports) != 2 {
		t.Errorf("ports %v, want those of both managers", svc.Spec.Ports)
	}
	_, err := apply("two", head+`"spec":{"selector":{"app":"two"},"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}}`, false)
	reason(t, "another's field", err, metav1.StatusReasonConflict)
	if status, ok := errors.AsType[*apierrors.StatusError](err); !ok || len(status.ErrStatus.Details.Causes) != 1 || status.ErrStatus.Details.Causes[0].Field != ".spec.selector" {
		t.Errorf("the conflict: %v", err)
	}
	// The same again changes nothing.
	again := must[*corev1.Service](t)(apply("one", one, false))
	if again.ResourceVersion != svc.ResourceVersion {
		t.Errorf("resourceVersion %s after an apply of what was applied, want %s", again.ResourceVersion, svc.ResourceVersion)
	}
	// What one no longer applies goes; what two applied stays.
	svc = must[*corev1.Service](t)(apply("one", head+`"spec":{"selector":{"app":"one"}}}`, false))
	if len(svc.Spec.Ports) != 1 || svc.Spec.Ports[0].Port != 53 {
		t.Errorf("ports %v, want those of two", svc.Spec.Ports)
	}
	svc = must[*corev1.Service](t)(apply("two", head+`"spec":{"selector":{"app":"two"},"ports":[{"name":"dns","port":53,"protocol":"UDP"}]}}`, true))
	if svc.Spec.Selector["app"] != "two" {
		t.Errorf("by force: %v", svc.Spec.Selector)
	}
	// Nobody comes to own what the server has set.
	for _, m := range svc.ManagedFields {
		if strings.Contains(m.FieldsV1.GetRawString(), "clusterIP") {
			t.Errorf("%s owns the address: %s", m.Manager, m.FieldsV1.GetRawString())
		}
	}
}

// kubectl apply computes a patch of what it applied last, what it applies now, and what is there.
func testThreeWayPatch(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	first := port80("three-way")
	first.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	first.Spec.Selector = map[string]string{"app": "web", "tier": "front"}
	created := must[*corev1.Service](t)(services.Create(t.Context(), first, metav1.CreateOptions{}))
	patch := func(last, next *corev1.Service) []byte {
		raw := func(obj any) []byte { return must[[]byte](t)(json.Marshal(obj)) }
		meta := must[strategicpatch.PatchMetaFromStruct](t)(strategicpatch.NewPatchMetaFromStruct(corev1.Service{}))
		live := must[*corev1.Service](t)(services.Get(t.Context(), "three-way", metav1.GetOptions{}))
		return must[[]byte](t)(strategicpatch.CreateThreeWayMergePatch(raw(last), raw(next), raw(live), meta, true))
	}
	next := first.DeepCopy()
	next.Spec.Selector = map[string]string{"app": "web"}
	next.Spec.Ports = append(next.Spec.Ports, corev1.ServicePort{Name: "tls", Port: 443})
	next.Spec.Ports[0].Name = "web"
	patched := must[*corev1.Service](t)(services.Patch(t.Context(), "three-way", types.StrategicMergePatchType, patch(first, next), metav1.PatchOptions{}))
	if patched.Spec.ClusterIP != created.Spec.ClusterIP || len(patched.Spec.Selector) != 1 || len(patched.Spec.Ports) != 2 {
		t.Errorf("%+v", patched.Spec)
	}
	again := must[*corev1.Service](t)(services.Patch(t.Context(), "three-way", types.StrategicMergePatchType, patch(next, next), metav1.PatchOptions{}))
	if again.ResourceVersion != patched.ResourceVersion {
		t.Errorf("the same once more changed it")
	}
}

func testTables(t *testing.T, r *replica) {
	must[*corev1.Service](t)(r.client.CoreV1().Services("default").Create(t.Context(), port80("in-table"), metav1.CreateOptions{}))
	for path, want := range map[string]string{
		"/api/v1/namespaces/default/services/in-table":                                  "Name Type Cluster-IP External-IP Port(s) Age Selector",
		"/api/v1/namespaces":                                                            "Name Status Age",
		"/apis/networking.k8s.io/v1/servicecidrs":                                       "Name CIDRs Age",
		"/apis/networking.k8s.io/v1/ipaddresses":                                        "Name ParentRef Age",
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?includeObject=None": "Name Created At",
	} {
		raw := must[[]byte](t)(r.client.CoreV1().RESTClient().Get().RequestURI(path).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context()))
		var table metav1.Table
		if err := json.Unmarshal(raw, &table); err != nil {
			t.Fatal(err)
		}
		var columns []string
		for _, c := range table.ColumnDefinitions {
			columns = append(columns, c.Name)
		}
		if got := strings.Join(columns, " "); got != want || len(table.Rows) == 0 {
			t.Errorf("%s: %q with %d rows, want %q", path, got, len(table.Rows), want)
		}
	}
}

func testDryRun(t *testing.T, r *replica) {
	services, all := r.client.CoreV1().Services("default"), []string{metav1.DryRunAll}
	count := func() int {
		return len(must[*networkingv1.IPAddressList](t)(r.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})).Items)
	}
	kept := must[*corev1.Service](t)(services.Create(t.Context(), port80("dry"), metav1.CreateOptions{}))
	before := count()
	created := must[*corev1.Service](t)(services.Create(t.Context(), port80("dry-2"), metav1.CreateOptions{DryRun: all}))
	if created.Spec.ClusterIP == "" {
		t.Error("a dry run of a create shows no address")
	}
	external := kept.DeepCopy()
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "dry.example"}
	must[*corev1.Service](t)(services.Update(t.Context(), external, metav1.UpdateOptions{DryRun: all}))
	dual := kept.DeepCopy()
	dual.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	must[*corev1.Service](t)(services.Update(t.Context(), dual, metav1.UpdateOptions{DryRun: all}))
	if err := services.Delete(t.Context(), "dry", metav1.DeleteOptions{DryRun: all}); err != nil {
		t.Error(err)
	}
	taken := port80("dry-3")
	taken.Spec.ClusterIP = kept.Spec.ClusterIP
	_, err := services.Create(t.Context(), taken, metav1.CreateOptions{DryRun: all})
	reason(t, "a dry run at a taken address", err, metav1.StatusReasonInvalid)
	after := must[*corev1.Service](t)(services.Get(t.Context(), "dry", metav1.GetOptions{}))
	if after.ResourceVersion != kept.ResourceVersion || count() != before {
		t.Errorf("dry runs left resourceVersion %s of %s, %d addresses of %d", after.ResourceVersion, kept.ResourceVersion, count(), before)
	}
	if got := must[*networkingv1.IPAddress](t)(r.client.NetworkingV1().IPAddresses().Get(t.Context(), kept.Spec.ClusterIP, metav1.GetOptions{})); got.Spec.ParentRef.Name != "dry" {
		t.Errorf("the IPAddress is %+v's", got.Spec.ParentRef)
	}
}

// A status is written by its subresource only, and that writes nothing else.
func testStatus(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	svc := port80("status")
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	lb := corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}
	svc.Status.LoadBalancer = lb
	svc = must[*corev1.Service](t)(services.Create(t.Context(), svc, metav1.CreateOptions{}))
	if len(svc.Status.LoadBalancer.Ingress) > 0 {
		t.Error("a create has set the status")
	}
	svc.Status.LoadBalancer = lb
	svc.Spec.Selector = map[string]string{"a": "b"}
	svc = must[*corev1.Service](t)(services.UpdateStatus(t.Context(), svc, metav1.UpdateOptions{}))
	if len(svc.Status.LoadBalancer.Ingress) != 1 || len(svc.Spec.Selector) > 0 {
		t.Errorf("after an update of the status: %+v", svc)
	}
	svc.Status.LoadBalancer.Ingress = nil
	svc = must[*corev1.Service](t)(services.Update(t.Context(), svc, metav1.UpdateOptions{}))
	if len(svc.Status.LoadBalancer.Ingress) != 1 {
		t.Error("an update has changed the status")
	}

	cidrs := r.client.NetworkingV1().ServiceCIDRs()
	eventually(t, "the status of a ServiceCIDR", func(ctx context.Context) error {
		obj, err := cidrs.Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{Type: "Tested", Status: metav1.ConditionTrue, Reason: "Tested", LastTransitionTime: metav1.Now()})
		obj.Spec.CIDRs = []string{"10.96.0.0/30"}
		obj, err = cidrs.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
		if err == nil && (obj.Spec.CIDRs[0] != "10.96.0.0/16" || !slices.ContainsFunc(obj.Status.Conditions, func(c metav1.Condition) bool { return c.Type == "Tested" })) {
			t.Errorf("%+v", obj)
		}
		return err
	})
}

// A Service with a finalizer owns its address until it is gone.
func testFinalizers(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	svc := port80("final")
	svc.Finalizers = []string{"example.com/wait"}
	must[*corev1.Service](t)(services.Create(t.Context(), svc, metav1.CreateOptions{}))
	if err := services.Delete(t.Context(), "final", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	svc = must[*corev1.Service](t)(services.Get(t.Context(), "final", metav1.GetOptions{}))
	if svc.DeletionTimestamp == nil {
		t.Error("it has no deletionTimestamp")
	}
	must[*networkingv1.IPAddress](t)(r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{}))
	svc.Finalizers = nil
	must[*corev1.Service](t)(services.Update(t.Context(), svc, metav1.UpdateOptions{}))
	_, err := services.Get(t.Context(), "final", metav1.GetOptions{})
	reason(t, "the Service", err, metav1.StatusReasonNotFound)
	_, err = r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{})
	reason(t, "its IPAddress", err, metav1.StatusReasonNotFound)
}

func testGeneratedNames(t *testing.T, r *replica) {
	svc := port80("")
	svc.GenerateName = "generated-"
	svc = must[*corev1.Service](t)(r.client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}))
	address := must[*networkingv1.IPAddress](t)(r.client.NetworkingV1().IPAddresses().Get(t.Context(), svc.Spec.ClusterIP, metav1.GetOptions{}))
	if !strings.HasPrefix(svc.Name, "generated-") || address.Spec.ParentRef.Name != svc.Name {
		t.Errorf("Service %s, whose IPAddress names %s", svc.Name, address.Spec.ParentRef.Name)
	}
}

func testDeleteCollection(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	for i := range 5 {
		svc := port80(fmt.Sprintf("many-%d", i))
		svc.Labels = map[string]string{"many": "yes"}
		must[*corev1.Service](t)(services.Create(t.Context(), svc, metav1.CreateOptions{}))
	}
	// client-go has no method for it.
	err := r.client.CoreV1().RESTClient().Delete().Namespace("default").Resource("services").Param("labelSelector", "many=yes").Do(t.Context()).Error()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range must[*networkingv1.IPAddressList](t)(r.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})).Items {
		if strings.HasPrefix(a.Spec.ParentRef.Name, "many-") {
			t.Errorf("%s of %s is left", a.Name, a.Spec.ParentRef.Name)
		}
	}
}

func testOptimisticLocking(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	svc := must[*corev1.Service](t)(services.Create(t.Context(), port80("locked"), metav1.CreateOptions{}))
	stale := svc.DeepCopy()
	svc.Annotations = map[string]string{"a": "b"}
	must[*corev1.Service](t)(services.Update(t.Context(), svc, metav1.UpdateOptions{}))
	stale.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	_, err := services.Update(t.Context(), stale, metav1.UpdateOptions{})
	reason(t, "an update of what was changed", err, metav1.StatusReasonConflict)
	for _, a := range must[*networkingv1.IPAddressList](t)(r.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})).Items {
		if a.Spec.ParentRef.Name == "locked" && a.Name != svc.Spec.ClusterIP {
			t.Errorf("the refused update has left %s", a.Name)
		}
	}
}

func testLists(t *testing.T, r *replica) {
	services := r.client.CoreV1().Services("default")
	for i := range 5 {
		svc := port80(fmt.Sprintf("paged-%d", i))
		svc.Labels = map[string]string{"paged": "yes"}
		must[*corev1.Service](t)(services.Create(t.Context(), svc, metav1.CreateOptions{}))
	}
	var names []string
	opts := metav1.ListOptions{LabelSelector: labels.Set{"paged": "yes"}.String(), Limit: 2}
	for {
		page := must[*corev1.ServiceList](t)(services.List(t.Context(), opts))
		for i := range page.Items {
			names = append(names, page.Items[i].Name)
		}
		if page.Continue == "" {
			break
		}
		opts.Continue = page.Continue
	}
	if want := []string{"paged-0", "paged-1", "paged-2", "paged-3", "paged-4"}; !slices.Equal(names, want) {
		t.Errorf("pages: %v", names)
	}
	svc := must[*corev1.Service](t)(services.Get(t.Context(), "paged-3", metav1.GetOptions{}))
	found := must[*corev1.ServiceList](t)(services.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.clusterIP=" + svc.Spec.ClusterIP}))
	if len(found.Items) != 1 || found.Items[0].Name != "paged-3" {
		t.Errorf("by address: %v", found.Items)
	}
	of := must[*networkingv1.IPAddressList](t)(r.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.parentRef.name=paged-3"}))
	if len(of.Items) != 1 || of.Items[0].Name != svc.Spec.ClusterIP {
		t.Errorf("by owner: %v", of.Items)
	}
	_, err := services.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.color=red"})
	reason(t, "an unknown field", err, metav1.StatusReasonBadRequest)
}

func testDiscovery(t *testing.T, r *replica) {
	got := map[string]string{}
	_, lists, err := r.client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			got[list.GroupVersion+" "+resource.Name] = strings.Join(resource.ShortNames, ",")
		}
	}
	want := map[string]string{
		"v1 namespaces": "ns", "v1 services": "svc", "v1 services/status": "", "v1 events": "ev",
		"networking.k8s.io/v1 servicecidrs": "", "networking.k8s.io/v1 servicecidrs/status": "", "networking.k8s.io/v1 ipaddresses": "ip",
		"coordination.k8s.io/v1 leases": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources and short names, -want +got:\n%s", diff)
	}
	get := func(path, accept string) []byte {
		t.Helper()
		return must[[]byte](t)(r.client.Discovery().RESTClient().Get().RequestURI(path).SetHeader("Accept", accept).DoRaw(t.Context()))
	}
	var aggregated struct {
		Kind  string
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal(get("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"), &aggregated); err != nil || aggregated.Kind != "APIGroupDiscoveryList" || len(aggregated.Items) != 2 {
		t.Errorf("aggregated discovery: %v, %+v", err, aggregated)
	}
	var v2 struct{ Definitions map[string]json.RawMessage }
	if err := json.Unmarshal(get("/openapi/v2", "application/json"), &v2); err != nil || v2.Definitions["io.k8s.api.core.v1.Service"] == nil || v2.Definitions["io.k8s.api.networking.v1.ServiceCIDR"] == nil {
		t.Errorf("/openapi/v2: %v, %v", err, slices.Sorted(maps.Keys(v2.Definitions)))
	}
	for _, path := range []string{"/openapi/v3/api/v1", "/openapi/v3/apis/networking.k8s.io/v1", "/openapi/v3/apis/coordination.k8s.io/v1"} {
		var v3 struct{ Paths map[string]json.RawMessage }
		if err := json.Unmarshal(get(path, "application/json"), &v3); err != nil || len(v3.Paths) == 0 {
			t.Errorf("%s: %v, %d paths", path, err, len(v3.Paths))
		}
	}
	version, err := r.client.Discovery().ServerVersion()
	if err != nil || version.Major != "1" || version.Minor != "37" {
		t.Errorf("version %+v, %v", version, err)
	}
}

func testMetrics(t *testing.T, r *replica) {
	get := func(path string) string {
		t.Helper()
		return string(must[[]byte](t)(r.client.Discovery().RESTClient().Get().RequestURI(path).DoRaw(t.Context())))
	}
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if got := get(path); got != "ok" {
			t.Errorf("%s: %q", path, got)
		}
	}
	eventually(t, "the metrics of all that runs inside", func(context.Context) error {
		metrics := get("/metrics")
		for _, want := range []string{
			`kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.96.0.0/16"}`, "apiserver_request_total", "metacidr_default_service_cidr_", "metacidr_servicecidr_", "metacidr_repair_",
		} {
			if !strings.Contains(metrics, want) {
				return errors.New("no " + want)
			}
		}
		return nil
	})
	if verbose := get("/readyz?verbose"); !strings.Contains(verbose, "[+]allocator ok") || !strings.Contains(verbose, "[+]bootstrap ok") {
		t.Errorf("/readyz?verbose:\n%s", verbose)
	}
}
