// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"net/netip"
	"time"

	"github.com/metacidr/metacidr/cidr"
)

// space is what a pool knows of one family's addresses. Keys are the addresses
// as numbers.
//
//	view shows it  --+
//	                 +--> taken --+
//	holds          --+            +--> busy
//	resting        ---------------+
//
// Taken and resting are disjoint, so taken is not kept: it is busy without
// resting. The pool's lock guards all.
type space struct {
	family  cidr.Family
	busy    *cidr.AddrSet // taken, or resting
	resting *cidr.AddrSet
	present *cidr.AddrSet // what the view showed last; never changed here

	holds map[cidr.Uint128]*hold
	// expiring are the holds that end by themselves, in the order of their
	// deadlines, for all last equally long.
	expiring queue[*hold]

	until map[cidr.Uint128]time.Time // of each resting one
	rests queue[rest]                // in the order of their deadlines
}

func newSpace(f cidr.Family) *space {
	return &space{
		family: f, busy: cidr.NewAddrSet(f), resting: cidr.NewAddrSet(f), present: cidr.NewAddrSet(f),
		holds: map[cidr.Uint128]*hold{}, until: map[cidr.Uint128]time.Time{},
	}
}

// firstFree returns the first address of the span at or after the given one
// that is not busy, or with resting ones, not taken.
func (s *space) firstFree(span cidr.Span, at netip.Addr, rested bool) (netip.Addr, bool) {
	addr, ok := s.busy.FirstAbsent(span, at)
	if !rested {
		if resting, found := s.resting.FirstPresent(span, at); found && (!ok || resting.Less(addr)) {
			return resting, true
		}
	}
	return addr, ok
}

// Taken is a set of addresses that are present or held: a copy, safe for
// concurrent use.
type Taken struct{ busy, resting *cidr.AddrSet }

// Has reports whether the address is taken.
func (t Taken) Has(addr netip.Addr) bool { return t.busy.Has(addr) && !t.resting.Has(addr) }

// Count is how many addresses of the span are taken.
func (t Taken) Count(span cidr.Span) uint64 { return t.busy.Count(span) - t.resting.Count(span) }

type rest struct {
	key   cidr.Uint128
	until time.Time
}

// hold keeps an address from being picked before the view shows it, or without
// the view ever showing it. Several calls may hold one address: a static
// request does not ask who else does.
type hold struct {
	key   cidr.Uint128
	nonce uint64 // of the call, from 1; the object it creates bears it
	state holdState
	seen  bool      // the view has shown the call's object
	other bool      // the view has shown another's object during the call
	until time.Time // when a hold without a call ends by itself
	next  *hold     // of the same address
}

type holdState uint8

const (
	// inFlight: a call is at work. It ends the hold.
	inFlight holdState = iota
	// created: the call has succeeded; ends when the view shows its object.
	created
	// collided: the API server has an object of somebody else's. Ends when the
	// view shows one.
	collided
	// unknown: the call has failed, and the API server may have its object or
	// not. Ends when the view shows one.
	unknown
	// ended: not in holds any more.
	ended
)

// queue is a first-in first-out list.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

func (q *queue[T]) front() (item T, ok bool) {
	if q.head == len(q.items) {
		return item, false
	}
	return q.items[q.head], true
}

func (q *queue[T]) pop() {
	var zero T
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

// maxOrphans bounds how many failed calls are remembered. What a forgotten one
// left is a repair controller's.
const maxOrphans = 4096

// orphans remembers the nonces of failed calls whose object may yet appear.
type orphans struct {
	nonces map[uint64]struct{}
	order  queue[uint64]
}

func (o *orphans) add(nonce uint64) {
	if o.nonces == nil {
		o.nonces = map[uint64]struct{}{}
	}
	o.nonces[nonce] = struct{}{}
	o.order.push(nonce)
	if oldest, _ := o.order.front(); len(o.order.items)-o.order.head > maxOrphans {
		o.order.pop()
		delete(o.nonces, oldest)
	}
}

// take reports whether the nonce is remembered, and forgets it.
func (o *orphans) take(nonce uint64) bool {
	_, ok := o.nonces[nonce]
	delete(o.nonces, nonce)
	return ok
}
