// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/metacidr/metacidr/informer"
)

// history is every event of ServiceCIDRs and IPAddresses since it was begun. It does not outlive
// kube-apiserver, whose watches it uses.
type history struct {
	mu     sync.Mutex // guards events
	events []event
	stop   func() // ends the watches and waits for that
}

// event is one change: of a ServiceCIDR or of an IPAddress.
type event struct {
	revision uint64 // of the change, also of a deletion; 0 for what was there when the history began
	kind     watch.EventType
	cidr     *networkingv1.ServiceCIDR
	address  *networkingv1.IPAddress
}

// record begins a history with what is there now.
func (c *cluster) record(t *testing.T) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &history{}
	var running sync.WaitGroup
	h.stop = func() { cancel(); running.Wait() }
	t.Cleanup(h.stop)

	networking := c.client.NetworkingV1()
	cidrs, err := networking.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cidrs.Items {
		h.events = append(h.events, event{kind: watch.Added, cidr: &cidrs.Items[i]})
	}
	addresses, err := networking.IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range addresses.Items {
		h.events = append(h.events, event{kind: watch.Added, address: &addresses.Items[i]})
	}
	// The server may end a watch that does not read fast enough: go on where it ended.
	ofCIDRs, err := watchtools.NewRetryWatcherWithContext(ctx, cidrs.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: networking.ServiceCIDRs().Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	ofAddresses, err := watchtools.NewRetryWatcherWithContext(ctx, addresses.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: networking.IPAddresses().Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []*watchtools.RetryWatcher{ofCIDRs, ofAddresses} {
		running.Go(func() {
			for e := range w.ResultChan() {
				if e.Type == watch.Error {
					t.Errorf("a watch of the history ended: %+v", e.Object)
					return
				}
				h.add(e.Type, e.Object)
			}
			<-w.Done()
		})
	}
	return h
}

func (h *history) add(kind watch.EventType, obj any) {
	e := event{kind: kind}
	switch o := obj.(type) {
	case *networkingv1.ServiceCIDR:
		e.cidr, e.revision = o, revision(o.ResourceVersion)
	case *networkingv1.IPAddress:
		e.address, e.revision = o, revision(o.ResourceVersion)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// all returns the events in the order of their revisions.
func (h *history) all() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
	return events
}

// world is what exists at one moment of a history.
type world struct {
	cidrs     map[string]*informer.ServiceCIDR
	addresses map[netip.Addr]*networkingv1.IPAddress
}

// replay goes through the events and calls see after each with the world that it led to. It returns the last.
func (h *history) replay(see func(event, world)) world {
	w := world{map[string]*informer.ServiceCIDR{}, map[netip.Addr]*networkingv1.IPAddress{}}
	for _, e := range h.all() {
		switch {
		case e.cidr != nil && e.kind == watch.Deleted:
			delete(w.cidrs, e.cidr.Name)
		case e.cidr != nil:
			w.cidrs[e.cidr.Name] = informer.NewServiceCIDR(e.cidr)
		case e.kind == watch.Deleted:
			delete(w.addresses, netip.MustParseAddr(e.address.Name))
		default:
			w.addresses[netip.MustParseAddr(e.address.Name)] = e.address
		}
		see(e, w)
	}
	return w
}

func (w world) covers(addr netip.Addr) bool {
	for _, c := range w.cidrs {
		if c.CoversUsable(addr) {
			return true
		}
	}
	return false
}

// waitUntilCurrent waits until the history has all that the server has. Nothing may change meanwhile.
func (h *history) waitUntilCurrent(t *testing.T, c *cluster) {
	t.Helper()
	eventually(t, "the history is up to date", func(ctx context.Context) error {
		networking := c.client.NetworkingV1()
		addresses, err := networking.IPAddresses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		cidrs, err := networking.ServiceCIDRs().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		w := h.replay(func(event, world) {})
		if len(w.addresses) != len(addresses.Items) || len(w.cidrs) != len(cidrs.Items) {
			return fmt.Errorf("it has %d of %d addresses, %d of %d ServiceCIDRs", len(w.addresses), len(addresses.Items), len(w.cidrs), len(cidrs.Items))
		}
		for i := range addresses.Items {
			if known := w.addresses[netip.MustParseAddr(addresses.Items[i].Name)]; known == nil || known.UID != addresses.Items[i].UID {
				return fmt.Errorf("it lacks %s", addresses.Items[i].Name)
			}
		}
		for i := range cidrs.Items {
			if known := w.cidrs[cidrs.Items[i].Name]; known == nil || known.ResourceVersion != cidrs.Items[i].ResourceVersion {
				return fmt.Errorf("it lacks ServiceCIDR %s", cidrs.Items[i].Name)
			}
		}
		return nil
	})
}

// deletion returns the event that gave the ServiceCIDR its deletionTimestamp.
func (h *history) deletion(t *testing.T, name string) event {
	t.Helper()
	for _, e := range h.all() {
		if e.cidr != nil && e.cidr.Name == name && e.cidr.DeletionTimestamp != nil {
			return e
		}
	}
	t.Fatalf("the history knows of no deletion of ServiceCIDR %s", name)
	return event{}
}

// created returns the creations of IPAddresses.
func (h *history) created() map[types.UID]event {
	out := map[types.UID]event{}
	for _, e := range h.all() {
		if e.address != nil && e.kind == watch.Added {
			out[e.address.UID] = e
		}
	}
	return out
}
