// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

// checkNoLeak is I9: when all has arrived and the time for cleaning up has passed,
// the only IPAddresses are those that are held and those of strangers. What was
// made in a life that has ended since is excused: a repair controller collects it.
func checkNoLeak() check {
	return check{settled: func(w *world) {
		for _, addr := range sortedAddrs(w.truth.addrs) {
			s := w.truth.addrs[addr]
			maker, known := w.maker[s.uid]
			if w.foreign[s.uid] || known && *maker.dead {
				continue
			}
			if h, ok := w.held[addr]; ok && h.uid == s.uid {
				continue
			}
			w.violate("NoLeak", "I9", "IPAddress %s of %s (%s), made by %s, is held by nobody and was left behind", addr, s.owner, s.uid, maker.name)
		}
	}}
}
