// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
	"github.com/metacidr/metacidr/meta"
)

// patience is far beyond what any wait here takes; it ends a test that hangs.
const patience = 100 * time.Second

// reporter is the reportingController of the events.
const reporter = "metacidr-lifecycle"

// cluster is a control plane and what a test does with it.
type cluster struct {
	*controlplane.ControlPlane
	client *kubernetes.Clientset
}

// startCluster starts a control plane with the given range; empty means the default.
// It ends with the test.
func startCluster(t *testing.T, serviceClusterIPRange string) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: serviceClusterIPRange})
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{ControlPlane: cp, client: client}
}

// quiet is a context whose logger drops all.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// recorder makes one that writes events.k8s.io to the cluster until the test ends.
func (c *cluster) recorder(t *testing.T) events.EventRecorder {
	t.Helper()
	recorder, stop, err := newRecorder(quiet(), c.client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return recorder
}

// newRecorder makes a recorder that works until stop is called.
func newRecorder(ctx context.Context, client kubernetes.Interface) (_ events.EventRecorder, stop func(), err error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	ctx, cancel := context.WithCancel(ctx)
	stop = func() { broadcaster.Shutdown(); cancel() }
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return broadcaster.NewRecorder(scheme.Scheme, reporter), stop, nil
}

// runOurs runs the ServiceCIDR controller of package servicecidr, with the default grace
// period, until the test ends.
func runOurs(t *testing.T, c *cluster) {
	t.Helper()
	controller, err := servicecidr.New(servicecidr.Config{Client: c.client.NetworkingV1(), Recorder: c.recorder(t)})
	if err != nil {
		t.Fatal(err)
	}
	background(t, "the ServiceCIDR controller", controller.Run)
}

// runUpstream runs that of kube-controller-manager until the test ends.
func runUpstream(t *testing.T, c *cluster) {
	t.Helper()
	stop, err := controlplane.RunServiceCIDRController(quiet(), c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// background runs work until the test ends, and fails the test if it returns an error.
func background(t *testing.T, what string, work func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(quiet())
	var running sync.WaitGroup
	running.Go(func() {
		if err := work(ctx); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// runAllocator runs a MetaAllocator until the test ends.
func (c *cluster) runAllocator(t *testing.T) *meta.MetaAllocator {
	t.Helper()
	m, err := meta.New(meta.Config{Client: c.client.NetworkingV1()})
	if err != nil {
		t.Fatal(err)
	}
	background(t, "the MetaAllocator", m.Run)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	return m
}

// allocate takes one address through m, as soon as m sees that its ServiceCIDR is ready.
func (c *cluster) allocate(t *testing.T, m *meta.MetaAllocator, owner meta.Owner, address string) {
	t.Helper()
	eventually(t, "allocating "+address, func(ctx context.Context) error {
		_, err := m.Allocate(ctx, meta.Request{Owner: owner, Addresses: []netip.Addr{netip.MustParseAddr(address)}})
		return err
	})
}

// create makes a ServiceCIDR.
func (c *cluster) create(t *testing.T, name string, cidrs []string, finalizers ...string) {
	t.Helper()
	if err := c.tryCreate(t.Context(), name, cidrs, finalizers...); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) tryCreate(ctx context.Context, name string, cidrs []string, finalizers ...string) error {
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ServiceCIDR %s: %w", name, err)
	}
	return nil
}

// delete deletes ServiceCIDRs at the same time. That they are gone at once is not promised.
func (c *cluster) delete(t *testing.T, names ...string) {
	t.Helper()
	var calls sync.WaitGroup
	for _, name := range names {
		calls.Go(func() {
			if err := c.client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete ServiceCIDR %s: %v", name, err)
			}
		})
	}
	calls.Wait()
}

// get reads a ServiceCIDR that must be there.
func (c *cluster) get(t *testing.T, name string) *networkingv1.ServiceCIDR {
	t.Helper()
	obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func readyOf(obj *networkingv1.ServiceCIDR) *metav1.Condition {
	return apimeta.FindStatusCondition(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
}

// waitReady waits until each has its finalizer and Ready=True.
func (c *cluster) waitReady(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		eventually(t, "ServiceCIDR "+name+" is ready", func(ctx context.Context) error {
			obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if ready := readyOf(obj); ready == nil || ready.Status != metav1.ConditionTrue || !slices.Contains(obj.Finalizers, informer.Finalizer) {
				return fmt.Errorf("finalizers %v, status %+v", obj.Finalizers, obj.Status)
			}
			return nil
		})
	}
}

// waitBlocked waits until a ServiceCIDR says that its deletion waits, with all words in the
// message, and returns it.
func (c *cluster) waitBlocked(t *testing.T, name string, words ...string) *networkingv1.ServiceCIDR {
	t.Helper()
	var found *networkingv1.ServiceCIDR
	eventually(t, "ServiceCIDR "+name+" says what its deletion waits for", func(ctx context.Context) error {
		obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: it is gone", errNever)
		}
		if err != nil {
			return err
		}
		ready := readyOf(obj)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != networkingv1.ServiceCIDRReasonTerminating {
			return fmt.Errorf("status %+v", obj.Status)
		}
		for _, word := range words {
			if !strings.Contains(ready.Message, word) {
				return fmt.Errorf("the message lacks %q: %s", word, ready.Message)
			}
		}
		found = obj
		return nil
	})
	return found
}

// waitGone waits until the ServiceCIDRs do not exist.
func (c *cluster) waitGone(t *testing.T, names ...string) {
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
			return fmt.Errorf("still there, deleted at %v, finalizers %v, status %+v", obj.DeletionTimestamp, obj.Finalizers, obj.Status)
		})
	}
}

// letGracePass returns when a ServiceCIDR that was made, and deleted after all that the test
// deleted before, is gone: so the controller has let every grace period of theirs pass, and
// has acted on it. No clock is read.
func (c *cluster) letGracePass(t *testing.T, canary, prefix string) {
	t.Helper()
	c.create(t, canary, []string{prefix})
	c.waitReady(t, canary)
	c.delete(t, canary)
	c.waitGone(t, canary)
}

// createService makes a Service, with the address if it is not empty.
func (c *cluster) createService(ctx context.Context, name, address string) (*corev1.Service, error) {
	return c.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
}

// placeService makes a Service with that address, as soon as kube-apiserver sees that its
// ServiceCIDR is ready.
func (c *cluster) placeService(t *testing.T, name, address string) {
	t.Helper()
	eventually(t, "Service "+name+" at "+address, func(ctx context.Context) error {
		_, err := c.createService(ctx, name, address)
		return err
	})
}

func (c *cluster) deleteServices(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.client.CoreV1().Services("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatalf("delete Service %s: %v", name, err)
		}
	}
}

// waitAddressesGone waits until there is no IPAddress of these names.
func (c *cluster) waitAddressesGone(t *testing.T, addresses ...string) {
	t.Helper()
	for _, address := range addresses {
		eventually(t, "IPAddress "+address+" is gone", func(ctx context.Context) error {
			obj, err := c.client.NetworkingV1().IPAddresses().Get(ctx, address, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("%+v, %v", obj, err)
		})
	}
}

// eventsOn lists the events on an object by name, oldest first.
func (c *cluster) eventsOn(ctx context.Context, kind, name string) ([]eventsv1.Event, error) {
	list, err := c.client.EventsV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool {
		return e.Regarding.Kind != kind || e.Regarding.Name != name || e.ReportingController != reporter
	})
	slices.SortFunc(found, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return found, nil
}

// waitEvent waits for an event with that reason on the object, and returns it.
func (c *cluster) waitEvent(t *testing.T, kind, name, reason string) eventsv1.Event {
	t.Helper()
	var found eventsv1.Event
	eventually(t, fmt.Sprintf("event %s on %s %s", reason, kind, name), func(ctx context.Context) error {
		all, err := c.eventsOn(ctx, kind, name)
		if err != nil {
			return err
		}
		for _, e := range all {
			if e.Reason == reason {
				found = e
				return nil
			}
		}
		return fmt.Errorf("there are %d others", len(all))
	})
	return found
}

// eventually waits for the condition; what it returned last is shown if it never held.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
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
