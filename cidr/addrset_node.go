// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import "math/bits"

// fanout is the greatest number of entries in a node. Measured with BenchmarkAddrSet: from 23 to 63 reads and writes
// cost the same within about a fifth, while the first write after a Clone copies in proportion. At 31 a leaf fills a
// size class of the Go allocator, 1 KiB, to the last word.
const fanout = 31

// maxHeight bounds the inner levels. A node has a quarter of fanout at least, so memory ends long before.
const maxHeight = 16

// owner is the token by which a set knows its own nodes. It has a size, so that each has an address of its own.
type owner struct{ _ byte }

// leaf holds runs in ascending order; between two of them at least one address is absent.
type leaf struct {
	owner *owner
	n     int
	first [fanout]Uint128
	last  [fanout]Uint128
}

// inner holds children in ascending order, with the first address and the number of addresses of each, both exact.
type inner struct {
	owner *owner
	n     int
	first [fanout]Uint128
	count [fanout]uint64
	kid   [fanout]child
}

// child is a node: a leaf or an inner one, the other pointer is nil. All leaves are at the same depth.
type child struct {
	leaf  *leaf
	inner *inner
}

// runLen returns the number of addresses from first to last. A set has fewer than 2^64, so any of its runs has.
func runLen(first, last Uint128) uint64 { return last.Lo - first.Lo + 1 }

// minus is the two's complement, for addCount.
func minus(n uint64) uint64 { return -n }

// upper returns how many of the first n keys are at most x.
//
// It counts the last keys of blocks of stride, then the keys of the one block where the answer is, all without a branch
// on the outcome. That loads more keys than a binary search, but none has to wait for another: as most of the time goes
// into fetching cache lines, it is faster.
func upper(keys *[fanout]Uint128, n int, x Uint128) int {
	const stride = 6 // about the square root of fanout
	blocks := 0
	for j := stride - 1; j < n; j += stride {
		blocks += atMost(&keys[j], x)
	}
	count := blocks * stride
	block := keys[count:min(n, count+stride-1)]
	for j := range block {
		count += atMost(&block[j], x)
	}
	return count
}

// atMost returns 1 if k <= x, and 0 if not.
func atMost(k *Uint128, x Uint128) int {
	_, borrow := bits.Sub64(x.Lo, k.Lo, 0)
	_, borrow = bits.Sub64(x.Hi, k.Hi, borrow)
	return int(1 - borrow)
}

// The three ways in which entries move, for one column of a node.

// insertAt puts v at i among the n entries of col.
func insertAt[T any](col *[fanout]T, n, i int, v T) {
	copy(col[i+1:n+1], col[i:n])
	col[i] = v
}

// removeAt removes the entry i of the n of col.
func removeAt[T any](col *[fanout]T, n, i int) {
	copy(col[i:n-1], col[i+1:n])
	clear(col[n-1 : n])
}

// shareAt moves entries between the neighbours a and b, which have an and bn, until a has want.
func shareAt[T any](a, b *[fanout]T, an, bn, want int) {
	if an < want {
		k := want - an
		copy(a[an:want], b[:k])
		copy(b[:bn-k], b[k:bn])
		clear(b[bn-k : bn])
	} else {
		k := an - want
		copy(b[k:k+bn], b[:bn])
		copy(b[:k], a[want:an])
		clear(a[want:an])
	}
}

func (l *leaf) insert(i int, first, last Uint128) {
	insertAt(&l.first, l.n, i, first)
	insertAt(&l.last, l.n, i, last)
	l.n++
}

func (l *leaf) remove(i int) {
	removeAt(&l.first, l.n, i)
	removeAt(&l.last, l.n, i)
	l.n--
}

// share moves runs between l and its right neighbour until l has want of them. It splits (r is empty) and merges
// (want is all) as well.
func (l *leaf) share(r *leaf, want int) {
	shareAt(&l.first, &r.first, l.n, r.n, want)
	shareAt(&l.last, &r.last, l.n, r.n, want)
	l.n, r.n = want, l.n+r.n-want
}

// total returns the number of addresses.
func (l *leaf) total() (sum uint64) {
	for i := range l.n {
		sum += runLen(l.first[i], l.last[i])
	}
	return sum
}

func (n *inner) insert(i int, first Uint128, count uint64, kid child) {
	insertAt(&n.first, n.n, i, first)
	insertAt(&n.count, n.n, i, count)
	insertAt(&n.kid, n.n, i, kid)
	n.n++
}

func (n *inner) remove(i int) {
	removeAt(&n.first, n.n, i)
	removeAt(&n.count, n.n, i)
	removeAt(&n.kid, n.n, i)
	n.n--
}

// share is to inner nodes what leaf.share is to leaves.
func (n *inner) share(r *inner, want int) {
	shareAt(&n.first, &r.first, n.n, r.n, want)
	shareAt(&n.count, &r.count, n.n, r.n, want)
	shareAt(&n.kid, &r.kid, n.n, r.n, want)
	n.n, r.n = want, n.n+r.n-want
}

// total returns the number of addresses below.
func (n *inner) total() (sum uint64) {
	for _, c := range n.count[:n.n] {
		sum += c
	}
	return sum
}

// entries returns the number of entries of the node.
func (c child) entries() int {
	if c.leaf != nil {
		return c.leaf.n
	}
	return c.inner.n
}

// total returns the number of addresses below.
func (c child) total() uint64 {
	if c.leaf != nil {
		return c.leaf.total()
	}
	return c.inner.total()
}

// first returns the first address below. The node must not be empty.
func (c child) first() Uint128 {
	if c.leaf != nil {
		return c.leaf.first[0]
	}
	return c.inner.first[0]
}

// share is that of the two kinds of nodes.
func (c child) share(right child, want int) {
	if c.leaf != nil {
		c.leaf.share(right.leaf, want)
	} else {
		c.inner.share(right.inner, want)
	}
}

// own makes the node one of o's, by a copy if it is not.
func (c *child) own(o *owner) {
	switch {
	case c.leaf != nil && c.leaf.owner != o:
		l := *c.leaf
		l.owner = o
		c.leaf = &l
	case c.inner != nil && c.inner.owner != o:
		n := *c.inner
		n.owner = o
		c.inner = &n
	}
}

// walk yields the runs below c, cut to first to last, until yield returns false; it then does so too.
func (c child) walk(first, last Uint128, yield func(first, last Uint128) bool) bool {
	if l := c.leaf; l != nil {
		for i := max(0, upper(&l.first, l.n, first)-1); i < l.n && !last.Less(l.first[i]); i++ {
			f, t := l.first[i], l.last[i]
			if f.Less(first) {
				f = first
			}
			if last.Less(t) {
				t = last
			}
			if !t.Less(f) && !yield(f, t) {
				return false
			}
		}
		return true
	}
	n := c.inner
	for i := max(0, upper(&n.first, n.n, first)-1); i < n.n && !last.Less(n.first[i]); i++ {
		if !n.kid[i].walk(first, last, yield) {
			return false
		}
	}
	return true
}
