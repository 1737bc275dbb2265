// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// genNested draws ranges that nest a lot: few base addresses, many lengths.
func genNested() *rapid.Generator[Range] {
	return rapid.Custom(func(t *rapid.T) Range {
		base := netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.0", "10.0.255.255", "10.1.0.0", "fd00::", "fd00:1::"}).Draw(t, "base"))
		length := rapid.IntRange(base.BitLen()/4, base.BitLen()).Draw(t, "length")
		r, err := RangeOf(netip.PrefixFrom(base, length).Masked())
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

func TestMaximalPartitionsTheUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(genNested(), 0, 12).Draw(t, "ranges")
		if rapid.Bool().Draw(t, "invalid") {
			in = append(in, Range{})
		}
		before := slices.Clone(in)
		got := Maximal(in)
		if !slices.Equal(in, before) {
			t.Fatal("the input has changed")
		}
		var want []Range // those that nothing else covers, by trying all pairs
		for _, r := range in {
			isCovered := slices.ContainsFunc(in, func(o Range) bool { return o != r && o.Covers(r) })
			if r.IsValid() && !isCovered && !slices.Contains(want, r) {
				want = append(want, r)
			}
		}
		slices.SortFunc(want, Range.Compare)
		if !slices.Equal(got, want) {
			t.Fatalf("Maximal(%v) = %v, want %v", in, got, want)
		}
	})
}

func TestS15_MaximalOfNestedAndEqualRanges(t *testing.T) {
	got := Maximal([]Range{
		MustParse("10.0.4.0/24"), MustParse("fd00::/64"), MustParse("10.0.0.0/20"), MustParse("10.0.0.0/20"),
		MustParse("10.0.0.0/24"), MustParse("192.168.0.0/24"), MustParse("fd00::/108"),
	})
	want := []Range{MustParse("10.0.0.0/20"), MustParse("192.168.0.0/24"), MustParse("fd00::/64")}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// indexPair is an Index and the map it must be equal to.
type indexPair struct {
	index *Index[int]
	model map[Range]int
}

// pick returns the ranges of the model that pass keep, sorted.
func (p indexPair) pick(keep func(Range) bool) []Range {
	return slices.SortedFunc(func(yield func(Range) bool) {
		for r := range p.model {
			if keep(r) && !yield(r) {
				return
			}
		}
	}, Range.Compare)
}

func TestIndexEqualsMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pairs := []indexPair{{new(Index[int]), map[Range]int{}}}
		draw := func(t *rapid.T) indexPair { return pairs[rapid.IntRange(0, len(pairs)-1).Draw(t, "index")] }
		same := func(t *rapid.T, what string, p indexPair, got func(func(Range, int) bool), want []Range) {
			i := 0
			for r, v := range got {
				if i >= len(want) || r != want[i] || v != p.model[r] {
					t.Fatalf("%s: element %d is %v (%d), want %v", what, i, r, v, want)
				}
				i++
			}
			if i != len(want) {
				t.Fatalf("%s: %d elements, want %v", what, i, want)
			}
			for range got { // stops when told to
				break
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"Insert": func(t *rapid.T) {
				p, r, v := draw(t), genNested().Draw(t, "range"), rapid.Int().Draw(t, "value")
				p.index.Insert(r, v)
				p.model[r] = v
			},
			"Delete": func(t *rapid.T) {
				p, r := draw(t), genNested().Draw(t, "range")
				_, want := p.model[r]
				if got := p.index.Delete(r); got != want {
					t.Fatalf("Delete(%v) = %v", r, got)
				}
				delete(p.model, r)
			},
			"Clone": func(t *rapid.T) {
				p := draw(t)
				if len(pairs) < 4 {
					pairs = append(pairs, indexPair{p.index.Clone(), maps.Clone(p.model)})
				}
			},
			"Look up": func(t *rapid.T) {
				p, r := draw(t), genNested().Draw(t, "range")
				a := r.Prefix().Addr()
				if rapid.Bool().Draw(t, "last") && r.Usable().Size() != (Uint128{}) {
					a = r.Last()
				}
				upwards := func(s []Range) []Range { slices.Reverse(s); return s }
				same(t, "Covering", p, p.index.Covering(a), upwards(p.pick(func(o Range) bool { return o.Prefix().Contains(a) })))
				same(t, "UsableIn", p, p.index.UsableIn(a), upwards(p.pick(func(o Range) bool { return o.Contains(a) })))
				same(t, "CoveringRange", p, p.index.CoveringRange(r), upwards(p.pick(func(o Range) bool { return o.Covers(r) })))
				same(t, "Within", p, p.index.Within(r), p.pick(r.Covers))
				if v, ok := p.index.Get(r); v != p.model[r] || ok != slices.Contains(p.pick(Range.IsValid), r) {
					t.Fatalf("Get(%v) = %d, %v", r, v, ok)
				}
			},
			"": func(t *rapid.T) {
				for _, p := range pairs {
					if p.index.Len() != len(p.model) {
						t.Fatalf("Len() = %d, want %d", p.index.Len(), len(p.model))
					}
					same(t, "All", p, p.index.All(), p.pick(Range.IsValid))
				}
			},
		})
	})
}

func TestIndexHasNothingForWhatIsInvalid(t *testing.T) {
	for name, x := range map[string]*Index[int]{"empty": new(Index[int]), "filled": new(Index[int])} {
		if name == "filled" {
			x.Insert(MustParse("0.0.0.0/0"), 4)
			x.Insert(MustParse("::/0"), 6)
		}
		before := x.Len()
		x.Insert(Range{}, 1)
		if _, ok := x.Get(Range{}); ok || x.Delete(Range{}) || x.Len() != before {
			t.Errorf("%s: took the invalid range", name)
		}
		for _, a := range []netip.Addr{{}, netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::1%eth0")} {
			for r := range x.Covering(a) {
				t.Errorf("%s: %v covers %v", name, r, a)
			}
		}
		for r := range x.CoveringRange(Range{}) {
			t.Errorf("%s: %v covers the invalid range", name, r)
		}
		for r := range x.Within(Range{}) {
			t.Errorf("%s: %v is in the invalid range", name, r)
		}
	}
}
