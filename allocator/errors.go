// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/metacidr/metacidr/informer"
)

// Errors to test for with errors.Is. An error of the API server that is none of
// these is returned as it is, wrapped.
var (
	// ErrFull: no address is free in the view, in neither band.
	ErrFull = errors.New("range is full")
	// ErrAllocated: the address asked for has an IPAddress. The concrete type
	// is *AllocatedError, which names the owner.
	ErrAllocated = errors.New("provided IP is already allocated")
	// ErrNotInRange: the address asked for is not usable in the range.
	ErrNotInRange = errors.New("provided IP is not in the valid range")
	// ErrNotSynced: the view has not seen the initial lists yet. Try again.
	ErrNotSynced = errors.New("allocator not ready: the initial lists of ServiceCIDRs and IPAddresses are not complete")
	// ErrInvalidRequest: the request cannot be right on any cluster. Nothing
	// was sent to the API server.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrInvalidConfig is wrapped by what a constructor returns.
	ErrInvalidConfig = errors.New("invalid allocator configuration")
	// ErrNotCovered is for Verify functions: the address was created, but no
	// ServiceCIDR that is there to stay covers it. It was given back.
	ErrNotCovered = errors.New("no ServiceCIDR that stays covers the address")

	// errCollision: somebody else has the address by now. Pick again.
	errCollision = errors.New("the address was taken meanwhile")
)

// AllocatedError is ErrAllocated with the owner that has the address.
type AllocatedError struct {
	Address netip.Addr
	Owner   informer.Owner // zero if it could not be read
}

func (e *AllocatedError) Error() string {
	if e.Owner == (informer.Owner{}) {
		return fmt.Sprintf("%v: %s", ErrAllocated, e.Address)
	}
	return fmt.Sprintf("%v: %s belongs to %s", ErrAllocated, e.Address, e.Owner)
}

// Unwrap gives ErrAllocated.
func (e *AllocatedError) Unwrap() error { return ErrAllocated }
