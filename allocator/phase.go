// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import "github.com/metacidr/metacidr/cidr"

// Phase is a step of a dynamic allocation. All ranges pass through one phase
// before any enters the next: the static band of one is not touched while
// another has dynamic room.
type Phase uint8

const (
	// DynamicRested: dynamic band, addresses that do not rest after a release.
	DynamicRested Phase = iota
	// DynamicAny: dynamic band, resting ones too.
	DynamicAny
	// StaticRested: static band, addresses that do not rest.
	StaticRested
	// StaticAny: static band, resting ones too. After it comes ErrFull.
	StaticAny

	// NumPhases is how many there are: range over it to pass through them.
	NumPhases
)

// Band is where the phase picks.
func (p Phase) Band() cidr.Band {
	if p == DynamicRested || p == DynamicAny {
		return cidr.BandDynamic
	}
	return cidr.BandStatic
}

// Rested reports that the phase leaves out addresses that rest.
func (p Phase) Rested() bool { return p == DynamicRested || p == StaticRested }

func phaseOf(b cidr.Band, rested bool) Phase {
	switch {
	case b == cidr.BandDynamic && rested:
		return DynamicRested
	case b == cidr.BandDynamic:
		return DynamicAny
	case rested:
		return StaticRested
	}
	return StaticAny
}

// String is for logs.
func (p Phase) String() string {
	return [...]string{"dynamic rested", "dynamic", "static rested", "static", "none"}[min(p, NumPhases)]
}
