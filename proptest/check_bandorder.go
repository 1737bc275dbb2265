// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"slices"

	"github.com/metacidr/metacidr/cidr"
)

// checkBandOrder is I4: no dynamic allocation lands in a static band while any
// maximal CIDR has a free dynamic address. Under overlap an address can be static in
// one prefix and dynamic in another: it is blamed only if it is dynamic in none that
// may have been ready.
func checkBandOrder() check {
	return check{call: func(w *world, c *call) {
		if c.static() || !c.known.valid {
			return
		}
		for _, addr := range c.got {
			f := cidr.FamilyOf(addr)
			dynamic := false
			for r := range c.known.readyPossible {
				dynamic = dynamic || r.Band(addr) == cidr.BandDynamic
			}
			if dynamic {
				continue
			}
			free, r, ok := c.certainlyFree(f, c.known.maximalPart(cidr.Range.Dynamic))
			if ok && !slices.Contains(c.got, free) {
				w.violate("BandOrder", "I4", "%s is in a static band, although %s in the dynamic band of %s was free%s", addr, free, r, always)
			}
		}
	}}
}
