// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// benchSet is a set to measure on, and places in it to do so.
type benchSet struct {
	name string
	set  *AddrSet
	span Span
	at   []netip.Addr // present or absent, at random all over the span
}

// benchSets fills a /12 at random to several degrees, and with its free space in one cluster, and a /64 sparsely.
func benchSets() []benchSet {
	rng := rand.New(rand.NewPCG(1, 2))
	v4 := MustParse("10.96.0.0/12")
	size, _ := v4.Size().Uint64()
	starts := func(sp Span) []netip.Addr {
		at := make([]netip.Addr, 1<<14)
		for i := range at {
			at[i] = sp.At(RandBelow(rng, sp.Size()))
		}
		return at
	}
	full := NewAddrSet(IPv4)
	for k := range size {
		full.Add(v4.Usable().At(U128(k)))
	}
	var all []benchSet
	add := func(name string, s *AddrSet, sp Span) {
		all = append(all, benchSet{name, s, sp, starts(sp)})
	}
	for _, f := range []struct {
		name string
		free uint64
	}{{"v4_12_0", size}, {"v4_12_50", size / 2}, {"v4_12_99", size / 100}, {"v4_12_99.99", size / 10_000}} {
		s := NewAddrSet(IPv4)
		if f.free < size {
			s = full.Clone()
		}
		for _, k := range rng.Perm(int(size))[:f.free] {
			s.Remove(v4.Usable().At(U128(uint(k))))
		}
		add(f.name, s, v4.Usable())
	}
	s := full.Clone()
	for k := range size / 10_000 {
		s.Remove(v4.Usable().At(U128(size/3 + k)))
	}
	add("v4_12_99.99_cluster", s, v4.Usable())

	v6 := MustParse("fd00:1:2:3::/64")
	s = NewAddrSet(IPv6)
	for range 100_000 {
		s.Add(v6.Usable().At(RandBelow(rng, v6.Size())))
	}
	add("v6_64_100k", s, v6.Usable())
	return all
}

func BenchmarkAddrSet(b *testing.B) {
	sets := benchSets()
	const mask = 1<<14 - 1
	run := func(op string, fn func(b *testing.B, s benchSet)) {
		b.Run(op, func(b *testing.B) {
			for _, s := range sets {
				b.Run(s.name, func(b *testing.B) {
					b.ReportAllocs()
					fn(b, s)
				})
			}
		})
	}
	run("FirstAbsent", func(b *testing.B, s benchSet) {
		for i := 0; b.Loop(); i++ {
			s.set.FirstAbsent(s.span, s.at[i&mask])
		}
	})
	run("Has", func(b *testing.B, s benchSet) {
		for i := 0; b.Loop(); i++ {
			s.set.Has(s.at[i&mask])
		}
	})
	run("Count", func(b *testing.B, s benchSet) {
		for i := 0; b.Loop(); i++ {
			s.set.Count(Span{s.at[i&mask], s.span.Last})
		}
	})
	run("KthAbsent", func(b *testing.B, s benchSet) {
		rng := rand.New(rand.NewPCG(3, 4))
		free := s.span.Size().Sub(U128(s.set.Count(s.span)))
		ks := make([]Uint128, 1<<14)
		for i := range ks {
			ks[i] = RandBelow(rng, free)
		}
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			s.set.KthAbsent(s.span, ks[i&mask])
		}
	})
	// A pair: the address goes out and in again, or in and out. One op is two writes.
	toggle := func(s *AddrSet, a netip.Addr) {
		if s.Add(a) {
			s.Remove(a)
		} else {
			s.Remove(a)
			s.Add(a)
		}
	}
	run("AddRemove", func(b *testing.B, s benchSet) {
		set := s.set.Clone()
		for _, a := range s.at {
			toggle(set, a)
		}
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			toggle(set, s.at[i&mask])
		}
	})
	// The same, but without coming back: the set drifts at the same degree of filling, and splits and merges.
	run("AddRemoveDrift", func(b *testing.B, s benchSet) {
		set := s.set.Clone()
		rng := rand.New(rand.NewPCG(5, 6))
		held := make([]netip.Addr, 0, 1<<14)
		for _, a := range s.at {
			if set.Has(a) {
				held = append(held, a)
			}
		}
		if len(held) == 0 {
			b.Skip("empty")
		}
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			j := i % len(held)
			set.Remove(held[j])
			held[j], _ = set.FirstAbsent(s.span, s.at[rng.IntN(len(s.at))])
			if !held[j].IsValid() {
				held[j], _ = set.FirstAbsent(s.span, s.span.First)
			}
			set.Add(held[j])
		}
	})
	run("CloneAddRemove", func(b *testing.B, s benchSet) {
		set := s.set.Clone()
		var snapshot *AddrSet
		for i := 0; b.Loop(); i++ {
			snapshot = set.Clone()
			toggle(set, s.at[i&mask])
		}
		_ = snapshot
	})
}

// BenchmarkAddrSetLoad adds the addresses of a /12 in random order: ns per address.
func BenchmarkAddrSetLoad(b *testing.B) {
	sp := MustParse("10.96.0.0/12").Usable()
	order := rand.New(rand.NewPCG(1, 2)).Perm(1<<20 - 2)
	b.ReportAllocs()
	for b.Loop() {
		s := NewAddrSet(IPv4)
		for _, k := range order {
			s.Add(sp.At(U128(uint(k))))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(order)), "ns/addr")
}
