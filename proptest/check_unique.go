// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

// checkUnique is I1: no address is confirmed to two live owners, and what is
// confirmed to an owner has an IPAddress that says so.
func checkUnique() check {
	return check{call: func(w *world, c *call) {
		for _, addr := range c.got {
			if c.conflict != nil {
				w.violate("Uniqueness", "I1", "%s is confirmed to %s, and was confirmed to %s by %s in step %d",
					addr, c.owner, c.conflict.owner, c.conflict.by, c.conflict.step)
				return
			}
			switch s, ok := w.truth.addrs[addr]; {
			case !ok:
				w.violate("Uniqueness", "I1", "%s is confirmed to %s, and no IPAddress is there", addr, c.owner)
			case s.owner != c.owner:
				w.violate("Uniqueness", "I1", "%s is confirmed to %s, and its IPAddress is that of %s", addr, c.owner, s.owner)
			}
		}
	}}
}
