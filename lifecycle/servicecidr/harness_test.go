// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

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

// inBubble is what rapid.Check gets in a bubble, where a test has no deadline.
type inBubble struct{ rapid.TB }

// quiet is a context without a log.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// recorder keeps events as "type reason: note".
type recorder struct {
	mu     sync.Mutex // guards events
	events []string
}

func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, kind+" "+reason+": "+fmt.Sprintf(note, args...))
}

func (r *recorder) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// cluster is a server, and a controller whose Sync a test steps: its view runs,
// the controller does not. It lives in a bubble, where time passes only when the
// test sleeps.
type cluster struct {
	*Controller
	t      failer
	server *simapi.Server
	events *recorder
	stop   func()
}

func newCluster(t failer, server *simapi.Server, name string) *cluster {
	t.Helper()
	c := &cluster{t: t, server: server, events: &recorder{}}
	view, err := informer.NewView(informer.Config{Client: server.Client(name)})
	if err != nil {
		t.Fatal(err)
	}
	c.Controller, err = New(Config{Client: server.Client(name), View: view, Recorder: c.events})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := view.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	c.stop = func() { cancel(); <-done }
	<-view.Synced()
	synctest.Wait()
	return c
}

// in runs a test in a bubble with a server and a stepped controller "c".
func in(t *testing.T, test func(*testing.T, *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		c := newCluster(t, server, "c")
		defer c.stop()
		test(t, c)
	})
}

// step syncs once, on a view that is up to date.
func (c *cluster) step(name string) (after string) {
	c.t.Helper()
	synctest.Wait()
	d, err := c.Sync(quiet(), name)
	if err != nil {
		c.t.Fatalf("Sync(%s): %v", name, err)
	}
	synctest.Wait()
	return d.String()
}

// kept stores a ready ServiceCIDR with its finalizer.
func (c *cluster) kept(name string, cidrs ...string) {
	c.server.CreateServiceCIDR(name, metav1.ConditionTrue, cidrs...)
	c.server.AddFinalizer(name, informer.Finalizer)
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	if err := c.server.Client("admin").ServiceCIDRs().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// hold stores a managed IPAddress.
func (c *cluster) hold(addrs ...string) {
	c.t.Helper()
	for i, a := range addrs {
		c.put(a, informer.CoreManager, informer.ServiceOwner("default", fmt.Sprint("web", i)))
	}
}

func (c *cluster) put(addr, manager string, owner informer.Owner) {
	c.t.Helper()
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr},
		Spec:       networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}
	if manager != "" {
		obj.Labels = map[string]string{informer.LabelManagedBy: manager}
	}
	if _, err := c.server.Client("somebody").IPAddresses().Create(context.Background(), obj, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) free(addrs ...string) {
	c.t.Helper()
	for _, a := range addrs {
		if err := c.server.Client("somebody").IPAddresses().Delete(context.Background(), a, metav1.DeleteOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// get is the true ServiceCIDR, nil if it is gone.
func (c *cluster) get(name string) *networkingv1.ServiceCIDR {
	for _, obj := range c.server.TrueServiceCIDRs() {
		if obj.Name == name {
			return &obj
		}
	}
	return nil
}

// ready is the condition as "status reason: message", or "gone".
func (c *cluster) ready(name string) string {
	obj := c.get(name)
	if obj == nil {
		return "gone"
	}
	row := informer.NewServiceCIDR(obj)
	return fmt.Sprintf("%s %s: %s", row.ReadyStatus, row.ReadyReason, row.ReadyMessage)
}

func (c *cluster) wantReady(name, want string) {
	c.t.Helper()
	if got := c.ready(name); got != want {
		c.t.Fatalf("Ready of %s is\n%q, want\n%q", name, got, want)
	}
}

func (c *cluster) wantReadyPrefix(name, want string) {
	c.t.Helper()
	if got := c.ready(name); !strings.HasPrefix(got, want) {
		c.t.Fatalf("Ready of %s is\n%q, want it to begin with\n%q", name, got, want)
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
