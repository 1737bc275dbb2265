// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/metacidr/metacidr/weighting"
)

// Two CIDRs with 256 and 1024 free addresses are drawn 1 : 4.
func Example() {
	strategy := weighting.ByFree()
	tree := weighting.NewTree(2)
	tree.Set(0, strategy.Rank(weighting.Candidate{Free: u128(256), Size: u128(256)}))
	tree.Set(1, strategy.Rank(weighting.Candidate{Free: u128(1024), Size: u128(65536)}))
	fmt.Println("total:", tree.Total())

	src := rand.NewPCG(1, 2)
	var counts [2]int
	for range 5000 {
		i, _ := tree.Draw(src)
		counts[i]++
	}
	fmt.Printf("1 : %.0f\n", float64(counts[1])/float64(counts[0]))
	// Output:
	// total: 1280
	// 1 : 4
}

// Each CIDR is tried once, the next priority only when the first has no more.
func ExampleTree_Begin() {
	strategy := weighting.ByPriority()
	tree := weighting.NewTree(3)
	for i, priority := range []int32{0, 10, 5} {
		tree.Set(i, strategy.Rank(weighting.Candidate{Free: u128(100), Size: u128(100), Priority: priority}))
	}
	src := rand.NewPCG(1, 2)
	d := tree.Begin()
	defer d.End()
	for i, ok := d.Next(src); ok; i, ok = d.Next(src) {
		fmt.Println("try", i)
	}
	// Output:
	// try 1
	// try 2
	// try 0
}

func ExampleByName() {
	_, err := weighting.ByName("random")
	fmt.Println(err)
	// Output:
	// unknown strategy "random": use one of free, size, priority, least-used
}
