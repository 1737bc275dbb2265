// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

// checkSynced is the rule that a replica which does not know the cluster yet refuses
// every allocation as NotSynced, and one that does never says so: neither is Full,
// or an address that was taken before the replica started.
func checkSynced() check {
	return check{call: func(w *world, c *call) {
		switch {
		case !c.wasSynced && c.err == nil:
			w.violate("Synced", "I3", "%s allocated before its initial lists were complete", c.r.name)
		case !c.wasSynced && c.outcome != NotSynced && c.fault == noFault && c.interruption.what != callerGivesUp:
			w.violate("Synced", "I3", "%s does not know the cluster yet, and says %s: %v", c.r.name, c.outcome, c.err)
		case c.wasSynced && c.outcome == NotSynced:
			w.violate("Synced", "I3", "%s says NotSynced, and that it is synced", c.r.name)
		}
	}}
}
