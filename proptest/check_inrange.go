// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"slices"

	"github.com/metacidr/metacidr/cidr"
)

// checkInRange is I2: a confirmed address is of the family that was asked for, and
// was usable (neither network nor broadcast address) in a CIDR that was ready at
// some moment of the call, or a freshness lease before.
func checkInRange() check {
	return check{call: func(w *world, c *call) {
		since := c.begin.Add(-w.settings.slowestLease())
		known := map[cidr.Range]bool{}
		for r := range w.unready {
			known[r] = true
		}
		for r := range w.truth.ready(false) {
			known[r] = true
		}
		for i, addr := range c.got {
			if f := cidr.FamilyOf(addr); f != c.families[i] {
				w.violate("InRange", "I2", "%s was asked for, and %s is %s", c.families[i], addr, f)
				return
			}
			var prefixes []cidr.Range
			usable := false
			for r := range known {
				if r.Prefix().Contains(addr) {
					prefixes = append(prefixes, r)
				}
				usable = usable || r.Contains(addr) && w.readySince(r, since)
			}
			if !usable {
				slices.SortFunc(prefixes, cidr.Range.Compare)
				w.violate("InRange", "I2", "%s was usable in no CIDR that was ready during the call or a lease (%s) before; prefixes that contain it: %v",
					addr, w.settings.lease, prefixes)
				return
			}
		}
	}}
}
