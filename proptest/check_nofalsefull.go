// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/metacidr/metacidr/cidr"
)

// checkNoFalseFull is I3, and the same for every other reason: an allocation that
// fails gives a reason that can be true by what the replica knows.
//
//	Full              no address is certain to be free, and a CIDR may be ready
//	NotReady          no CIDR that could serve (so with room) is certain to be ready
//	NoServiceCIDR     none of the family is certain to exist
//	NotInRange        the address is usable in no CIDR that is certain to be ready
//	AlreadyAllocated  the address had an IPAddress during the call (a late cache is
//	                  no excuse: the server is asked)
//	APIError          a call failed, or the caller gave up
func checkNoFalseFull() check {
	return check{call: func(w *world, c *call) {
		if c.err == nil || !c.known.valid || !c.wasSynced {
			return
		}
		if why := c.falseReason(); why != "" {
			w.violate("NoFalseFull", "I3", "%s is wrong: %s", c.outcome, why)
		}
	}}
}

// falseReason says why the reason that an allocation gave cannot be true, "" if it can.
func (c *call) falseReason() string {
	switch c.outcome {
	case Full, NotReady, NoServiceCIDR:
		// Of two families it is enough that one has that reason.
		why := ""
		for _, f := range c.families {
			if why = c.falseReasonIn(f); why == "" {
				return ""
			}
		}
		return why
	case NotInRange:
		for _, r := range ranges(c.known.readyCertain, cidr.FamilyOf(c.addr)) {
			if r.Contains(c.addr) {
				return fmt.Sprintf("%s was usable in %s, which was ready%s", c.addr, r, always)
			}
		}
	case AlreadyAllocated:
		switch {
		case !c.static():
			return "any address would have done"
		case !c.wasTaken:
			return fmt.Sprintf("%s had no IPAddress at any moment of the call", c.addr)
		}
	case APIError:
		if c.fault == noFault && c.interruption.what != callerGivesUp {
			return fmt.Sprintf("no call failed and the caller did not give up: %v", c.err)
		}
	case InvalidRequest:
		return fmt.Sprintf("nothing is wrong with the request: %v", c.err)
	}
	return ""
}

// always ends a sentence about what is certain.
const always = ", in every state that the replica can have seen"

// falseReasonIn is falseReason for one family of the request.
func (c *call) falseReasonIn(f cidr.Family) string {
	switch c.outcome {
	case Full:
		if c.static() {
			return "an address was asked for"
		}
		if len(ranges(c.known.readyPossible, f)) == 0 {
			return fmt.Sprintf("no %s CIDR was ready%s", f, always)
		}
		if addr, r, ok := c.certainlyFree(f, cidr.Range.Usable); ok {
			return fmt.Sprintf("%s of %s was free%s", addr, r, always)
		}
	case NotReady:
		if c.static() {
			for _, r := range ranges(c.known.readyCertain, f) {
				if c.known.maximal(r) && r.Contains(c.addr) {
					return fmt.Sprintf("%s was ready%s", r, always)
				}
			}
		} else if addr, r, ok := c.certainlyFree(f, c.known.maximalPart(cidr.Range.Usable)); ok {
			return fmt.Sprintf("%s was ready, with %s free%s", r, addr, always)
		}
	case NoServiceCIDR:
		if c.known.existCertain[f] {
			return fmt.Sprintf("there was a CIDR of %s%s", f, always)
		}
	}
	return ""
}

// ranges are those of a family, in order.
func ranges(set map[cidr.Range]bool, f cidr.Family) []cidr.Range {
	var out []cidr.Range
	for r := range set {
		if r.Family() == f {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, cidr.Range.Compare)
	return out
}

// certainlyFree finds an address in that part of a CIDR that was certain to be
// ready, and free, in every state that the replica can have seen, and that no
// failed call of its own lets it spare.
func (c *call) certainlyFree(f cidr.Family, part func(cidr.Range) cidr.Span) (netip.Addr, cidr.Range, bool) {
	for _, r := range ranges(c.known.readyCertain, f) {
		span := part(r)
		// A span is as large as the number of addresses seen, or they cannot fill it.
		n := min(span.Size().Saturate64(), uint64(len(c.known.takenPossible)+len(c.r.attempted)+1))
		for k := range n {
			if addr := span.At(cidr.U128(k)); !c.known.takenPossible[addr] && !c.r.spared(addr) {
				return addr, r, true
			}
		}
	}
	return netip.Addr{}, cidr.Range{}, false
}
