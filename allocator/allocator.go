// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Allocator allocates out of one range. It is safe for concurrent use. Whether
// the range is ready is its user's concern.
type Allocator struct {
	pool  *Pool
	rng   cidr.Range
	spans [NumPhases]cidr.Span

	// free is how many addresses are free in each phase. The pool's lock guards
	// it, and it is kept only for ranges that the pool tracks.
	free [NumPhases]cidr.Uint128
}

func newAllocator(p *Pool, r cidr.Range) *Allocator {
	a := &Allocator{pool: p, rng: r}
	for phase := range NumPhases {
		a.spans[phase] = r.BandSpan(phase.Band())
	}
	return a
}

// Range is what the allocator allocates from.
func (a *Allocator) Range() cidr.Range { return a.rng }

// Reservation is an address that this process will not pick again before the
// reservation is settled: by Pool.Claim, or by Cancel.
type Reservation struct {
	Addr netip.Addr
	// Range and Phase say where it was picked, zero and NumPhases for an
	// address that was asked for.
	Range cidr.Range
	Phase Phase

	pool  *Pool
	hold  *hold
	nonce uint64
}

// Cancel gives up an address that was not claimed. It may be called twice.
func (r Reservation) Cancel() {
	if r.pool != nil {
		r.pool.settle(r, ended)
	}
}

// Reserve picks a free address of the phase's band and reserves it. It reports
// false if none is free in that phase. It makes no API call and, but for growth
// of the ordered set, no garbage.
func (a *Allocator) Reserve(phase Phase) (Reservation, bool) {
	p := a.pool
	now := p.config.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now, 8)
	addr, ok := a.pick(phase)
	if !ok {
		return Reservation{}, false
	}
	h := p.hold(p.space(a.rng.Family()), cidr.ToUint128(addr), addr)
	return Reservation{Addr: addr, Range: a.rng, Phase: phase, pool: p, hold: h, nonce: h.nonce}, true
}

// Peek picks as Reserve does and reserves nothing.
func (a *Allocator) Peek(phase Phase) (netip.Addr, bool) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.pick(phase)
}

// pick is the random scan. The pool's lock is held.
func (a *Allocator) pick(phase Phase) (netip.Addr, bool) {
	span := a.spans[phase]
	if span.IsEmpty() {
		return netip.Addr{}, false
	}
	s := a.pool.space(a.rng.Family())
	start := span.At(cidr.RandBelow(a.pool.random, span.Size()))
	if addr, ok := s.firstFree(span, start, phase.Rested()); ok {
		return addr, true
	}
	return s.firstFree(span, span.First, phase.Rested())
}

// Free is how many addresses are neither present nor held, per band.
func (a *Allocator) Free(b cidr.Band) cidr.Uint128 {
	now := a.pool.config.Clock.Now()
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.pool.expire(now, math.MaxInt/2)
	return a.freeIn(phaseOf(b, false))
}

func (a *Allocator) freeIn(phase Phase) cidr.Uint128 {
	s, span := a.pool.space(a.rng.Family()), a.spans[phase]
	n := s.busy.Count(span)
	if !phase.Rested() {
		n -= s.resting.Count(span)
	}
	return span.Size().Sub(cidr.U128(n))
}

// recount computes the counts anew. The pool's lock is held.
func (a *Allocator) recount() {
	for phase := range NumPhases {
		a.free[phase] = a.freeIn(phase)
		a.pool.config.Observer.FreeChanged(a, phase, a.free[phase])
	}
}

// adjust counts one address. The pool's lock is held.
func (a *Allocator) adjust(phase Phase, free bool) {
	one := cidr.U128(uint(1))
	if free {
		a.free[phase] = a.free[phase].Add(one)
	} else {
		a.free[phase] = a.free[phase].Sub(one)
	}
	a.pool.config.Observer.FreeChanged(a, phase, a.free[phase])
}

// AllocateNext allocates any address of the range, of the dynamic band first,
// then of the static one. Errors: ErrFull, ErrNotSynced, ErrInvalidRequest, or
// the API server's.
func (a *Allocator) AllocateNext(ctx context.Context, owner informer.Owner) (Allocation, error) {
	return a.pool.AllocateNext(ctx, owner, &rangePicker{Allocator: a})
}

// rangePicker picks from one range, phase by phase.
type rangePicker struct {
	*Allocator
	retried []netip.Addr
}

func (p *rangePicker) Pick() (Reservation, error) {
	for phase := range NumPhases {
		if r, ok := p.Reserve(phase); ok {
			return r, nil
		}
	}
	r, ok := p.pool.ReserveUnknown(p.rng.Family(), func(addr netip.Addr) bool {
		return p.rng.Contains(addr) && !slices.Contains(p.retried, addr)
	})
	if !ok {
		return Reservation{}, fmt.Errorf("%w: %s", ErrFull, p.rng)
	}
	r.Range, p.retried = p.rng, append(p.retried, r.Addr)
	return r, nil
}

func (*rangePicker) Rejected(Reservation, error) {}

// Allocate allocates the given address, of either band. Errors: ErrNotInRange,
// ErrAllocated, ErrNotCovered, ErrNotSynced, ErrInvalidRequest, or the API
// server's.
func (a *Allocator) Allocate(ctx context.Context, owner informer.Owner, addr netip.Addr) (Allocation, error) {
	if !a.rng.Contains(addr) {
		return Allocation{}, fmt.Errorf("%w: %s is not among the usable addresses of %s, %s", ErrNotInRange, addr, a.rng, a.rng.Usable())
	}
	allocation, err := a.pool.AllocateAt(ctx, owner, addr)
	allocation.Range = a.rng
	return allocation, err
}

// Release gives an address back: see Pool.Release.
func (a *Allocator) Release(ctx context.Context, owner informer.Owner, addr netip.Addr) error {
	return a.pool.Release(ctx, owner, addr)
}
