// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
)

func TestAddrSetAtTheEndsOfTheWorld(t *testing.T) {
	for _, f := range []Family{IPv4, IPv6} {
		everything := spanOf(f, Uint128{}, f.max())
		first, last := everything.First, everything.Last
		s := NewAddrSet(f)
		check := func(what string, ok bool) {
			t.Helper()
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			if !ok {
				t.Errorf("%v: %s", f, what)
			}
		}
		check("the last address goes in once", s.Add(last) && !s.Add(last))
		check("the first one too", s.Add(first) && !s.Add(first))
		check("both are in", s.Has(first) && s.Has(last) && s.Len() == 2 && s.Count(everything) == 2)
		_, ok := s.FirstAbsent(everything, last)
		check("nothing is absent after the last", !ok)
		a, ok := s.FirstAbsent(everything, first)
		check("the second is absent", ok && a == first.Next())
		a, ok = s.FirstPresent(everything, first.Next())
		check("the last is the next present", ok && a == last)
		a, ok = s.KthAbsent(everything, Uint128{})
		check("the second is the absent number 0", ok && a == first.Next())
		if f == IPv4 {
			a, ok = s.KthAbsent(everything, Uint128{Lo: math.MaxUint32 - 2})
			check("the last but one is the last absent", ok && a == last.Prev())
			_, ok = s.KthAbsent(everything, Uint128{Lo: math.MaxUint32 - 1})
			check("there are no more", !ok)
		}
		_, ok = s.KthAbsent(everything, MaxUint128())
		check("there are not 2^128 absent", !ok)
		_, ok = s.KthAbsent(Span{last, last}, Uint128{})
		check("the last address is full", !ok)
		check("they are yielded in order", slices.Equal(slices.Collect(s.All()), []netip.Addr{first, last}))
		check("both go out once", s.Remove(first) && s.Remove(last) && !s.Remove(first) && !s.Remove(last) && s.Len() == 0)
	}
}

func TestAddrSetRefusesWhatItCannotHold(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")
	mapped, zoned := netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fd00::1%eth0")
	for name, tc := range map[string]struct {
		set     *AddrSet
		foreign []netip.Addr
	}{
		"IPv4":      {NewAddrSet(IPv4), []netip.Addr{v6, mapped, zoned, {}}},
		"IPv6":      {NewAddrSet(IPv6), []netip.Addr{v4, mapped, zoned, {}}},
		"no family": {NewAddrSet(0), []netip.Addr{v4, v6, mapped, zoned, {}}},
		"zero":      {new(AddrSet), []netip.Addr{v4, v6, mapped, zoned, {}}},
		"clone":     {new(AddrSet).Clone(), []netip.Addr{v4, v6, {}}},
	} {
		s := tc.set
		for _, own := range []netip.Addr{v4, v6} {
			s.Add(own)
		}
		before := s.Len()
		for _, a := range tc.foreign {
			if s.Add(a) || s.Has(a) || s.Remove(a) {
				t.Errorf("%s: took %v", name, a)
			}
			sp := Span{a, a}
			if _, ok := s.FirstAbsent(sp, a); ok {
				t.Errorf("%s: %v is absent", name, a)
			}
			if _, ok := s.FirstPresent(sp, a); ok {
				t.Errorf("%s: %v is present", name, a)
			}
			if _, ok := s.KthAbsent(sp, Uint128{}); ok || s.Count(sp) != 0 {
				t.Errorf("%s: %v has addresses", name, sp)
			}
			for x := range s.Within(sp) {
				t.Errorf("%s: yields %v", name, x)
			}
			for _, own := range []netip.Addr{v4, v6} { // a span of its own, and a start that is not
				if _, ok := s.FirstAbsent(Span{own, own.Next()}, a); ok {
					t.Errorf("%s: went on from %v in the span of %v", name, a, own)
				}
			}
		}
		if err := s.Validate(); err != nil || s.Len() != before {
			t.Errorf("%s: %v, %d addresses", name, err, s.Len())
		}
		if all := slices.Collect(s.All()); uint64(len(all)) != s.Len() || s.Len() > 1 {
			t.Errorf("%s: %d addresses, %v", name, s.Len(), all)
		}
	}
}

func TestAddrSetPassesOverTheMappedBlock(t *testing.T) {
	s := NewAddrSet(IPv6)
	before, after := FromUint128(IPv6, Uint128{Lo: mappedFirst - 1}), FromUint128(IPv6, Uint128{Lo: mappedLast + 1})
	sp := MustParse("::/64").Usable()
	if a, ok := s.KthAbsent(sp, Uint128{Lo: mappedFirst - 2}); !ok || a != before {
		t.Errorf("the last before the block is %v", a)
	}
	if a, ok := s.KthAbsent(sp, Uint128{Lo: mappedFirst - 1}); !ok || a != after {
		t.Errorf("the first after the block is %v, want %v", a, after)
	}
	const block = mappedLast - mappedFirst + 1
	if a, ok := s.KthAbsent(sp, sp.Size().Sub(U128(uint64(block+1)))); !ok || a != sp.Last {
		t.Errorf("the last is %v", a)
	}
	if a, ok := s.KthAbsent(sp, sp.Size().Sub(U128(uint64(block)))); ok {
		t.Errorf("after the last there is %v", a)
	}
	s.Add(before)
	if a, ok := s.FirstAbsent(sp, before); !ok || a != after {
		t.Errorf("the next free address after %v is %v, want %v", before, a, after)
	}
	s.Add(after)
	if a, ok := s.FirstAbsent(sp, before); !ok || a != after.Next() {
		t.Errorf("the next free address after %v is %v, want %v", before, a, after.Next())
	}
	if a, ok := s.FirstAbsent(Span{before, after}, before); ok {
		t.Errorf("%v is free", a)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// TestS52_APickInASlash64IsOneDescent bounds what a pick costs without a clock: it allocates nothing, and it visits one
// node per level (seek, rank and selectAbsent loop over the levels and nothing else), so the height bounds the visits.
func TestS52_APickInASlash64IsOneDescent(t *testing.T) {
	r := MustParse("fd00:0:0:1::/64")
	rng := rand.New(rand.NewPCG(1, 2))
	s := NewAddrSet(IPv6)
	var held []netip.Addr
	for range 100_000 {
		a := r.Usable().At(RandBelow(rng, r.Size()))
		s.Add(a)
		held = append(held, a)
	}
	checkPicks(t, s, r, held, rng)
}

// TestI6_APickInAFullSlash12IsOneDescent is the same where nearly all is taken, the free part in one cluster.
func TestI6_APickInAFullSlash12IsOneDescent(t *testing.T) {
	r := MustParse("10.96.0.0/12")
	rng := rand.New(rand.NewPCG(1, 2))
	s := NewAddrSet(IPv4)
	size, _ := r.Size().Uint64()
	var held []netip.Addr
	for k := range size {
		if a := r.Usable().At(U128(k)); k < size/2 || k > size/2+100 {
			s.Add(a)
			held = append(held, a)
		}
	}
	if s.height != 0 {
		t.Errorf("two runs take %d inner levels", s.height)
	}
	checkPicks(t, s, r, held, rng)
	for range size / 200 { // and with holes at random
		s.Remove(held[rng.IntN(len(held))])
	}
	checkPicks(t, s, r, held, rng)
}

// checkPicks checks that picks, counts and changes in s neither descend deeper than the logarithm nor allocate.
func checkPicks(t *testing.T, s *AddrSet, r Range, held []netip.Addr, rng *rand.Rand) {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	if s.height > 4 {
		t.Errorf("%d inner levels for %d addresses", s.height, s.Len())
	}
	free := r.Size().Sub(U128(s.Count(r.Usable())))
	i := 0
	allocs := testing.AllocsPerRun(10_000, func() {
		at := held[i%len(held)]
		i++
		if a, ok := s.FirstAbsent(r.Usable(), at); ok && s.Has(a) {
			t.Fatalf("%v is taken", a)
		}
		if a, ok := s.KthAbsent(r.Usable(), RandBelow(rng, free)); !ok || s.Has(a) || !r.Contains(a) {
			t.Fatalf("%v is taken, or %v", a, ok)
		}
		s.FirstPresent(r.Usable(), at)
		s.Count(Span{r.First(), at})
		if s.Remove(at) { // the same address: nothing needs to be split, apart from a full leaf now and then
			s.Add(at)
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations a pick", allocs)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
}

// TestAddrSetManyRunsStayBalanced grows a tree of the smallest nodes to its full height and takes it down again, in
// three orders.
func TestAddrSetManyRunsStayBalanced(t *testing.T) {
	const n = 3000
	orders := map[string][]int{"ascending": nil, "descending": nil, "random": rand.New(rand.NewPCG(1, 2)).Perm(n)}
	for i := range n {
		orders["ascending"] = append(orders["ascending"], i)
		orders["descending"] = append(orders["descending"], n-1-i)
	}
	for in, adding := range orders {
		for out, removing := range orders {
			t.Run(fmt.Sprintf("in_%s_out_%s", in, out), func(t *testing.T) {
				s := newAddrSet(IPv4, 4)
				addr := func(i int) netip.Addr { return FromUint128(IPv4, U128(uint(2*i))) }
				for _, i := range adding {
					if !s.Add(addr(i)) {
						t.Fatalf("Add(%v) = false", addr(i))
					}
				}
				if err := s.Validate(); err != nil {
					t.Fatal(err)
				}
				if s.height < 5 || s.height > 11 { // log4 to log2 of n
					t.Errorf("height %d for %d runs", s.height, n)
				}
				for left, i := range removing {
					if !s.Remove(addr(i)) {
						t.Fatalf("Remove(%v) = false", addr(i))
					}
					if left%500 == 0 {
						if err := s.Validate(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := s.Validate(); err != nil || s.Len() != 0 || s.height != 0 {
					t.Errorf("%d addresses, height %d are left, %v", s.Len(), s.height, err)
				}
			})
		}
	}
}

// TestAddrSetSnapshotIsReadBesideWrites is for the race detector: readers of a clone, and clones made of that, while
// the original is written to.
func TestAddrSetSnapshotIsReadBesideWrites(t *testing.T) {
	sp := MustParse("10.0.0.0/20").Usable()
	s := NewAddrSet(IPv4)
	for k := uint64(0); k < 4000; k += 2 {
		s.Add(sp.At(U128(k)))
	}
	snapshot := s.Clone()
	var wg sync.WaitGroup
	for reader := range 2 {
		wg.Go(func() {
			mine := snapshot.Clone()
			for k := uint64(1); k < 4000; k += 2 {
				mine.Add(sp.At(U128(k)))
				if a, ok := snapshot.FirstAbsent(sp, sp.First); !ok || a != sp.First.Next() {
					t.Errorf("reader %d: the snapshot has moved: %v", reader, a)
					return
				}
			}
			if snapshot.Count(sp) != 2000 || mine.Count(sp) != 4000 {
				t.Errorf("reader %d: %d in the snapshot, %d in the clone", reader, snapshot.Count(sp), mine.Count(sp))
			}
		})
	}
	for k := uint64(0); k < 4000; k++ {
		if k%3 == 0 {
			s.Remove(sp.At(U128(k)))
		} else {
			s.Add(sp.At(U128(k)))
		}
	}
	wg.Wait()
	for name, set := range map[string]*AddrSet{"original": s, "snapshot": snapshot} {
		if err := set.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValidateNamesTheFault plants faults, to see that the check the property test relies on is not blind.
func TestValidateNamesTheFault(t *testing.T) {
	for name, fault := range map[string]func(s *AddrSet){
		"a wrong Len":        func(s *AddrSet) { s.len++ },
		"a wrong count":      func(s *AddrSet) { s.root.inner.count[0]++ },
		"a wrong first":      func(s *AddrSet) { s.root.inner.first[1].Lo++ },
		"a wrong height":     func(s *AddrSet) { s.height++ },
		"runs that touch":    func(s *AddrSet) { l, _ := s.seek(Uint128{}); l.last[0].Lo++ },
		"runs that overlap":  func(s *AddrSet) { l, _ := s.seek(Uint128{}); l.last[0].Lo += 2 },
		"a backward run":     func(s *AddrSet) { l, i := s.seek(Uint128{Lo: 4}); l.last[i].Lo-- },
		"too large a number": func(s *AddrSet) { l, i := s.seek(Uint128{Lo: 198}); l.last[i].Lo = 1 << 32 },
		"an empty leaf":      func(s *AddrSet) { l, _ := s.seek(Uint128{}); l.n = 0 },
		"a node kept alive": func(s *AddrSet) {
			s.root.inner.kid[fanout-1] = s.root.inner.kid[0]
		},
	} {
		s := newAddrSet(IPv4, 4)
		for i := range uint64(100) {
			s.Add(FromUint128(IPv4, U128(2*i)))
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		if fault(s); s.Validate() == nil {
			t.Errorf("%s passes", name)
		}
	}
	s := new(AddrSet)
	if s.len = 1; s.Validate() == nil {
		t.Error("a set of no family with an address passes")
	}
}
