// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

// This file is the B+tree of AddrSet: how to go down it, and how to change it. A change goes
//
//	find     the way down, read only; nothing to do? then nothing has been copied
//	own      the nodes on that way, from the root, are made ours (copied, if they are shared)
//	a verb   insertRun, removeRun, or a change of a run's end with addCount and fixFirst; they keep the counts
//	         and first addresses above exact, split what is full and rebalance what is nearly empty

// position is the way to a number x: to the last run that begins at or before it.
type position struct {
	path    [maxHeight]step
	leaf    *leaf
	at      int // the run in leaf; -1 if x is before all runs
	next    Uint128
	hasNext bool // whether there is a run after that, in whatever leaf; it begins at next
}

// step is one inner node on the way, and the child that was taken.
type step struct {
	node *inner
	at   int
}

// seek goes down to the last run that begins at or before x; i is -1 if there is none. One node is visited for each
// level.
func (s *AddrSet) seek(x Uint128) (l *leaf, i int) {
	c := &s.root
	for range s.height {
		n := c.inner
		c = &n.kid[max(0, upper(&n.first, n.n, x)-1)]
	}
	return c.leaf, upper(&c.leaf.first, c.leaf.n, x) - 1
}

// find is seek that remembers the way, and the run after.
func (s *AddrSet) find(x Uint128, p *position) {
	p.hasNext = false
	c := &s.root
	for d := range s.height {
		n := c.inner
		i := max(0, upper(&n.first, n.n, x)-1)
		if i+1 < n.n {
			p.next, p.hasNext = n.first[i+1], true
		}
		p.path[d] = step{n, i}
		c = &n.kid[i]
	}
	p.leaf = c.leaf
	p.at = upper(&p.leaf.first, p.leaf.n, x) - 1
	if p.at+1 < p.leaf.n {
		p.next, p.hasNext = p.leaf.first[p.at+1], true
	}
}

// rank returns how many numbers below x are in the set, and whether x is.
func (s *AddrSet) rank(x Uint128) (below uint64, has bool) {
	c := &s.root
	for range s.height {
		n := c.inner
		i := max(0, upper(&n.first, n.n, x)-1)
		for _, k := range n.count[:i] {
			below += k
		}
		c = &n.kid[i]
	}
	l := c.leaf
	i := upper(&l.first, l.n, x) - 1
	if i < 0 {
		return below, false
	}
	for j := range i {
		below += runLen(l.first[j], l.last[j])
	}
	if l.last[i].Less(x) {
		return below + runLen(l.first[i], l.last[i]), false
	}
	return below + x.Lo - l.first[i].Lo, true
}

// selectAbsent returns the k-th number, counted from 0, that is not in the set; ok is false if it is not below 2^128.
func (s *AddrSet) selectAbsent(k Uint128) (x Uint128, ok bool) {
	// Before the entry that begins at f, with p numbers present to the left of it, f-p are absent. That grows from
	// entry to entry: the last one where it is at most k is the one before the answer, which is k plus the number
	// present before it.
	var present uint64
	c := &s.root
	for range s.height {
		n := c.inner
		i := 0
		for i+1 < n.n && !k.Less(n.first[i+1].Sub(Uint128{Lo: present + n.count[i]})) {
			present += n.count[i]
			i++
		}
		c = &n.kid[i]
	}
	l := c.leaf
	for i := 0; i < l.n && !k.Less(l.first[i].Sub(Uint128{Lo: present})); i++ {
		present += runLen(l.first[i], l.last[i])
	}
	x = k.Add(Uint128{Lo: present})
	return x, !x.Less(k)
}

// own makes the nodes on the way to p the set's own.
func (s *AddrSet) own(p *position) {
	o := s.owner.Load()
	c := &s.root
	for d := range s.height {
		c.own(o)
		p.path[d].node = c.inner
		c = &c.inner.kid[p.path[d].at]
	}
	c.own(o)
	p.leaf = c.leaf
}

// addCount adds delta, modulo 2^64, to the number of addresses in the leaf of p.
func (s *AddrSet) addCount(p *position, delta uint64) {
	s.len += delta
	for _, st := range p.path[:s.height] {
		st.node.count[st.at] += delta
	}
}

// fixFirst sets the first address of the leaf of p in the nodes above, where it may have changed.
func (s *AddrSet) fixFirst(p *position) {
	if p.leaf.n == 0 {
		return // the root
	}
	first := p.leaf.first[0]
	for d := s.height - 1; d >= 0; d-- {
		st := p.path[d]
		st.node.first[st.at] = first
		if st.at > 0 {
			return
		}
	}
}

// insertRun puts a run after p, in the same leaf, which it may split; p is no longer valid then. The run must touch no
// other, and its addresses are not counted yet.
func (s *AddrSet) insertRun(p *position, first, last Uint128) {
	s.addCount(p, runLen(first, last))
	l, i := p.leaf, p.at+1
	if l.n < s.limit {
		l.insert(i, first, last)
		s.fixFirst(p)
		return
	}
	r := &leaf{owner: l.owner}
	l.share(r, l.n/2)
	if i <= l.n {
		l.insert(i, first, last)
	} else {
		r.insert(i-l.n, first, last)
	}
	s.fixFirst(p)
	s.insertChild(p, s.height-1, child{leaf: r})
}

// insertChild puts a node that was split off to the right of the one on the way to p, below the inner node at depth d.
func (s *AddrSet) insertChild(p *position, d int, kid child) {
	first, count := kid.first(), kid.total()
	if d < 0 {
		root := &inner{owner: s.owner.Load()}
		root.insert(0, s.root.first(), s.len-count, s.root)
		root.insert(1, first, count, kid)
		s.root = child{inner: root}
		s.height++
		return
	}
	n, i := p.path[d].node, p.path[d].at+1
	n.count[i-1] -= count
	if n.n < s.limit {
		n.insert(i, first, count, kid)
		return
	}
	r := &inner{owner: n.owner}
	n.share(r, n.n/2)
	if i <= n.n {
		n.insert(i, first, count, kid)
	} else {
		r.insert(i-n.n, first, count, kid)
	}
	s.insertChild(p, d-1, child{inner: r})
}

// removeRun removes the run at p, addresses and all; p is no longer valid then.
func (s *AddrSet) removeRun(p *position) {
	l, i := p.leaf, p.at
	s.addCount(p, minus(runLen(l.first[i], l.last[i])))
	l.remove(i)
	s.fixFirst(p)
	s.rebalance(p)
}

// least returns how many entries a node must have, the root excepted.
func (s *AddrSet) least() int { return max(2, s.limit/4) }

// rebalance merges the leaf of p with a neighbour, or shares with it, if it has too few entries, and so on upwards.
//
// A merged node is at most three quarters full and one that has been shared or split is about half full, while a
// quarter is the least: so many writes must pass before the next change of shape, even when they come and go.
func (s *AddrSet) rebalance(p *position) {
	if p.leaf.n >= s.least() {
		return
	}
	for d := s.height - 1; d >= 0; d-- {
		n := p.path[d].node
		if n.kid[p.path[d].at].entries() >= s.least() {
			return
		}
		i := max(0, p.path[d].at-1) // it and its right neighbour, or its left neighbour and it
		n.kid[i].own(n.owner)
		n.kid[i+1].own(n.owner)
		a, b := n.kid[i], n.kid[i+1]
		if sum := a.entries() + b.entries(); sum <= s.limit*3/4 {
			a.share(b, sum)
			n.count[i] += n.count[i+1]
			n.remove(i + 1)
		} else {
			a.share(b, sum/2)
			both := n.count[i] + n.count[i+1]
			n.count[i+1] = b.total()
			n.count[i] = both - n.count[i+1]
			n.first[i+1] = b.first()
		}
	}
	if s.height > 0 && s.root.inner.n == 1 {
		s.root = s.root.inner.kid[0]
		s.height--
	}
}
