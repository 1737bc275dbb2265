// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// patience is far beyond what any wait here takes, the minute after which kube-apiserver removes the IPAddress of
// a Service that came to nothing included; it ends a test that hangs.
const patience = 100 * time.Second

// holdTimeout is how long a replica keeps an address off that another had and has given back before the replica
// knew. Shorter than the default, for the test of the counts waits for its end.
const holdTimeout = 15 * time.Second

// cluster is a control plane and what a test does with it.
type cluster struct {
	*controlplane.ControlPlane
	client *kubernetes.Clientset
}

// startCluster starts a control plane with the given range. It ends with the test.
func startCluster(t *testing.T, serviceClusterIPRange string) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: serviceClusterIPRange})
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{ControlPlane: cp, client: client}
}

// runController runs upstream's ServiceCIDR controller until the result is called or the test ends.
func (c *cluster) runController(t *testing.T) (stop func()) {
	t.Helper()
	stop, err := controlplane.RunServiceCIDRController(quiet(), c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return stop
}

// quiet is a context whose logger drops all: an outage makes reflectors complain at length.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// createServiceCIDR creates one, over both families if two prefixes are given.
func (c *cluster) createServiceCIDR(t *testing.T, name string, cidrs ...string) {
	t.Helper()
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create ServiceCIDR %s: %v", name, err)
	}
}

// waitUntilReady waits until the controller has made the ServiceCIDR ready and given it its finalizer.
func (c *cluster) waitUntilReady(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "ServiceCIDR "+name+" is ready", func(ctx context.Context) error {
			obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !slices.Contains(obj.Finalizers, informer.Finalizer) ||
				!apimeta.IsStatusConditionTrue(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
				return fmt.Errorf("finalizers %v, status %+v", obj.Finalizers, obj.Status)
			}
			return nil
		})
	}
}

// deleteServiceCIDR deletes one; that it is gone at once is not promised.
func (c *cluster) deleteServiceCIDR(t *testing.T, name string) {
	t.Helper()
	if err := c.client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatalf("delete ServiceCIDR %s: %v", name, err)
	}
}

// waitUntilGone waits until the controller has let a deleted ServiceCIDR go.
func (c *cluster) waitUntilGone(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "ServiceCIDR "+name+" is gone", func(ctx context.Context) error {
			obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("still there, deleted at %v, status %+v", obj.DeletionTimestamp, obj.Status)
		})
	}
}

// addresses lists the IPAddresses that bear the manager's label, by address.
func (c *cluster) addresses(ctx context.Context, manager string) (map[netip.Addr]*networkingv1.IPAddress, error) {
	list, err := c.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: informer.LabelManagedBy + "=" + manager})
	if err != nil {
		return nil, err
	}
	found := make(map[netip.Addr]*networkingv1.IPAddress, len(list.Items))
	for i := range list.Items {
		addr, err := netip.ParseAddr(list.Items[i].Name)
		if err != nil {
			return nil, err
		}
		found[addr] = &list.Items[i]
	}
	return found, nil
}

// replica is a MetaAllocator that runs, as one of the processes of a custom API server would.
type replica struct {
	*meta.MetaAllocator
	name     string
	mode     meta.Verification
	timeline *timeline
	granted  atomic.Int64 // calls of Allocate that succeeded
	failed   atomic.Int64 // calls that a worker saw end with an error of an outage
	stop     func()       // ends Run and waits for it; may be called twice
}

// startReplica makes a MetaAllocator with informers of its own and runs it until stop or the end of the test.
func (c *cluster) startReplica(t *testing.T, name string, mode meta.Verification) *replica {
	t.Helper()
	m, err := meta.New(meta.Config{Client: c.client.NetworkingV1(), Verification: mode, HoldTimeout: holdTimeout})
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{MetaAllocator: m, name: name, mode: mode, timeline: follow(m.View())}
	ctx, cancel := context.WithCancel(quiet())
	var running sync.WaitGroup
	running.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("replica %s: Run: %v", name, err)
		}
	})
	r.stop = func() { cancel(); running.Wait() }
	t.Cleanup(r.stop)

	waiting, cancelWait := context.WithTimeout(t.Context(), patience)
	defer cancelWait()
	if err := m.WaitForSync(waiting); err != nil {
		t.Fatalf("replica %s: %v", name, err)
	}
	return r
}

// waitUntilReady waits until the replica may allocate from the prefixes.
func (r *replica) waitUntilReady(t *testing.T, prefixes ...cidr.Range) {
	t.Helper()
	for _, p := range prefixes {
		r.waitFor(t, p.String()+" is ready", func(topology *informer.Topology) bool {
			found, ok := topology.Get(p)
			return ok && found.Ready
		})
	}
}

// waitFor waits until the replica's view has the topology.
func (r *replica) waitFor(t *testing.T, what string, holds func(*informer.Topology) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		snapshot := r.View().Snapshot()
		if holds(snapshot.Topology()) {
			return
		}
		select {
		case <-snapshot.Changed():
		case <-deadline:
			t.Fatalf("replica %s does not see that %s; its status: %+v", r.name, what, r.Status())
		}
	}
}

// eventually waits for the condition; what it returned last is shown if it never held.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := condition(ctx)
		if last = err; errors.Is(err, errNever) {
			return false, err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; the last look said: %v", what, err, last)
	}
}

// errNever ends eventually early: the condition cannot come to hold any more.
var errNever = errors.New("it never will")
