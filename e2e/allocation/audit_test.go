// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/e2e/history"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// checkServerAgrees checks that what the ledger holds, the IPAddresses and the Services' clusterIPs are the
// same: one owner each, nothing lost (I1), nothing left behind (I9).
func checkServerAgrees(ctx context.Context, c *cluster, held map[netip.Addr]grant) error {
	ours, err := c.addresses(ctx, informer.DefaultManager)
	if err != nil {
		return err
	}
	cores, err := c.addresses(ctx, informer.CoreManager)
	if err != nil {
		return err
	}
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var faults []error
	fault := func(format string, args ...any) {
		if len(faults) < maxFaults {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	for addr, g := range held {
		objects := ours
		if g.by == nil {
			objects = cores
		}
		obj := objects[addr]
		switch {
		case obj == nil:
			fault("%s was granted to %s and has no IPAddress", addr, g.owner)
		case informer.OwnerOf(obj.Spec.ParentRef) != g.owner:
			fault("%s was granted to %s and belongs to %s", addr, g.owner, informer.OwnerOf(obj.Spec.ParentRef))
		case g.by != nil && obj.UID != g.uid:
			fault("%s was granted to %s as %s and is %s", addr, g.owner, g.uid, obj.UID)
		}
	}
	for addr, obj := range ours {
		if _, ok := held[addr]; !ok {
			fault("IPAddress %s of %s, created %v, was granted to nobody", addr, informer.OwnerOf(obj.Spec.ParentRef), obj.CreationTimestamp)
		}
	}
	byService := map[netip.Addr]meta.Owner{}
	for _, s := range services.Items {
		for _, ip := range s.Spec.ClusterIPs {
			addr, err := netip.ParseAddr(ip)
			if err != nil {
				continue // headless
			}
			owner := informer.ServiceOwner(s.Namespace, s.Name)
			if other, ok := byService[addr]; ok {
				fault("Services %s and %s both have %s", owner, other, addr)
			}
			byService[addr] = owner
			if obj := cores[addr]; obj == nil || informer.OwnerOf(obj.Spec.ParentRef) != owner {
				fault("%s has clusterIP %s, whose IPAddress is %+v", owner, addr, obj)
			}
		}
	}
	for addr, obj := range cores {
		if _, ok := byService[addr]; !ok {
			fault("IPAddress %s of %s: no such Service has it", addr, informer.OwnerOf(obj.Spec.ParentRef))
		}
	}
	return errors.Join(faults...)
}

// checkViews judges each grant of a replica by the topologies that its view had during the call.
func checkViews(t *testing.T, all []grant) {
	t.Helper()
	var faults []string
	for _, g := range all {
		if g.by == nil {
			continue
		}
		topologies := g.by.timeline.during(g.from, g.to)
		var ready, dynamic bool
		for _, topology := range topologies {
			ready = ready || readyFor(topology, g.address)
			dynamic = dynamic || bandOf(topology, g.address) == cidr.BandDynamic
		}
		switch {
		case !ready:
			faults = append(faults, fmt.Sprintf("I2: %s, granted by %s, was in no ready CIDR in any of the %d topologies during the call", g.address, g.by.name, len(topologies)))
		case !g.fixed && !dynamic:
			faults = append(faults, fmt.Sprintf("I4: %s, granted by %s, was in the dynamic band of no maximal CIDR in any of the %d topologies during the call", g.address, g.by.name, len(topologies)))
		}
	}
	reportSome(t, faults)
}

// checkCovered replays the history: at every moment every confirmed address is usable in a ServiceCIDR (I7).
func checkCovered(t *testing.T, h *history.History, all []grant) {
	t.Helper()
	confirmed := map[types.UID]bool{}
	for _, g := range all {
		confirmed[g.uid] = true
	}
	var faults []string
	var undone int
	history.Replay(h.Events(), func(e history.Event, w history.World) {
		switch {
		case e.Address != nil && e.Kind == watch.Added:
			if e.Address.Labels[informer.LabelManagedBy] == informer.DefaultManager && !confirmed[e.Address.UID] {
				undone++
				return
			}
			if addr := netip.MustParseAddr(e.Address.Name); e.Revision > 0 && !w.Covers(addr) {
				faults = append(faults, fmt.Sprintf("I7: %s was created at revision %d, when no ServiceCIDR covered it", addr, e.Revision))
			}
		case e.CIDR != nil && e.Kind == watch.Deleted:
			for addr, obj := range w.Addresses {
				if !w.Covers(addr) {
					faults = append(faults, fmt.Sprintf("I7: ServiceCIDR %s went at revision %d and left %s of %s without any", e.CIDR.Name, e.Revision, addr, informer.OwnerOf(obj.Spec.ParentRef)))
				}
			}
		}
	})
	t.Logf("%d events; %d of our IPAddresses were made by calls that did not confirm them", len(h.Events()), undone)
	reportSome(t, faults)
}

// checkDeletion checks the grants in what only the deleted ServiceCIDR covers. Under VerifyAlways the
// IPAddress precedes the deletion; under VerifyStale it may follow by less than the lease.
//
// Both timestamps are the server's and cut to the second: created < deleted+lease then means that the cut
// ones differ by no more than the lease.
func checkDeletion(t *testing.T, h *history.History, name string, only func(netip.Addr) bool, all []grant) {
	t.Helper()
	deleted, creations := deletion(t, h, name), created(h)
	var faults []string
	var before, within int
	for _, g := range all {
		if g.by == nil || !only(g.address) {
			continue
		}
		e, ok := creations[g.uid]
		if !ok || e.Revision != g.revision {
			faults = append(faults, fmt.Sprintf("%s: the history has no creation at revision %d of %s", g.address, g.revision, g.uid))
			continue
		}
		late := e.Address.CreationTimestamp.Sub(deleted.CIDR.DeletionTimestamp.Time)
		switch {
		case e.Revision < deleted.Revision:
			before++
		case g.by.mode == meta.VerifyAlways:
			faults = append(faults, fmt.Sprintf("I7: VerifyAlways confirmed %s, created at revision %d, after the deletion at %d", g.address, e.Revision, deleted.Revision))
		case late > meta.DefaultLease:
			faults = append(faults, fmt.Sprintf("I7: VerifyStale confirmed %s, created %v after the deletion: more than the lease of %v", g.address, late.Round(time.Second), meta.DefaultLease))
		default:
			within++
		}
	}
	t.Logf("in %s alone: %d addresses were created before its deletion, %d within the lease after it", name, before, within)
	if before == 0 {
		t.Errorf("no address was allocated in %s: the check says nothing", name)
	}
	reportSome(t, faults)
}

func reportSome(t *testing.T, faults []string) {
	t.Helper()
	for i, fault := range faults {
		if i == maxFaults {
			t.Errorf("and %d more", len(faults)-maxFaults)
			return
		}
		t.Error(fault)
	}
}
