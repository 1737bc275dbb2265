// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

// Band is a part of a range's usable addresses.
type Band uint8

// The bands of a [Range].
const (
	BandNone    Band = iota // not usable
	BandStatic              // kept for those who ask for a particular address, while there is dynamic room
	BandDynamic             // where addresses are picked first
)

// String returns "static", "dynamic" or "none".
func (b Band) String() string {
	switch b {
	case BandStatic:
		return "static"
	case BandDynamic:
		return "dynamic"
	default:
		return "none"
	}
}
