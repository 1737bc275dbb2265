// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// call is one call of a replica's Allocator and all that the checks want to know
// of it.
type call struct {
	r        *replica
	owner    Owner
	families []cidr.Family // two of them: a dual-stack request
	addr     netip.Addr    // static: the address asked for
	release  netip.Addr    // the call is a release of that address

	fault        fault
	interruption interruption

	outer     *call // the call in whose hook this one is made
	begin     time.Time
	wasSynced bool
	known     *knowledge
	wasTaken  bool // the address asked for had an IPAddress at some moment
	made      []made
	cancel    context.CancelFunc

	got      []netip.Addr
	err      error
	outcome  Outcome
	conflict *holding // whose address was confirmed again
}

// made is an API call.
type made struct {
	verb, resource, name string
	seen                 bool  // by the server
	answer               error // of the server
}

func (c *call) static() bool { return c.addr.IsValid() }

func (c *call) String() string {
	switch {
	case c.release.IsValid():
		return fmt.Sprintf("%s releases %s of %s", c.r.name, c.release, c.owner.Name)
	case c.static():
		return fmt.Sprintf("%s allocates %s for %s", c.r.name, c.addr, c.owner.Name)
	}
	var families []string
	for _, f := range c.families {
		families = append(families, f.String())
	}
	return fmt.Sprintf("%s allocates any %s for %s", c.r.name, strings.Join(families, " and "), c.owner.Name)
}

// onCall notes an API call of the replica while this call runs.
func (c *call) onCall(w *world, a simapi.Call) {
	w.mu.Lock()
	if a.Phase == simapi.Before {
		c.made = append(c.made, made{verb: a.Verb, resource: a.Resource, name: a.Name})
	} else {
		for i := len(c.made) - 1; i >= 0; i-- {
			if m := &c.made[i]; m.verb == a.Verb && m.resource == a.Resource && m.name == a.Name && !m.seen {
				m.seen, m.answer = true, a.Err
				break
			}
		}
	}
	w.mu.Unlock()
	c.interruption.onCall(w, c, a)
}

// count is how many API calls of a kind were made.
func (c *call) count(match func(made) bool) int {
	n := 0
	for _, m := range c.made {
		if match(m) {
			n++
		}
	}
	return n
}

// perform makes the call, tells the story of it, and has the checks judge it.
func (w *world) perform(c *call) {
	ctx, cancel := context.WithCancel(quiet())
	defer cancel()
	c.cancel, c.begin, c.wasSynced, c.known = cancel, time.Now(), c.r.alloc.Synced(), &c.r.known
	c.fault.arm(w, c.r.name)
	w.mu.Lock()
	_, c.wasTaken = w.truth.addrs[c.addr]
	c.outer, w.current = w.current, c
	w.mu.Unlock()
	if c.outer == nil {
		w.story.next("%s%s%s", c, c.fault, c.interruption)
	} else {
		w.story.add("meanwhile %s", c)
	}
	defer func() {
		w.mu.Lock()
		w.current = c.outer
		w.mu.Unlock()
	}()

	if c.release.IsValid() {
		c.err = c.r.alloc.Release(ctx, c.owner, c.release)
	} else {
		w.ask(ctx, c)
	}
	w.server.ClearFaults()
	synctest.Wait() // background work of the call comes to rest
	w.observe(nil)
	c.outcome = OK
	if c.err != nil {
		c.outcome = c.r.alloc.Classify(c.err)
		if c.outcome == OK {
			c.outcome = APIError
		}
		w.story.add("-> %s: %v", c.outcome, c.err)
	}
	if c.release.IsValid() {
		return
	}
	if c.err == nil {
		w.story.add("-> %v", c.got)
	}
	w.confirm(c)
	for _, check := range w.checks {
		if check.call != nil {
			check.call(w, c)
		}
	}
}

// ask makes the allocation.
func (w *world) ask(ctx context.Context, c *call) {
	switch {
	case c.static():
		if c.err = c.r.alloc.AllocateAt(ctx, c.owner, c.addr); c.err == nil {
			c.got = []netip.Addr{c.addr}
		}
	case len(c.families) == 2:
		d, ok := c.r.alloc.(DualStack)
		if !ok {
			c.err = errors.New("the allocator is no DualStack")
			return
		}
		var got [2]netip.Addr
		if got, c.err = d.AllocateDual(ctx, c.owner, [2]cidr.Family(c.families)); c.err == nil {
			c.got = got[:]
		}
	default:
		var got netip.Addr
		if got, c.err = c.r.alloc.AllocateNext(ctx, c.owner, c.families[0]); c.err == nil {
			c.got = []netip.Addr{got}
		}
	}
}

// confirm takes the addresses that were allocated as held.
func (w *world) confirm(c *call) {
	for _, addr := range c.got {
		if old, ok := w.held[addr]; ok {
			c.conflict = &old
		}
		delete(w.unsure, addr)
		delete(c.r.attempted, addr)
		w.held[addr] = holding{uid: w.truth.addrs[addr].uid, owner: c.owner, by: c.r.name, life: c.r.process.life, step: w.story.step, since: time.Now()}
	}
	// Something of the others may be there, unless the server has refused it.
	refused := c.fault.refuses()
	for _, m := range c.made {
		addr, err := netip.ParseAddr(m.name)
		if err != nil || m.verb != "create" {
			continue
		}
		if refused { // the first create met the fault
			refused = false
			continue
		}
		if h, ok := w.held[addr]; !ok || h.step != w.story.step || h.by != c.r.name {
			c.r.attempted[addr] = time.Now()
		}
	}
}

// spared reports that the replica may leave an address alone because of a failed
// call.
func (r *replica) spared(addr netip.Addr) bool {
	at, ok := r.attempted[addr]
	return ok && time.Since(at) < attemptMemory
}

// ipAddress is an object that somebody else stores.
func ipAddress(addr netip.Addr, owner Owner) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr.String()},
		Spec:       networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}
}
