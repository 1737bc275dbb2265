// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"errors"
	"net/netip"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// checkBounded is I11: an allocation makes one create per address, one more for each
// address that somebody else turned out to have, and at most one more call for each
// create (to verify, or to name the owner of what was asked for). An error other
// than AlreadyExists ends it at once, and the caller gets that very error.
func checkBounded() check {
	return check{call: func(w *world, c *call) {
		creates := c.count(func(m made) bool { return m.verb == "create" })
		collisions := c.count(func(m made) bool { return m.verb == "create" && apierrors.IsAlreadyExists(m.answer) })
		undone := c.count(func(m made) bool { return m.verb == "delete" })
		others := len(c.made) - creates - undone
		wanted := len(c.families)
		switch {
		case c.count(func(m made) bool { return m.verb == "list" && m.resource == "ipaddresses" }) > 0:
			w.violate("Bounded", "I11", "it lists all IPAddresses for one allocation; the calls were %s", c.calls())
		case creates > wanted+collisions+undone:
			w.violate("Bounded", "I11", "%d creates for %d addresses, %d collisions and %d undone", creates, wanted, collisions, undone)
		case others > creates:
			w.violate("Bounded", "I11", "%d calls beside %d creates: at most one each, to verify; the calls were %s", others, creates, c.calls())
		}
		for _, m := range c.made {
			addr, err := netip.ParseAddr(m.name)
			if err != nil || c.static() || m.verb != "create" || !apierrors.IsAlreadyExists(m.answer) {
				continue
			}
			h, held := w.held[addr]
			if held && h.by == c.r.name && h.life == c.r.process.life && c.begin.Sub(h.since) < ownMemory && h.since.Before(c.begin) {
				w.violate("Bounded", "I11", "it picked %s, which it had itself confirmed to %s in step %d, %s before", addr, h.owner, h.step, c.begin.Sub(h.since))
			}
		}
		if !c.fault.refuses() || creates == 0 {
			return
		}
		switch {
		case c.err == nil && c.fault != noFault:
			w.violate("Bounded", "I11", "its create was refused, and it went on; the calls were %s", c.calls())
		case creates > 1:
			w.violate("Bounded", "I11", "its create was refused, and it made %d more; the calls were %s", creates-1, c.calls())
		case c.outcome != APIError:
			w.violate("Bounded", "I11", "its create was refused, and it said %s: %v", c.outcome, c.err)
		case apierrors.ReasonForError(c.fault.err()) != apierrors.ReasonForError(c.err), !sameStatus(c.err, c.fault.err()):
			w.violate("Bounded", "I11", "its create was refused with %q, and the caller got %q", c.fault.err(), c.err)
		}
	}}
}

// ownMemory is for how long an allocator has to remember what it confirmed, however
// late its watch is.
const ownMemory = 20 * time.Second

// sameStatus reports that got wraps an API status if want is one.
func sameStatus(got, want error) bool {
	var status apierrors.APIStatus
	return !errors.As(want, &status) || errors.As(got, &status)
}

// calls lists the API calls of the call.
func (c *call) calls() string {
	var out string
	for i, m := range c.made {
		if i > 0 {
			out += ", "
		}
		out += m.verb + " " + m.resource + " " + m.name
	}
	return out
}
