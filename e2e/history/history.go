// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/metacidr/metacidr/informer"
)

// Event is one change: of a ServiceCIDR or of an IPAddress.
type Event struct {
	// Revision is that of the change, also of a deletion; 0 for what was there
	// when the history began.
	Revision uint64
	Kind     watch.EventType
	CIDR     *networkingv1.ServiceCIDR
	Address  *networkingv1.IPAddress
}

// Gone reports a deletion.
func (e Event) Gone() bool { return e.Kind == watch.Deleted }

// History is every event since it was begun. It does not outlive the API server,
// whose watches it uses. It is safe for concurrent use.
type History struct {
	client informer.Client
	stop   func()

	mu     sync.Mutex // guards events
	events []Event
}

// Record begins a history with what is there now. It ends with the test, or with
// Stop; a watch that ends otherwise fails the test.
func Record(t testing.TB, client informer.Client) *History {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	h := &History{client: client, stop: func() { cancel(); running.Wait() }}
	t.Cleanup(h.stop)

	cidrs, err := client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cidrs.Items {
		h.events = append(h.events, Event{Kind: watch.Added, CIDR: &cidrs.Items[i]})
	}
	addresses, err := client.IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range addresses.Items {
		h.events = append(h.events, Event{Kind: watch.Added, Address: &addresses.Items[i]})
	}
	// The server may end a watch that does not read fast enough: go on where it ended.
	ofCIDRs, err := watchtools.NewRetryWatcherWithContext(ctx, cidrs.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: client.ServiceCIDRs().Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	ofAddresses, err := watchtools.NewRetryWatcherWithContext(ctx, addresses.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: client.IPAddresses().Watch,
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
				h.add(e)
			}
			<-w.Done()
		})
	}
	return h
}

// Stop ends the watches and waits for that. What was recorded stays.
func (h *History) Stop() { h.stop() }

func (h *History) add(e watch.Event) {
	entry := Event{Kind: e.Type}
	version := ""
	switch o := e.Object.(type) {
	case *networkingv1.ServiceCIDR:
		entry.CIDR, version = o, o.ResourceVersion
	case *networkingv1.IPAddress:
		entry.Address, version = o, o.ResourceVersion
	}
	entry.Revision, _ = strconv.ParseUint(version, 10, 64) // etcd's, always a number
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, entry)
}

// Events returns what was recorded so far, in the order of the revisions.
func (h *History) Events() []Event {
	h.mu.Lock()
	events := slices.Clone(h.events)
	h.mu.Unlock()
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Revision, b.Revision) })
	return events
}

// UpToDate says what the history still lacks of what the server has; nil if
// nothing. Poll it.
func (h *History) UpToDate(ctx context.Context) error {
	w := Replay(h.Events(), func(Event, World) {})
	cidrs, err := h.client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	addresses, err := h.client.IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(w.Addresses) != len(addresses.Items) || len(w.CIDRs) != len(cidrs.Items) {
		return fmt.Errorf("it has %d of %d IPAddresses, %d of %d ServiceCIDRs", len(w.Addresses), len(addresses.Items), len(w.CIDRs), len(cidrs.Items))
	}
	for i := range cidrs.Items {
		if known := w.CIDRs[cidrs.Items[i].Name]; known == nil || known.ResourceVersion != cidrs.Items[i].ResourceVersion {
			return fmt.Errorf("it lacks a change of ServiceCIDR %s", cidrs.Items[i].Name)
		}
	}
	for i := range addresses.Items {
		known := w.Addresses[netip.MustParseAddr(addresses.Items[i].Name)]
		if known == nil || known.ResourceVersion != addresses.Items[i].ResourceVersion {
			return fmt.Errorf("it lacks a change of IPAddress %s", addresses.Items[i].Name)
		}
	}
	return nil
}

// World is what exists at one moment.
type World struct {
	CIDRs     map[string]*informer.ServiceCIDR
	Addresses map[netip.Addr]*networkingv1.IPAddress
}

// Covers reports whether the address is usable in a ServiceCIDR that exists.
func (w World) Covers(addr netip.Addr) bool {
	for _, c := range w.CIDRs {
		if c.CoversUsable(addr) {
			return true
		}
	}
	return false
}

// Replay goes through the events and calls see after each with the world that it
// led to. It returns the last.
func Replay(events []Event, see func(Event, World)) World {
	w := World{map[string]*informer.ServiceCIDR{}, map[netip.Addr]*networkingv1.IPAddress{}}
	for _, e := range events {
		switch {
		case e.CIDR != nil && e.Gone():
			delete(w.CIDRs, e.CIDR.Name)
		case e.CIDR != nil:
			w.CIDRs[e.CIDR.Name] = informer.NewServiceCIDR(e.CIDR)
		case e.Gone():
			delete(w.Addresses, netip.MustParseAddr(e.Address.Name))
		default:
			w.Addresses[netip.MustParseAddr(e.Address.Name)] = e.Address
		}
		see(e, w)
	}
	return w
}
