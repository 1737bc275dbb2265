// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"slices"

	"github.com/metacidr/metacidr/informer"
)

// checkCovered is I7: every confirmed address is usable in at least one ServiceCIDR
// object that exists, whatever was deleted meanwhile.
func checkCovered() check {
	return check{always: func(w *world) {
		for _, addr := range sortedAddrs(w.held) {
			if !slices.ContainsFunc(w.truth.rows, func(c *informer.ServiceCIDR) bool { return c.CoversUsable(addr) }) {
				h := w.held[addr]
				w.violate("FinalizerSafety", "I7", "%s, confirmed to %s by %s in step %d, is usable in no ServiceCIDR that exists", addr, h.owner, h.by, h.step)
			}
		}
	}}
}
