// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// addrModel is the obviously right set: a sorted slice of numbers, gone through from end to end.
type addrModel struct {
	family Family
	nums   []Uint128
}

func (m *addrModel) clone() *addrModel { return &addrModel{m.family, slices.Clone(m.nums)} }

func (m *addrModel) find(x Uint128) (int, bool) {
	return slices.BinarySearchFunc(m.nums, x, Uint128.Cmp)
}

func (m *addrModel) add(x Uint128) bool {
	i, has := m.find(x)
	if !has {
		m.nums = slices.Insert(m.nums, i, x)
	}
	return !has
}

func (m *addrModel) remove(x Uint128) bool {
	i, has := m.find(x)
	if has {
		m.nums = slices.Delete(m.nums, i, i+1)
	}
	return has
}

func (m *addrModel) has(x Uint128) bool { _, ok := m.find(x); return ok }

func (m *addrModel) within(first, last Uint128) (in []Uint128) {
	for _, x := range m.nums {
		if first.Cmp(x) <= 0 && x.Cmp(last) <= 0 {
			in = append(in, x)
		}
	}
	return in
}

// nextAbsent walks, one address after the other.
func (m *addrModel) nextAbsent(x, last Uint128) (Uint128, bool) {
	for x.Cmp(last) <= 0 {
		if !m.has(x) && !(m.family == IPv6 && isMapped(x)) {
			return x, true
		}
		if x == MaxUint128() {
			break
		}
		x = x.Add(U128(uint(1)))
	}
	return Uint128{}, false
}

// kthAbsent skips from hole to hole.
func (m *addrModel) kthAbsent(first, last, k Uint128) (Uint128, bool) {
	x, ok := m.nextAbsent(first, last)
	for ; ok && !k.IsZero(); k = k.Sub(U128(uint(1))) {
		if x == last {
			return Uint128{}, false
		}
		x, ok = m.nextAbsent(x.Add(U128(uint(1))), last)
	}
	return x, ok
}

// universe is a window of consecutive numbers, small, so that runs meet, merge and split all the time.
type universe struct {
	family Family
	base   Uint128
	size   uint64
}

func (u universe) String() string {
	return fmt.Sprintf("%d from %v", u.size, FromUint128(u.family, u.base))
}

// universes are at the places where arithmetic could go wrong.
func universes() []universe {
	const size = 160
	end := U128(uint(size - 1))
	return []universe{
		{IPv4, Uint128{}, size},
		{IPv4, ToUint128(netip.MustParseAddr("10.95.255.200")), size},
		{IPv4, Uint128{Lo: math.MaxUint32}.Sub(end), size},
		{IPv6, Uint128{}, size},
		{IPv6, Uint128{Lo: mappedFirst - size}, size},
		{IPv6, Uint128{Lo: mappedLast + 1}, size},
		{IPv6, Uint128{Hi: 0x20010db8, Lo: math.MaxUint64 - size/2}, size}, // across 2^64
		{IPv6, Uint128{Hi: 0x20010db8, Lo: 1<<63 - size/2}, size},
		{IPv6, MaxUint128().Sub(end), size},
	}
}

// addrMachine runs a few sets, clones of each other, beside their models.
type addrMachine struct {
	u      universe
	sets   []*AddrSet
	models []*addrModel
}

func (m *addrMachine) draw(t *rapid.T) int { return rapid.IntRange(0, len(m.sets)-1).Draw(t, "set") }

func (m *addrMachine) number(t *rapid.T, name string) Uint128 {
	return m.u.base.Add(U128(rapid.Uint64Range(0, m.u.size-1).Draw(t, name)))
}

func (m *addrMachine) span(t *rapid.T) (first, last Uint128, sp Span) {
	first, last = m.number(t, "first"), m.number(t, "last")
	if last.Less(first) {
		first, last = last, first
	}
	return first, last, spanOf(m.u.family, first, last)
}

func (m *addrMachine) addr(x Uint128) netip.Addr { return FromUint128(m.u.family, x) }

func (m *addrMachine) Add(t *rapid.T) {
	i, x := m.draw(t), m.number(t, "addr")
	if got, want := m.sets[i].Add(m.addr(x)), m.models[i].add(x); got != want {
		t.Fatalf("Add(%v) = %v, want %v", m.addr(x), got, want)
	}
}

func (m *addrMachine) Remove(t *rapid.T) {
	i, x := m.draw(t), m.number(t, "addr")
	if got, want := m.sets[i].Remove(m.addr(x)), m.models[i].remove(x); got != want {
		t.Fatalf("Remove(%v) = %v, want %v", m.addr(x), got, want)
	}
}

// AddSome makes many short runs, so that the tree grows.
func (m *addrMachine) AddSome(t *rapid.T) {
	i, x := m.draw(t), m.number(t, "addr")
	step := U128(rapid.Uint64Range(1, 3).Draw(t, "step"))
	for range rapid.IntRange(1, 60).Draw(t, "n") {
		if m.u.base.Add(U128(m.u.size - 1)).Sub(step).Less(x) {
			break
		}
		if got, want := m.sets[i].Add(m.addr(x)), m.models[i].add(x); got != want {
			t.Fatalf("Add(%v) = %v, want %v", m.addr(x), got, want)
		}
		x = x.Add(step)
	}
}

// RemoveSpan empties a stretch, so that the tree shrinks.
func (m *addrMachine) RemoveSpan(t *rapid.T) {
	i := m.draw(t)
	first, last, _ := m.span(t)
	for _, x := range m.models[i].within(first, last) {
		if !m.sets[i].Remove(m.addr(x)) || !m.models[i].remove(x) {
			t.Fatalf("Remove(%v) = false", m.addr(x))
		}
	}
}

func (m *addrMachine) Clone(t *rapid.T) {
	i := m.draw(t)
	set, model := m.sets[i].Clone(), m.models[i].clone()
	if len(m.sets) < 4 {
		m.sets, m.models = append(m.sets, set), append(m.models, model)
		return
	}
	j := m.draw(t)
	m.sets[j], m.models[j] = set, model
}

func (m *addrMachine) FirstAbsent(t *rapid.T) {
	i, x := m.draw(t), m.number(t, "at")
	first, last, sp := m.span(t)
	got, ok := m.sets[i].FirstAbsent(sp, m.addr(x))
	if x.Less(first) {
		x = first
	}
	want, wantOK := m.models[i].nextAbsent(x, last)
	if ok != wantOK || ok && got != m.addr(want) {
		t.Fatalf("FirstAbsent(%v, %v) = %v, %v, want %v, %v", sp, m.addr(x), got, ok, m.addr(want), wantOK)
	}
}

func (m *addrMachine) FirstPresent(t *rapid.T) {
	i, x := m.draw(t), m.number(t, "at")
	first, last, sp := m.span(t)
	got, ok := m.sets[i].FirstPresent(sp, m.addr(x))
	if x.Less(first) {
		x = first
	}
	want := m.models[i].within(x, last)
	if ok != (len(want) > 0) || ok && got != m.addr(want[0]) {
		t.Fatalf("FirstPresent(%v, %v) = %v, %v, want the first of %v", sp, m.addr(x), got, ok, want)
	}
}

func (m *addrMachine) KthAbsent(t *rapid.T) {
	i := m.draw(t)
	first, last, sp := m.span(t)
	k := U128(rapid.Uint64Range(0, m.u.size).Draw(t, "k"))
	got, ok := m.sets[i].KthAbsent(sp, k)
	want, wantOK := m.models[i].kthAbsent(first, last, k)
	if ok != wantOK || ok && got != m.addr(want) {
		t.Fatalf("KthAbsent(%v, %v) = %v, %v, want %v, %v", sp, k, got, ok, m.addr(want), wantOK)
	}
}

func (m *addrMachine) Count(t *rapid.T) {
	i := m.draw(t)
	first, last, sp := m.span(t)
	if got, want := m.sets[i].Count(sp), len(m.models[i].within(first, last)); got != uint64(want) {
		t.Fatalf("Count(%v) = %d, want %d", sp, got, want)
	}
}

func (m *addrMachine) Within(t *rapid.T) {
	i := m.draw(t)
	first, last, sp := m.span(t)
	want := m.models[i].within(first, last)
	if len(want) > 0 { // stop early, at times
		want = want[:rapid.IntRange(1, len(want)).Draw(t, "upTo")]
	}
	var got []Uint128
	for a := range m.sets[i].Within(sp) {
		got = append(got, ToUint128(a))
		if len(got) == len(want) {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("Within(%v) = %v, want %v", sp, got, want)
	}
}

// Check compares every set with its model, whichever of them was written to: clones must not leak into each other.
func (m *addrMachine) Check(t *rapid.T) {
	for i, s := range m.sets {
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		want := m.models[i].nums
		if s.Len() != uint64(len(want)) {
			t.Fatalf("set %d: Len() = %d, want %d", i, s.Len(), len(want))
		}
		n := 0
		for a := range s.All() {
			if n >= len(want) || a != m.addr(want[n]) {
				t.Fatalf("set %d: All() differs at its element %d, %v", i, n, a)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("set %d: All() has %d addresses, want %d", i, n, len(want))
		}
	}
}

// addrSetProperty is the whole of AddrSet against the model.
func addrSetProperty(t *rapid.T) {
	u := rapid.SampledFrom(universes()).Draw(t, "universe")
	// With a small limit a hundred runs make a tree of several levels.
	limit := rapid.SampledFrom([]int{4, 5, 8, fanout}).Draw(t, "limit")
	m := &addrMachine{u: u, sets: []*AddrSet{newAddrSet(u.family, limit)}, models: []*addrModel{{family: u.family}}}
	t.Repeat(map[string]func(*rapid.T){
		"":             m.Check,
		"Add":          m.Add,
		"Remove":       m.Remove,
		"AddSome":      m.AddSome,
		"RemoveSpan":   m.RemoveSpan,
		"Clone":        m.Clone,
		"FirstAbsent":  m.FirstAbsent,
		"FirstPresent": m.FirstPresent,
		"KthAbsent":    m.KthAbsent,
		"Count":        m.Count,
		"Within":       m.Within,
	})
}

func TestAddrSetEqualsModel(t *testing.T) { rapid.Check(t, addrSetProperty) }

func FuzzAddrSet(f *testing.F) { f.Fuzz(rapid.MakeFuzz(addrSetProperty)) }
