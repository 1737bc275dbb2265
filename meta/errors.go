// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Kinds of errors, to test for with errors.Is. An error of the API server that
// is none of these is returned as it is, wrapped.
var (
	// ErrFull: CIDRs are ready and none has a free address, in either band.
	ErrFull = allocator.ErrFull
	// ErrNotReady: ServiceCIDRs of the family exist, but none that could serve
	// the request is ready, or stays so.
	ErrNotReady = errors.New("no ServiceCIDR is ready")
	// ErrNoServiceCIDR: there is no ServiceCIDR of that family.
	ErrNoServiceCIDR = errors.New("no ServiceCIDR of that IP family")
	// ErrNotInRange: the address asked for is usable in no ServiceCIDR.
	ErrNotInRange = allocator.ErrNotInRange
	// ErrAllocated: the address asked for has an IPAddress already.
	ErrAllocated = allocator.ErrAllocated
	// ErrNotSynced: the initial lists are not complete yet. Try again, or wait
	// with WaitForSync.
	ErrNotSynced = allocator.ErrNotSynced
	// ErrInvalidRequest: the request cannot be right on any cluster.
	ErrInvalidRequest = allocator.ErrInvalidRequest
	// ErrInvalidConfig is wrapped by what New returns.
	ErrInvalidConfig = errors.New("invalid configuration")
)

// Error says which family of a request failed, why, and which CIDRs were
// considered. It wraps one of the kinds above, or the API server's error.
type Error struct {
	Family cidr.Family
	// Address is the one asked for, the zero Addr if any would have done.
	Address netip.Addr
	// Considered are the CIDRs of the family, and why each did not serve.
	Considered []Considered

	cause error
}

// Considered is one CIDR that did not serve a request.
type Considered struct {
	Prefix       cidr.Range
	ServiceCIDRs []string
	Why          string
}

func (c Considered) String() string {
	return fmt.Sprintf("%s (%s): %s", c.Prefix, strings.Join(c.ServiceCIDRs, ","), c.Why)
}

// maxListed bounds the CIDRs that an error's text names.
const maxListed = 5

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "allocating an %s address", e.Family)
	if e.Address.IsValid() {
		b.Reset()
		fmt.Fprintf(&b, "allocating %s", e.Address)
	}
	fmt.Fprintf(&b, ": %v", e.cause)
	for i, c := range e.Considered {
		switch {
		case i == maxListed:
			fmt.Fprintf(&b, "; and %d more", len(e.Considered)-maxListed)
			return b.String()
		case i == 0:
			b.WriteString("; considered ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(c.String())
	}
	return b.String()
}

// Unwrap gives the kind, or the API server's error.
func (e *Error) Unwrap() error { return e.cause }

// AllocatedError is ErrAllocated with the owner that has the address; find it
// with errors.As.
type AllocatedError = allocator.AllocatedError

// consider lists the prefixes of a family and why each did not serve. rejected
// are those that verification refused.
func consider(t *informer.Topology, f cidr.Family, rejected map[cidr.Range]error, otherwise string) []Considered {
	var out []Considered
	for _, p := range t.Prefixes() {
		if p.Range.Family() != f {
			continue
		}
		c := Considered{Prefix: p.Range, ServiceCIDRs: make([]string, len(p.Members))}
		for i, m := range p.Members {
			c.ServiceCIDRs[i] = m.Name
		}
		switch err := rejected[p.Range]; {
		case err != nil:
			c.Why = err.Error()
		case !p.Ready:
			c.Why = "not ready: " + p.WhyNot(t.RequiresFinalizer())
		case !p.Maximal:
			c.Why = "nested in " + p.Outer.String()
		default:
			c.Why = otherwise
		}
		out = append(out, c)
	}
	return out
}
