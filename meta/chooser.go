// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"math/rand/v2"
	"sync"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/weighting"
)

// chooser draws the CIDR of an allocation. It keeps one weighted tree per
// family and phase, updated by each address that is taken or freed, so that a
// draw costs O(log n) however many CIDRs there are.
type chooser struct {
	strategy weighting.Strategy

	// mu guards what follows. The pool's lock may be held when it is taken,
	// never the other way round.
	mu      sync.Mutex
	random  rand.Source
	entries map[*allocator.Allocator]*entry
	ballots [2]ballot
}

// entry is what is known of one allocator.
type entry struct {
	free     [allocator.NumPhases]cidr.Uint128
	slot     int // in its family's ballot, -1 if it is in none
	priority int32
}

// ballot is the maximal ready CIDRs of one family. Slot i of every tree is
// allocators[i].
type ballot struct {
	allocators []*allocator.Allocator
	trees      [allocator.NumPhases]*weighting.Tree
}

func newChooser(strategy weighting.Strategy, random rand.Source) *chooser {
	c := &chooser{strategy: strategy, random: random, entries: map[*allocator.Allocator]*entry{}}
	for i := range c.ballots {
		c.ballots[i] = newBallot(nil)
	}
	return c
}

func newBallot(as []*allocator.Allocator) ballot {
	b := ballot{allocators: as}
	for phase := range b.trees {
		b.trees[phase] = weighting.NewTree(len(as))
	}
	return b
}

// freeChanged takes a count of the pool, whose lock is held.
func (c *chooser) freeChanged(a *allocator.Allocator, phase allocator.Phase, free cidr.Uint128) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[a]
	if e == nil {
		e = &entry{slot: -1}
		c.entries[a] = e
	}
	e.free[phase] = free
	if e.slot >= 0 {
		c.weigh(a, e, phase)
	}
}

func (c *chooser) weigh(a *allocator.Allocator, e *entry, phase allocator.Phase) {
	c.ballots[a.Range().Family().Index()].trees[phase].Set(e.slot, c.strategy.Rank(weighting.Candidate{
		Free:     e.free[phase],
		Size:     a.Range().BandSpan(phase.Band()).Size(),
		Priority: e.priority,
	}))
}

// replace makes the given CIDRs the ones to draw among.
func (c *chooser) replace(allocators []*allocator.Allocator, prefixes []*informer.Prefix) {
	var families [2][]*allocator.Allocator
	for _, a := range allocators {
		i := a.Range().Family().Index()
		families[i] = append(families[i], a)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := make(map[*allocator.Allocator]*entry, len(allocators))
	for i, a := range allocators {
		e := c.entries[a]
		if e == nil {
			e = &entry{} // nothing was ever free in it
		}
		e.priority = prefixes[i].Priority
		entries[a] = e
	}
	c.entries = entries
	for i := range c.ballots {
		c.ballots[i] = newBallot(families[i])
		for slot, a := range families[i] {
			e := entries[a]
			e.slot = slot
			for phase := range allocator.NumPhases {
				c.weigh(a, e, phase)
			}
		}
	}
}

// draw draws a CIDR with room in the phase, none of those left out; nil leaves
// out none.
func (c *chooser) draw(f cidr.Family, phase allocator.Phase, leftOut func(cidr.Range) bool) (*allocator.Allocator, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := &c.ballots[f.Index()]
	if leftOut == nil {
		slot, ok := b.trees[phase].Draw(c.random)
		if !ok {
			return nil, false
		}
		return b.allocators[slot], true
	}
	d := b.trees[phase].Begin()
	defer d.End()
	for {
		slot, ok := d.Next(c.random)
		if !ok {
			return nil, false
		}
		if a := b.allocators[slot]; !leftOut(a.Range()) {
			return a, true
		}
	}
}
