// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

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

var (
	service = informer.ServiceOwner("default", "mine")
	widget  = Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: "mine"}
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

// replica is a running MetaAllocator over a simulated API server. In a bubble
// (testing/synctest), time passes only when a test sleeps.
type replica struct {
	*MetaAllocator
	t      failer
	name   string
	server *simapi.Server
	stop   func()
}

// startReplica runs a replica and waits for its initial lists.
func startReplica(t failer, server *simapi.Server, name string, change func(*Config)) *replica {
	t.Helper()
	config := Config{Client: server.Client(name), Random: rand.NewPCG(1, 2), ReuseDelay: -1}
	if change != nil {
		change(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	r := &replica{MetaAllocator: m, t: t, name: name, server: server, stop: func() { cancel(); <-done }}
	if err := m.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return r
}

// withReplica runs a test in a bubble with a server and one replica.
func withReplica(t *testing.T, change func(*Config), setUp func(*simapi.Server), test func(*testing.T, *replica)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		if setUp != nil {
			setUp(server)
		}
		r := startReplica(t, server, "r", change)
		defer r.stop()
		synctest.Wait()
		test(t, r)
	})
}

// add stores a ready ServiceCIDR with its finalizer.
func add(server *simapi.Server, name string, cidrs ...string) {
	server.CreateServiceCIDR(name, metav1.ConditionTrue, cidrs...)
	server.AddFinalizer(name, informer.Finalizer)
}

// having is a set-up with ServiceCIDRs a, b, c...
func having(cidrs ...string) func(*simapi.Server) {
	return func(server *simapi.Server) {
		for i, c := range cidrs {
			add(server, string(rune('a'+i)), c)
		}
	}
}

// terminate deletes a ServiceCIDR; its finalizer keeps it.
func terminate(t failer, server *simapi.Server, name string) {
	t.Helper()
	if err := server.Client("admin").ServiceCIDRs().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// put stores an IPAddress as somebody else, with no label.
func put(t failer, server *simapi.Server, addr string) {
	t.Helper()
	if _, err := server.Client("somebody").IPAddresses().Create(context.Background(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr},
		Spec:       networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("default", "theirs").Reference()},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// next allocates one address of a family.
func (r *replica) next(f cidr.Family) (Allocation, error) {
	got, err := r.Allocate(quiet(), Request{Owner: widget, Families: []cidr.Family{f}})
	if err != nil {
		return Allocation{}, err
	}
	return got[0], nil
}

// at allocates one given address.
func (r *replica) at(addr string) (Allocation, error) {
	got, err := r.Allocate(quiet(), Request{Owner: widget, Addresses: []netip.Addr{netip.MustParseAddr(addr)}})
	if err != nil {
		return Allocation{}, err
	}
	return got[0], nil
}

func (r *replica) must(a Allocation, err error) Allocation {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// fill allocates until an error.
func (r *replica) fill(f cidr.Family) ([]Allocation, error) {
	var out []Allocation
	for {
		a, err := r.next(f)
		if err != nil {
			return out, err
		}
		out = append(out, a)
	}
}

func (r *replica) calls(verb, resource string) int {
	return r.server.Calls(r.name)[simapi.Op{Verb: verb, Resource: resource}]
}

func stored(server *simapi.Server) map[string]Owner {
	out := map[string]Owner{}
	for _, o := range server.TrueIPAddresses() {
		out[o.Name] = informer.OwnerOf(o.Spec.ParentRef)
	}
	return out
}

func (r *replica) row(serviceCIDR, prefix string) CIDRStatus {
	r.t.Helper()
	for _, s := range r.Status().CIDRs {
		if s.ServiceCIDR == serviceCIDR && fmt.Sprint(s.Prefix) == prefix {
			return s
		}
	}
	r.t.Fatalf("no status of %s %s in %+v", serviceCIDR, prefix, r.Status())
	return CIDRStatus{}
}
