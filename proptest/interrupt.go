// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"fmt"
	"net/netip"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// event is what happens in the middle of a call.
type event int

const (
	nothing event = iota
	deleteCIDR
	deleteCIDRAndWait // its finalizer can be gone before the caller goes on
	deleteCIDRAndAct  // a controller must not take it away at once
	controllerActs
	waitAndControllerActs
	eventsArrive
	timePasses
	callerGivesUp
	// somebodyTakesIt: another replica has allocated the address of this create.
	somebodyTakesIt
	// itChangesHands: another replica releases the address of this release, for
	// the same owner, and gives it to another.
	itChangesHands
)

// interruption is an event at one API call of a call: before the server has it,
// or before the caller has the answer.
type interruption struct {
	what    event
	verb    string
	phase   simapi.Phase
	victims []string // ServiceCIDRs
	other   *replica // who acts
	owner   Owner    // for whom
	done    *bool
}

// String is the story's.
func (i interruption) String() string {
	if i.what == nothing {
		return ""
	}
	what := [...]string{
		"", "%s deleted", "%s deleted and the controller acts a grace period later",
		"%s deleted and the controller acts at once", "the controller acts",
		"a grace period passes and the controller acts", "all events arrive", "7 s pass", "the caller gives up",
		"somebody takes the address", "the address changes hands",
	}[i.what]
	switch len(i.victims) {
	case 0:
	case 1:
		what = fmt.Sprintf(what, "ServiceCIDR "+i.victims[0]+" is")
	default:
		what = fmt.Sprintf(what, "all ServiceCIDRs are")
	}
	return fmt.Sprintf("; %s its %s, %s", i.phase, i.verb, what)
}

func (i interruption) onCall(w *world, c *call, a simapi.Call) {
	if i.what == nothing || a.Verb != i.verb || a.Phase != i.phase {
		return
	}
	w.mu.Lock()
	done := *i.done
	*i.done = true
	w.mu.Unlock()
	if done {
		return
	}
	grace := DefaultGrace + time.Second
	switch i.what {
	case deleteCIDR:
		w.deleteCIDR(i.victims...)
	case deleteCIDRAndWait:
		w.deleteCIDR(i.victims...)
		w.sleep(grace)
		w.syncController()
	case deleteCIDRAndAct:
		w.deleteCIDR(i.victims...)
		w.syncController()
	case controllerActs:
		w.syncController()
	case waitAndControllerActs:
		w.sleep(grace)
		w.syncController()
	case eventsArrive:
		w.server.Deliver(c.r.name, -1)
		synctest.Wait()
	case timePasses:
		w.sleep(7 * time.Second)
	case callerGivesUp:
		c.cancel()
	case somebodyTakesIt:
		if addr, err := netip.ParseAddr(a.Name); err == nil && i.other.alloc.Synced() {
			w.perform(&call{r: i.other, owner: i.owner, families: []cidr.Family{cidr.FamilyOf(addr)}, addr: addr})
		}
	case itChangesHands:
		w.perform(&call{r: i.other, owner: c.owner, release: c.release})
		w.perform(&call{r: i.other, owner: i.owner, families: []cidr.Family{cidr.FamilyOf(c.release)}, addr: c.release})
	}
}

// deleteCIDR deletes ServiceCIDRs, as a person does. Their finalizers keep them.
func (w *world) deleteCIDR(names ...string) {
	for _, name := range names {
		// That it is gone already is as good.
		_ = w.server.Client("admin").ServiceCIDRs().Delete(context.Background(), name, metav1.DeleteOptions{})
	}
	w.observe(nil)
}
