// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// ErrorProbability is how likely a statistical property is, at most, to fail for an
// allocator that is right. With all randomness from Env.Random the same picks come
// in every run, and it passes always or never.
const ErrorProbability = 1e-6

// uniform tests whether a series of numbers is what it should be: independent and
// uniform in [0, 1).
//
// The state changes with each pick, so picks cannot be counted against one
// distribution. But each pick has a known distribution by the state before it: lay
// the outcomes side by side, each as wide as it is likely, and take a random point in
// the one that came. That point is uniform and independent of all before it, if and
// only if the picks are as likely as they should be:
//
//	0        0.2                                 1
//	|--------|-----------------------------------|
//	   /24      x          /22
type uniform struct {
	name   string
	bins   [20]float64
	n      int
	random *rand.Rand
}

func newUniform(name string, seed uint64) *uniform {
	return &uniform{name: name, random: rand.New(rand.NewPCG(seed, 20))}
}

// add takes one pick: likelihood[i] of the outcomes, in any scale, and which came.
func (u *uniform) add(likelihood []float64, came int) {
	var sum, before float64
	for i, l := range likelihood {
		if i < came {
			before += l
		}
		sum += l
	}
	at := (before + u.random.Float64()*likelihood[came]) / sum
	u.bins[min(int(at*float64(len(u.bins))), len(u.bins)-1)]++
	u.n++
}

// unlikely says why the series is not uniform, "" if it may be. A right one gives a
// reason with the given probability.
func (u *uniform) unlikely(probability float64) string {
	expected := make([]float64, len(u.bins))
	for i := range expected {
		expected[i] = float64(u.n) / float64(len(u.bins))
	}
	chi := stat.ChiSquare(u.bins[:], expected)
	p := distuv.ChiSquared{K: float64(len(u.bins) - 1)}.Survival(chi)
	if p >= probability {
		return ""
	}
	return fmt.Sprintf("%s: chi-squared %.1f over %d picks, which a right one exceeds with probability %.1g (limit %.1g); by twentieths of what is likely, %.0f each expected, came %.0f",
		u.name, chi, u.n, p, probability, expected[0], u.bins)
}
