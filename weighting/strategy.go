// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package weighting

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/metacidr/metacidr/cidr"
)

// Candidate is what a Strategy knows of one CIDR.
type Candidate struct {
	// Free and Size count addresses, of the band that is drawn from.
	Free, Size cidr.Uint128
	// Priority is set by the operator; higher is better.
	Priority int32
}

// Strategy says how CIDRs compare. It must be a pure function of the Candidate, give
// weight 0 if and only if Free is 0, and be safe for concurrent use.
type Strategy interface {
	Rank(Candidate) Rank
	// Name is the one that ByName knows.
	Name() string
}

// ByFree draws in proportion to the free addresses, so that every free address of all
// CIDRs is equally likely. It is the default.
func ByFree() Strategy { return byFree{} }

// BySize draws in proportion to the size, full CIDRs left out: a CIDR keeps its share
// until it is full.
func BySize() Strategy { return bySize{} }

// ByPriority turns to the CIDRs of the highest priority until they are full, then to
// the next; among equals by free addresses.
func ByPriority() Strategy { return byPriority{} }

// LeastUsed turns to the CIDR of which the smallest fraction is used; among equals by
// free addresses. Fractions that differ by less than 2^-64 may count as equal.
func LeastUsed() Strategy { return leastUsed{} }

// strategies lists all, in the order in which errors name them.
func strategies() []Strategy {
	return []Strategy{ByFree(), BySize(), ByPriority(), LeastUsed()}
}

// UnknownStrategyError is what ByName returns for a name that it does not know.
type UnknownStrategyError struct {
	Name  string
	Valid []string
}

func (e *UnknownStrategyError) Error() string {
	return fmt.Sprintf("unknown strategy %q: use one of %s", e.Name, strings.Join(e.Valid, ", "))
}

// ByName returns the strategy of a name, as in a flag: free, size, priority or
// least-used. The error is an *UnknownStrategyError.
func ByName(name string) (Strategy, error) {
	unknown := &UnknownStrategyError{Name: name}
	for _, s := range strategies() {
		if s.Name() == name {
			return s, nil
		}
		unknown.Valid = append(unknown.Valid, s.Name())
	}
	return nil, unknown
}

type byFree struct{}

func (byFree) Name() string          { return "free" }
func (byFree) Rank(c Candidate) Rank { return Rank{Weight: c.Free} }

type bySize struct{}

func (bySize) Name() string { return "size" }

func (bySize) Rank(c Candidate) Rank {
	if c.Free.IsZero() {
		return Rank{}
	}
	if c.Size.Less(c.Free) { // a size not kept in step must not hide free addresses
		return Rank{Weight: c.Free}
	}
	return Rank{Weight: c.Size}
}

type byPriority struct{}

func (byPriority) Name() string { return "priority" }

func (byPriority) Rank(c Candidate) Rank {
	if c.Free.IsZero() {
		return Rank{}
	}
	return Rank{Tier: uint64(math.MaxInt32 - int64(c.Priority)), Weight: c.Free}
}

type leastUsed struct{}

func (leastUsed) Name() string { return "least-used" }

func (leastUsed) Rank(c Candidate) Rank {
	if c.Free.IsZero() {
		return Rank{}
	}
	return Rank{Tier: fraction(c.Size.SubSat(c.Free), c.Size), Weight: c.Free}
}

// fraction returns the first 64 binary digits of part/whole, rounded down. Unless part
// is 0, it must be less than whole.
func fraction(part, whole cidr.Uint128) uint64 {
	if part.IsZero() {
		return 0
	}
	if whole.Hi == 0 {
		digits, _ := bits.Div64(part.Lo, 0, whole.Lo)
		return digits
	}
	// Schoolbook division of part*2^64 by whole in base 2^64, whole's top bit set: the
	// estimate by the leading words is too high by at most 2 (Knuth, TAOCP 2, 4.3.1 D).
	shift := uint(bits.LeadingZeros64(whole.Hi))
	part, whole = part.Lsh(shift), whole.Lsh(shift)
	digits := uint64(math.MaxUint64)
	if part.Hi < whole.Hi {
		digits, _ = bits.Div64(part.Hi, part.Lo, whole.Hi)
	}
	for exceeds(digits, whole, part) {
		digits--
	}
	return digits
}

// exceeds tells whether digits*whole is more than part*2^64.
func exceeds(digits uint64, whole, part cidr.Uint128) bool {
	midHi, low := bits.Mul64(digits, whole.Lo)
	high, mid := bits.Mul64(digits, whole.Hi)
	mid, carry := bits.Add64(mid, midHi, 0)
	high += carry
	top := cidr.Uint128{Hi: high, Lo: mid}
	return part.Less(top) || part == top && low > 0
}
