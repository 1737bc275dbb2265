// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
)

// cut is what happens to a call.
type cut string

const (
	crashBefore cut = "crash before" // the replica is dead, and the call was not made
	crashAfter  cut = "crash after"  // the replica is dead, and the call was made
	lostAnswer  cut = "lost answer"  // the call was made, and the replica is told of a time-out
)

// gate is between a replica and etcd. It cuts the n-th write of a Service, an IPAddress or a node port, and after a crash
// all that follows.
type gate struct {
	mu    sync.Mutex
	kind  cut
	left  int // writes until the cut; 0: none
	dead  bool
	where string
}

var errDead = errors.New("the replica is dead")

// arm has the n-th write from now on cut.
func (g *gate) arm(kind cut, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kind, g.left, g.where = kind, n, ""
}

// hit reports whether there was a cut, and where.
func (g *gate) hit() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left = 0
	return g.where
}

// write makes a call, or cuts it.
func (g *gate) write(what string, counts bool, call func() error) error {
	g.mu.Lock()
	if g.dead {
		g.mu.Unlock()
		return errDead
	}
	strike := false
	if counts && g.left > 0 {
		g.left--
		strike = g.left == 0
	}
	if strike {
		g.where = what
		g.dead = g.kind != lostAnswer
	}
	kind := g.kind
	g.mu.Unlock()
	switch {
	case !strike:
		return call()
	case kind == crashBefore:
		return errDead
	}
	if err := call(); err != nil {
		return err
	}
	if kind == crashAfter {
		return errDead
	}
	return storage.NewTooLargeResourceVersionError(1, 1, 1) // a time-out, by its reason
}

func (g *gate) read(call func() error) error {
	g.mu.Lock()
	dead := g.dead
	g.mu.Unlock()
	if dead {
		return errDead
	}
	return call()
}

// decorate puts the gate before the storage of every resource.
func (g *gate) decorate(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return gatedOptions{inner, g}
}

type gatedOptions struct {
	generic.RESTOptionsGetter
	gate *gate
}

func (o gatedOptions) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := o.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	inner := opts.Decorator
	counts := resource.Resource == "services" || resource.Resource == "ipaddresses"
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, keyFunc func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s, destroy, err := inner(config, prefix, keyFunc, newFunc, newListFunc, attrs, trigger, indexers)
		return gatedStorage{s, o.gate, resource.Resource, counts}, destroy, err
	}
	return opts, nil
}

type gatedStorage struct {
	storage.Interface
	gate     *gate
	resource string
	counts   bool
}

func (s gatedStorage) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.gate.write("create "+s.resource, s.counts, func() error { return s.Interface.Create(ctx, key, obj, out, ttl) })
}

func (s gatedStorage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions, validate storage.ValidateObjectFunc,
	cached runtime.Object, opts storage.DeleteOptions) error {
	return s.gate.write("delete "+s.resource, s.counts, func() error {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	})
}

func (s gatedStorage) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool, preconditions *storage.Preconditions,
	update storage.UpdateFunc, cached runtime.Object) error {
	return s.gate.write("update "+s.resource, s.counts, func() error {
		return s.Interface.GuaranteedUpdate(ctx, key, out, ignoreNotFound, preconditions, update, cached)
	})
}

func (s gatedStorage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	return s.gate.read(func() error { return s.Interface.Get(ctx, key, opts, out) })
}

// wrapKV puts the gate before the node ports.
func (g *gate) wrapKV(inner clientv3.KV) clientv3.KV { return gatedKV{inner, g} }

type gatedKV struct {
	clientv3.KV
	gate *gate
}

func (k gatedKV) Txn(ctx context.Context) clientv3.Txn { return gatedTxn{k.KV.Txn(ctx), k.gate} }

type gatedTxn struct {
	clientv3.Txn
	gate *gate
}

func (t gatedTxn) If(c ...clientv3.Cmp) clientv3.Txn  { return gatedTxn{t.Txn.If(c...), t.gate} }
func (t gatedTxn) Then(o ...clientv3.Op) clientv3.Txn { return gatedTxn{t.Txn.Then(o...), t.gate} }
func (t gatedTxn) Else(o ...clientv3.Op) clientv3.Txn { return gatedTxn{t.Txn.Else(o...), t.gate} }

func (t gatedTxn) Commit() (answer *clientv3.TxnResponse, err error) {
	gated := t.gate.write("node port", true, func() error {
		answer, err = t.Txn.Commit()
		return err
	})
	return answer, gated
}

// step is one call of a client, on a Service that is as another step has left it.
type step struct {
	name   string
	before func() *corev1.Service // nil: there is none
	call   func(ctx context.Context, client kubernetes.Interface, name string) error
}

func steps() []step {
	ports := []corev1.ServicePort{{Name: "a", Port: 80}}
	service := func(spec corev1.ServiceSpec) func() *corev1.Service {
		return func() *corev1.Service {
			spec := *spec.DeepCopy()
			spec.Ports = ports
			return &corev1.Service{Spec: spec}
		}
	}
	plain := service(corev1.ServiceSpec{})
	dual := service(corev1.ServiceSpec{IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicyRequireDualStack)})
	nodePort := service(corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort})
	external := service(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"})
	create := func(make func() *corev1.Service) func(context.Context, kubernetes.Interface, string) error {
		return func(ctx context.Context, client kubernetes.Interface, name string) error {
			svc := make()
			svc.Name = name
			_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, svc, metav1.CreateOptions{})
			return err
		}
	}
	update := func(change func(*corev1.ServiceSpec)) func(context.Context, kubernetes.Interface, string) error {
		return func(ctx context.Context, client kubernetes.Interface, name string) error {
			svc, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(&svc.Spec)
			_, err = client.CoreV1().Services(metav1.NamespaceDefault).Update(ctx, svc, metav1.UpdateOptions{})
			return err
		}
	}
	toExternal := update(func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	})
	return []step{
		{"create", nil, create(plain)},
		{"create dual-stack", nil, create(dual)},
		{"create NodePort", nil, create(nodePort)},
		{"create at an address", nil, create(service(corev1.ServiceSpec{ClusterIP: "10.96.0.200"}))},
		{"update to ExternalName", dual, toExternal},
		{"update from NodePort to ExternalName", nodePort, toExternal},
		{"update from ExternalName", external, update(func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeClusterIP, "" })},
		{"update to dual-stack", plain, update(func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) })},
		{"update to single-stack", dual, update(func(s *corev1.ServiceSpec) {
			s.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
			s.IPFamilies, s.ClusterIPs = s.IPFamilies[:1], s.ClusterIPs[:1]
		})},
		{"update to NodePort", plain, update(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort })},
		{"delete", dual, func(ctx context.Context, client kubernetes.Interface, name string) error {
			return client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
		}},
	}
}

// Every write of every call is cut in every way; afterwards Services, IPAddresses and node ports are one to one, by the
// replica that is left.
func TestI9_EveryWriteIsCut(t *testing.T) {
	data := t.TempDir()
	etcd, err := StartEtcd(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	options := func() *Options {
		o := testOptions(t)
		o.EtcdServers = []string{etcd.Endpoint}
		o.LeakGrace = 300 * time.Millisecond
		return o
	}
	other := startReplica(t, options())
	ctx := t.Context()
	cuts := 0
	var stops sync.WaitGroup
	defer stops.Wait()
	var one *replica
	var g *gate
	n := 0
	for _, s := range steps() {
		for _, kind := range []cut{crashBefore, crashAfter, lostAnswer} {
			for at := 1; ; at++ {
				n++
				name := fmt.Sprintf("s-%d", n)
				if s.before != nil {
					svc := s.before()
					svc.Name = name
					if _, err := other.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, svc, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if one == nil {
					g = &gate{}
					o := options()
					o.decorate, o.wrapKV = g.decorate, g.wrapKV
					one = startReplica(t, o)
				}
				g.arm(kind, at)
				callErr := s.call(ctx, one.client, name)
				where := g.hit()
				if where == "" && callErr != nil {
					t.Fatalf("%s, with no cut: %v", s.name, callErr)
				}
				if where != "" && kind != lostAnswer {
					// It is dead: nothing that it does counts.
					dying := one
					one = nil
					stops.Go(func() { _ = dying.stop() })
				}
				if where != "" {
					cuts++
				}
				what := fmt.Sprintf("%s, write %d (%s), %s", s.name, at, where, kind)
				eventually(t, what+": one to one", func(ctx context.Context) error { return oneToOne(ctx, other, etcd.Endpoint) })
				if t.Failed() {
					return
				}
				remove(t, other, name)
				if where == "" {
					break
				}
			}
		}
	}
	t.Logf("%d cuts", cuts)
	if cuts < 60 {
		t.Errorf("%d cuts: the calls make more writes than that", cuts)
	}
}

func remove(t *testing.T, r *replica, name string) {
	t.Helper()
	err := r.client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{})
	if err != nil && !strings.Contains(err.Error(), "not found") {
		t.Fatal(err)
	}
}

// oneToOne compares what there is.
func oneToOne(ctx context.Context, r *replica, endpoint string) error {
	faults, err := audit.Now(ctx, r.client)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return fmt.Errorf("%v", faults)
	}
	services, err := r.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for _, s := range services.Items {
		for _, p := range s.Spec.Ports {
			if p.NodePort != 0 {
				want[fmt.Sprintf("%d %s/%s", p.NodePort, s.Namespace, s.Name)] = true
			}
		}
	}
	answer, err := r.etcdClient.Get(ctx, r.options.EtcdPrefix+".nodeports/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	for _, kv := range answer.Kvs {
		key := string(kv.Key)[strings.LastIndexByte(string(kv.Key), '/')+1:] + " " + string(kv.Value)
		if !want[key] {
			return fmt.Errorf("node port %s is kept for nobody", key)
		}
		delete(want, key)
	}
	if len(want) > 0 {
		return fmt.Errorf("node ports %v are kept for nobody to have", want)
	}
	return nil
}
