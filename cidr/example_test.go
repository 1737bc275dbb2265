// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr_test

import (
	"fmt"
	"net/netip"

	"github.com/metacidr/metacidr/cidr"
)

func ExampleParse() {
	r, err := cidr.Parse("10.96.0.0/12")
	fmt.Println(r.Size(), "usable,", r.Static(), "static,", r.Dynamic(), "dynamic", err)

	_, err = cidr.Parse("10.96.10.10/20")
	fmt.Println(err)
	// Output:
	// 1048574 usable, 10.96.0.1-10.96.1.0 static, 10.96.1.1-10.111.255.254 dynamic <nil>
	// "10.96.10.10/20" has bits set beyond its length: use 10.96.0.0/20
}

func ExampleParseLenient() {
	r, notes, err := cidr.ParseLenient("::ffff:10.096.0.1/108")
	fmt.Printf("%v %q %v\n", r, notes, err)
	// Output: 10.96.0.0/12 ["has leading zeros" "is IPv4-mapped" "has bits set beyond its length"] <nil>
}

func ExampleRange_Band() {
	r := cidr.MustParse("fd00::/112")
	for _, s := range []string{"fd00::", "fd00::100", "fd00::101", "fd00::ffff"} {
		fmt.Println(s, r.Band(netip.MustParseAddr(s)))
	}
	// Output:
	// fd00:: none
	// fd00::100 static
	// fd00::101 dynamic
	// fd00::ffff dynamic
}

// The pick of an allocator: from a random start on, around the end once.
func ExampleAddrSet_FirstAbsent() {
	band := cidr.MustParse("10.0.0.0/28").Dynamic()
	taken := cidr.NewAddrSet(cidr.IPv4)
	for _, s := range []string{"10.0.0.1", "10.0.0.12", "10.0.0.13", "10.0.0.14"} {
		taken.Add(netip.MustParseAddr(s))
	}
	a, ok := taken.FirstAbsent(band, netip.MustParseAddr("10.0.0.12"))
	fmt.Println(a, ok)
	if !ok {
		a, ok = taken.FirstAbsent(band, band.First)
		fmt.Println(a, ok)
	}
	// Output:
	// invalid IP false
	// 10.0.0.2 true
}

func ExampleAddrSet_Clone() {
	taken := cidr.NewAddrSet(cidr.IPv6)
	taken.Add(netip.MustParseAddr("fd00::1"))
	snapshot := taken.Clone() // O(1); read it while others write to taken
	taken.Add(netip.MustParseAddr("fd00::2"))
	fmt.Println(snapshot.Len(), taken.Len())
	// Output: 1 2
}

func ExampleAddrSet_Count() {
	r := cidr.MustParse("fd00::/64")
	taken := cidr.NewAddrSet(cidr.IPv6)
	taken.Add(netip.MustParseAddr("fd00::1"))
	free := r.Size().Sub(cidr.U128(taken.Count(r.Usable())))
	fmt.Println(free)
	// Output: 18446744073709551614
}

func ExampleIndex_UsableIn() {
	var ready cidr.Index[string]
	ready.Insert(cidr.MustParse("10.0.0.0/16"), "big")
	ready.Insert(cidr.MustParse("10.0.1.0/24"), "small")
	for _, s := range []string{"10.0.1.7", "10.0.1.255"} {
		for r, name := range ready.UsableIn(netip.MustParseAddr(s)) {
			fmt.Println(s, "is usable in", name, r)
		}
	}
	// Output:
	// 10.0.1.7 is usable in small 10.0.1.0/24
	// 10.0.1.7 is usable in big 10.0.0.0/16
	// 10.0.1.255 is usable in big 10.0.0.0/16
}

func ExampleMaximal() {
	fmt.Println(cidr.Maximal([]cidr.Range{
		cidr.MustParse("10.0.1.0/24"), cidr.MustParse("10.0.0.0/20"), cidr.MustParse("10.1.0.0/24"),
	}))
	// Output: [10.0.0.0/20 10.1.0.0/24]
}
