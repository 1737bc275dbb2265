// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

// checkFenced is I8: what is confirmed stays, as the very object that was
// confirmed, until its own owner gives it back. A release by a stranger, a second
// release, one that was overtaken, an undo or a clean-up remove nothing else.
func checkFenced() check {
	return check{always: func(w *world) {
		for _, addr := range sortedAddrs(w.held) {
			h := w.held[addr]
			switch s, ok := w.truth.addrs[addr]; {
			case !ok:
				w.violate("Fenced", "I8", "the IPAddress of %s, confirmed to %s by %s in step %d, is gone, and the owner has not given it back", addr, h.owner, h.by, h.step)
			case s.uid != h.uid:
				w.violate("Fenced", "I8", "the IPAddress of %s, confirmed to %s by %s in step %d as %s, is another one by now, %s", addr, h.owner, h.by, h.step, h.uid, s.uid)
			}
		}
	}}
}
