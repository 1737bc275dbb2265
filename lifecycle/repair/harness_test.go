// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestMain(m *testing.M) {
	// client-go waits between two errors by the time of the last one, which may
	// have been in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// quiet is a context without a log.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

func service(name string) informer.Owner { return informer.ServiceOwner("default", name) }

func widget(name string) informer.Owner {
	return informer.Owner{Group: "example.com", Resource: "widgets", Name: name}
}

// widgets are owners of a resource of somebody's own, in memory.
type widgets struct {
	mu      sync.Mutex // guards what follows
	objects map[string]Claims
	now     func() time.Time
	serial  int
	listErr error
	getErr  error
}

func (w *widgets) Resource() schema.GroupResource {
	return schema.GroupResource{Group: "example.com", Resource: "widgets"}
}

func (w *widgets) List(context.Context) ([]Claims, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Claims
	for _, name := range slices.Sorted(maps.Keys(w.objects)) {
		out = append(out, w.objects[name])
	}
	return out, w.listErr
}

func (w *widgets) Get(_ context.Context, owner informer.Owner) (Claims, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.getErr != nil {
		return Claims{}, w.getErr
	}
	c, ok := w.objects[owner.Name]
	if !ok {
		return Claims{}, apierrors.NewNotFound(w.Resource(), owner.Name)
	}
	return c, nil
}

func (w *widgets) put(name string, addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.serial++
	uid := types.UID(fmt.Sprint("widget-", w.serial))
	w.objects[name] = Claims{Owner: widget(name), UID: uid, Created: w.now(), Addresses: addresses,
		Object: &corev1.ObjectReference{Kind: "Widget", Name: name, UID: uid}}
}

func (w *widgets) remove(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.objects, name)
}

// recorder keeps the events.
type recorder struct {
	mu     sync.Mutex // guards events
	events []string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, _, reason, _, note string, args ...any) {
	name := ""
	switch o := regarding.(type) {
	case metav1.Object:
		name = o.GetName()
	case *corev1.ObjectReference:
		name = o.Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, reason+" on "+name)
	if text := fmt.Sprintf(note, args...); strings.Contains(text, "%!") || text == "" {
		panic("event with a broken note: " + text)
	}
}

// take returns the events since the last call.
func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.events
	r.events = nil
	return out
}

// world is a cluster, and one controller over it that a test steps.
type world struct {
	t       failer
	server  *simapi.Server
	clock   *clocktesting.FakeClock
	widgets *widgets
	events  *recorder
	change  func(*Config)
	*Controller
}

// admin is whoever acts beside the controller.
func (w *world) admin() *simapi.Client { return w.server.Client("admin") }

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	w := &world{t: t, clock: fake, server: simapi.New(simapi.WithClock(fake)), events: &recorder{}, change: change}
	w.widgets = &widgets{objects: map[string]Claims{}, now: fake.Now}
	t.Cleanup(w.server.Close)
	w.server.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.0.0.0/16", "2001:db8::/64")
	w.restart()
	return w
}

// restart replaces the controller, which forgets all.
func (w *world) restart() {
	w.t.Helper()
	client := w.server.Client("r")
	config := Config{
		Client: client, Owners: []Registration{{Owners: Services(client)}, {Owners: w.widgets}},
		Clock: w.clock, Recorder: w.events,
	}
	if w.change != nil {
		w.change(&config)
	}
	c, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Controller = c
}

// pass makes one pass, which must succeed.
func (w *world) pass() Report {
	w.t.Helper()
	report, err := w.Sync(quiet())
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// service stores a Service that claims the addresses.
func (w *world) service(name string, addresses ...string) *corev1.Service {
	w.t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: addresses[0], ClusterIPs: addresses,
	}}
	svc, err := w.admin().Services("default").Create(context.Background(), svc, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return svc
}

func (w *world) deleteService(name string) {
	w.t.Helper()
	if err := w.admin().Services("default").Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// object is an IPAddress as an allocator makes it.
func object(addr string, owner informer.Owner) *networkingv1.IPAddress {
	manager := informer.DefaultManager
	if owner.IsService() {
		manager = informer.CoreManager
	}
	a, _, _ := cidr.ParseAddrLenient(addr)
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr, Labels: map[string]string{
			informer.LabelManagedBy: manager, informer.LabelIPFamily: cidr.FamilyOf(a).String(),
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}
}

func labelled(obj *networkingv1.IPAddress, key, value string) *networkingv1.IPAddress {
	obj.Labels[key] = value
	return obj
}

func (w *world) create(obj *networkingv1.IPAddress) *networkingv1.IPAddress {
	w.t.Helper()
	obj, err := w.admin().IPAddresses().Create(context.Background(), obj, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

func (w *world) allocate(addr string, owner informer.Owner) *networkingv1.IPAddress {
	w.t.Helper()
	return w.create(object(addr, owner))
}

func (w *world) remove(addr string) {
	w.t.Helper()
	if err := w.admin().IPAddresses().Delete(context.Background(), addr, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// stored is who has each address.
func (w *world) stored() map[string]string {
	out := map[string]string{}
	for _, o := range w.server.TrueIPAddresses() {
		out[o.Name] = informer.OwnerOf(o.Spec.ParentRef).Name
	}
	return out
}

func (w *world) uid(addr string) types.UID {
	for _, o := range w.server.TrueIPAddresses() {
		if o.Name == addr {
			return o.UID
		}
	}
	return ""
}

// brief is the findings of a report as "kind name owner outcome", sorted.
func brief(r Report) []string {
	var out []string
	for _, f := range r.Findings {
		out = append(out, fmt.Sprintf("%s %s %s %s", f.Kind, f.Name, f.Owner.Name, f.Outcome))
	}
	slices.Sort(out)
	return out
}

func want[T any](t failer, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// hold is the map of holders as a test writes it: "10.0.0.1=a".
func hold(pairs ...string) map[string]string {
	out := map[string]string{}
	for _, p := range pairs {
		addr, owner, _ := strings.Cut(p, "=")
		out[addr] = owner
	}
	return out
}

// once runs act at the first call that matches.
func (w *world) once(phase simapi.Phase, verb, resource string, act func()) {
	done := false
	w.server.OnCall(func(c simapi.Call) {
		if !done && c.Replica == "r" && c.Phase == phase && c.Verb == verb && c.Resource == resource {
			done = true
			act()
		}
	})
}

// guard fails the test when a delete of the controllers takes an IPAddress from
// an owner that claims it at that moment (I1, I8).
func guard(t failer, server *simapi.Server, owners *widgets, isController func(replica string) bool) {
	var rightful map[types.UID]string
	server.OnCall(func(c simapi.Call) {
		if c.Verb != "delete" || c.Resource != "ipaddresses" || !isController(c.Replica) {
			return
		}
		if c.Phase == simapi.Before {
			return
		}
		for uid, what := range rightful {
			if !slices.ContainsFunc(server.TrueIPAddresses(), func(o networkingv1.IPAddress) bool { return o.UID == uid }) {
				t.Errorf("I8: %s deleted IPAddress %s, which is claimed", c.Replica, what)
			}
		}
	})
	// Taken last before the call is applied, after all other hooks of that phase.
	server.OnCall(func(c simapi.Call) {
		if c.Verb != "delete" || c.Resource != "ipaddresses" || !isController(c.Replica) || c.Phase != simapi.Before {
			return
		}
		rightful = map[types.UID]string{}
		claimed := claimedBy(server, owners)
		for _, o := range server.TrueIPAddresses() {
			if owner := informer.OwnerOf(o.Spec.ParentRef); slices.Contains(claimed[o.Name], owner) {
				rightful[o.UID] = o.Name + " of " + owner.String()
			}
		}
	})
}

// claimedBy is who claims each address in truth.
func claimedBy(server *simapi.Server, owners *widgets) map[string][]informer.Owner {
	out := map[string][]informer.Owner{}
	add := func(c Claims) {
		for _, a := range c.Addresses {
			out[a] = append(out[a], c.Owner)
		}
	}
	for _, s := range server.TrueServices() {
		add(claimsOf(&s))
	}
	owners.mu.Lock()
	defer owners.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(owners.objects)) {
		add(owners.objects[name])
	}
	return out
}

// checkOneToOne compares the IPAddresses with the claims of the owners.
func checkOneToOne(t failer, server *simapi.Server, owners *widgets) {
	t.Helper()
	claimed := map[string]string{}
	for addr, by := range claimedBy(server, owners) {
		for _, owner := range by {
			claimed[addr] += owner.String()
		}
	}
	have := map[string]string{}
	for _, o := range server.TrueIPAddresses() {
		owner := informer.OwnerOf(o.Spec.ParentRef)
		have[o.Name] = owner.String()
		if model := object(o.Name, owner); !maps.Equal(o.Labels, model.Labels) {
			t.Errorf("I9: IPAddress %s has labels %v, want %v", o.Name, o.Labels, model.Labels)
		}
	}
	if !maps.Equal(claimed, have) {
		t.Errorf("I9: not one to one:\nclaimed %v\n   have %v", claimed, have)
	}
}
