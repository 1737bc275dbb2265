// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import "fmt"

// Validate checks the structure, and returns an error that names the first fault: runs out of order or not maximal,
// a wrong count or first address, a node too full or too empty. A fault is a bug of this package. O(n), for tests.
func (s *AddrSet) Validate() error {
	if !s.family.IsValid() {
		if s.len != 0 {
			return fmt.Errorf("cidr: a set of no family has %d addresses", s.len)
		}
		return nil
	}
	v := validator{set: s}
	total, err := v.node(s.root, s.height, true)
	if err != nil {
		return fmt.Errorf("cidr: AddrSet: %w", err)
	}
	if total != s.len {
		return fmt.Errorf("cidr: AddrSet: Len is %d, but there are %d addresses", s.len, total)
	}
	return nil
}

// validator goes through the runs in order.
type validator struct {
	set  *AddrSet
	last Uint128 // the end of the run before
	seen bool    // whether there was one
}

// node checks c, which has height levels below it, and returns the number of its addresses.
func (v *validator) node(c child, height int, isRoot bool) (total uint64, err error) {
	if (c.leaf != nil) != (height == 0) || (c.inner != nil) == (height == 0) {
		return 0, fmt.Errorf("height %d: node of the wrong kind", height)
	}
	least := v.set.least()
	if isRoot {
		least = min(2*height, 2) // a root leaf may be empty, an inner root has two children
	}
	if n := c.entries(); n < least || n > v.set.limit {
		return 0, fmt.Errorf("height %d: %d entries, want %d to %d", height, n, least, v.set.limit)
	}
	if height == 0 {
		return v.runs(c.leaf)
	}
	n := c.inner
	for i := range n.n {
		count, err := v.node(n.kid[i], height-1, false)
		if err != nil {
			return 0, err
		}
		if count != n.count[i] {
			return 0, fmt.Errorf("height %d: child %d has %d addresses, recorded are %d", height, i, count, n.count[i])
		}
		if first := n.kid[i].first(); first != n.first[i] {
			return 0, fmt.Errorf("height %d: child %d begins at %v, recorded is %v", height, i, first, n.first[i])
		}
		total += count
	}
	for i := n.n; i < fanout; i++ {
		if n.kid[i] != (child{}) {
			return 0, fmt.Errorf("height %d: entry %d is not in use and keeps a node alive", height, i)
		}
	}
	return total, nil
}

// runs checks the runs of l against each other and the last one before them.
func (v *validator) runs(l *leaf) (total uint64, err error) {
	f := v.set.family
	for i := range l.n {
		first, last := l.first[i], l.last[i]
		switch {
		case last.Less(first), f.max().Less(last):
			return 0, fmt.Errorf("run %v to %v is no run of %v", first, last, f)
		case f == IPv6 && (isMapped(first) || isMapped(last)):
			return 0, fmt.Errorf("run %v to %v has IPv4-mapped addresses", first, last)
		case v.seen && !v.last.Less(first):
			return 0, fmt.Errorf("run at %v begins before the last one ends, at %v", first, v.last)
		case v.seen && v.last.Add(Uint128{Lo: 1}) == first:
			return 0, fmt.Errorf("run at %v touches the one before: it is not maximal", first)
		}
		v.last, v.seen = last, true
		total += runLen(first, last)
	}
	return total, nil
}
