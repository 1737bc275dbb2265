// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"github.com/metacidr/metacidr/cidr"
)

// checkCounts is I10: free and used add up to the size, always; and when the
// replica is in step, and no failed call lets it spare an address, used equals a
// recount. Every ready CIDR is counted.
func checkCounts() check {
	return check{always: func(w *world) {
		for _, r := range w.replicas {
			counter, ok := r.alloc.(Counter)
			if !ok || !r.known.valid {
				continue
			}
			inStep := r.known.inStep == w.story.step && !r.sparesAny()
			missing := w.truth.ready(true)
			for _, c := range counter.Counts() {
				rng, err := cidr.RangeOf(c.Prefix)
				if err != nil {
					w.violate("Counts", "I10", "%s counts a CIDR that is none: %v", r.name, err)
					return
				}
				delete(missing, rng)
				span := rng.Usable()
				if c.Band != cidr.BandNone {
					span = rng.BandSpan(c.Band)
				}
				what := c.Band.String() + " band"
				if c.Band == cidr.BandNone {
					what = "whole"
				}
				size := span.Size()
				if size.Less(c.Free) || size.Less(c.Used) || c.Free.Add(c.Used) != size {
					w.violate("Counts", "I10", "%s, %s of %s: %s free and %s used are not the %s there are", r.name, what, rng, c.Free, c.Used, size)
					return
				}
				n := uint64(0)
				for addr := range w.truth.addrs {
					if span.Contains(addr) {
						n++
					}
				}
				if inStep && c.Used != cidr.U128(n) {
					w.violate("Counts", "I10", "%s, %s of %s: %s used, %d by a recount", r.name, what, rng, c.Used, n)
					return
				}
			}
			for rng := range missing {
				if inStep {
					w.violate("Counts", "I10", "%s has no count of %s, which is ready", r.name, rng)
				}
			}
		}
	}}
}

// sparesAny reports that the replica may spare an address because of a failed call.
func (r *replica) sparesAny() bool {
	for addr := range r.attempted {
		if r.spared(addr) {
			return true
		}
	}
	return false
}
