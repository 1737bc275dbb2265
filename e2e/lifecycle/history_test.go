// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

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

// history is every event of ServiceCIDRs and IPAddresses since it was begun.
type history struct {
	c      *cluster
	mu     sync.Mutex // guards events
	events []event
}

// event is one change: of a ServiceCIDR or of an IPAddress.
type event struct {
	revision uint64 // of the change, also of a deletion; 0 for what was there at the begin
	gone     bool
	cidr     *networkingv1.ServiceCIDR
	address  *networkingv1.IPAddress
}

// record begins a history with what is there now. It ends with the test.
func (c *cluster) record(t *testing.T) *history {
	t.Helper()
	ctx, cancel := context.WithCancel(quiet())
	h := &history{c: c}
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })

	networking := c.client.NetworkingV1()
	cidrs, err := networking.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range cidrs.Items {
		h.events = append(h.events, event{cidr: &cidrs.Items[i]})
	}
	addresses, err := networking.IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range addresses.Items {
		h.events = append(h.events, event{address: &addresses.Items[i]})
	}
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
				h.add(e)
			}
			<-w.Done()
		})
	}
	return h
}

func (h *history) add(e watch.Event) {
	entry := event{gone: e.Type == watch.Deleted}
	var version string
	switch o := e.Object.(type) {
	case *networkingv1.ServiceCIDR:
		entry.cidr, version = o, o.ResourceVersion
	case *networkingv1.IPAddress:
		entry.address, version = o, o.ResourceVersion
	}
	entry.revision, _ = strconv.ParseUint(version, 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, entry)
}

// all waits until the history has what the server has by now, and returns the events in the
// order of etcd's revisions.
func (h *history) all(t *testing.T) []event {
	t.Helper()
	networking := h.c.client.NetworkingV1()
	var events []event
	eventually(t, "the history is up to date", func(ctx context.Context) error {
		h.mu.Lock()
		events = slices.Clone(h.events)
		h.mu.Unlock()
		slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.revision, b.revision) })
		versions := map[string]string{}
		for _, e := range events {
			switch {
			case e.cidr != nil && e.gone:
				delete(versions, e.cidr.Name)
			case e.cidr != nil:
				versions[e.cidr.Name] = e.cidr.ResourceVersion
			case e.gone:
				delete(versions, e.address.Name)
			default:
				versions[e.address.Name] = e.address.ResourceVersion
			}
		}
		cidrs, err := networking.ServiceCIDRs().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		addresses, err := networking.IPAddresses().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if there := len(cidrs.Items) + len(addresses.Items); len(versions) != there {
			return fmt.Errorf("it has %d objects, the server %d", len(versions), there)
		}
		for _, o := range cidrs.Items {
			if versions[o.Name] != o.ResourceVersion {
				return fmt.Errorf("it lacks a change of ServiceCIDR %s", o.Name)
			}
		}
		for _, o := range addresses.Items {
			if versions[o.Name] != o.ResourceVersion {
				return fmt.Errorf("it lacks a change of IPAddress %s", o.Name)
			}
		}
		return nil
	})
	return events
}

// orphans says of each address that existed at a moment at which no ServiceCIDR made it usable
// (I7), at which revision that began.
func (h *history) orphans(t *testing.T) map[string]uint64 {
	t.Helper()
	cidrs, addresses := map[string]*informer.ServiceCIDR{}, map[string]netip.Addr{}
	found := map[string]uint64{}
	for _, e := range h.all(t) {
		switch {
		case e.cidr != nil && e.gone:
			delete(cidrs, e.cidr.Name)
		case e.cidr != nil:
			cidrs[e.cidr.Name] = informer.NewServiceCIDR(e.cidr)
		case e.gone:
			delete(addresses, e.address.Name)
		default:
			addresses[e.address.Name] = netip.MustParseAddr(e.address.Name)
		}
		if e.revision == 0 {
			continue // the begin is one moment, and this is in the midst of it
		}
		for name, address := range addresses {
			covered := false
			for _, c := range cidrs {
				covered = covered || c.CoversUsable(address)
			}
			if _, known := found[name]; !covered && !known {
				found[name] = e.revision
			}
		}
	}
	return found
}
