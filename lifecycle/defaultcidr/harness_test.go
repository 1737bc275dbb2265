// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Two ranges of each family.
const (
	v4, other4 = "10.96.0.0/16", "10.0.0.0/16"
	v6, other6 = "fd00::/108", "fd01::/108"
)

type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// inBubble is what rapid.Check gets in a bubble, where a test has no deadline.
type inBubble struct{ rapid.TB }

// quiet is a context without a log.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []event
}

type event struct {
	uid          types.UID
	reason, note string
}

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref := regarding.(*corev1.ObjectReference)
	if ref.Kind != "ServiceCIDR" || ref.APIVersion != "networking.k8s.io/v1" || ref.Name == "" || kind != corev1.EventTypeWarning || action == "" {
		panic(fmt.Sprintf("event %s %s about %+v", kind, action, ref))
	}
	r.events = append(r.events, event{ref.UID, reason, fmt.Sprintf(note, args...)})
}

// all are the events so far.
func (r *recorder) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *recorder) reasons() []string {
	var out []string
	for _, e := range r.all() {
		out = append(out, e.reason)
	}
	return out
}

// controller is one of a replica named "r".
func controller(t failer, server *simapi.Server, rec *recorder, ranges ...string) *Controller {
	t.Helper()
	return replica(t, server, "r", rec, ranges...)
}

func replica(t failer, server *simapi.Server, name string, rec *recorder, ranges ...string) *Controller {
	t.Helper()
	config := Config{Client: server.Client(name), Ranges: ranges}
	if rec != nil {
		config.Recorder = rec
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// put stores the default ServiceCIDR with the spelling given, whatever it is.
func put(server *simapi.Server, cidrs ...string) {
	server.PutRaw(&networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: DefaultName, Finalizers: []string{informer.Finalizer}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	})
}

// terminate deletes the default ServiceCIDR; its finalizer keeps it.
func terminate(t failer, server *simapi.Server) {
	t.Helper()
	if err := server.Client("admin").ServiceCIDRs().Delete(context.Background(), DefaultName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// stored is the one ServiceCIDR that there is, nil if there is none.
func stored(t failer, server *simapi.Server) *networkingv1.ServiceCIDR {
	t.Helper()
	switch all := server.TrueServiceCIDRs(); len(all) {
	case 0:
		return nil
	case 1:
		return &all[0]
	default:
		t.Fatalf("%d ServiceCIDRs", len(all))
		return nil
	}
}

func ranges(t failer, server *simapi.Server) string {
	t.Helper()
	obj := stored(t, server)
	if obj == nil {
		return "none"
	}
	return strings.Join(obj.Spec.CIDRs, ",")
}

func calls(server *simapi.Server, name, verb string) int {
	return server.Calls(name)[simapi.Op{Verb: verb, Resource: "servicecidrs"}]
}

// find is one look that must succeed.
func find(t failer, c *Controller, want Kind) Finding {
	t.Helper()
	f, err := c.Sync(quiet())
	if err != nil {
		t.Fatal(err)
	}
	if f.Kind != want {
		t.Fatalf("found %v, want %v", f, want)
	}
	return f
}
