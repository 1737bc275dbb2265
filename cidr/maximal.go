// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import "slices"

// Maximal returns those of the ranges that no other of them covers, each once, in the order of [Range.Compare].
// Prefixes nest or are disjoint, so the result partitions the union of the input. Invalid ranges are left out; the
// input is not changed. O(n log n).
func Maximal(ranges []Range) []Range {
	sorted := slices.SortedFunc(slices.Values(ranges), Range.Compare)
	kept := sorted[:0]
	for _, r := range sorted {
		// What covers r sorts before it, and is the last one kept: between the two there is only what it covers too.
		if !r.IsValid() || len(kept) > 0 && kept[len(kept)-1].Covers(r) {
			continue
		}
		kept = append(kept, r)
	}
	return slices.Clip(kept)
}
