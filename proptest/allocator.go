// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"math/rand/v2"
	"net/netip"

	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Owner is the object that an address is allocated for. Its Reference method
// gives the parentRef of the IPAddress.
type Owner = informer.Owner

// Client reads and writes ServiceCIDRs and IPAddresses. A clientset's
// NetworkingV1() has these methods too.
type Client interface {
	networkingv1client.ServiceCIDRsGetter
	networkingv1client.IPAddressesGetter
}

// Env is what one replica works with. A restarted replica gets a new one.
type Env struct {
	// Replica is the name that the story calls it by.
	Replica string
	// Client is the replica's own: its watches can be late, its calls can fail.
	Client Client
	// Clock runs at the replica's own rate, from a start of its own.
	Clock clock.WithTickerAndDelayedExecution
	// Random is the source of all picks. An allocator that uses another one is
	// tested as well, but a failure may not come back in the next run.
	Random rand.Source
}

// Factory makes one replica of the allocator under test. It makes no API call
// and starts nothing: Run does.
type Factory func(Env) (Allocator, error)

// Allocator is what the properties drive. Methods but Run are called while Run
// runs, by several goroutines at once in Linearizable, by one in all others. No
// method may outlive its context by more than a few seconds.
type Allocator interface {
	// Run keeps the allocator up to date until ctx is done, and leaves no
	// goroutine behind. That ctx is done is no error.
	Run(ctx context.Context) error
	// Synced reports that the initial lists are complete.
	Synced() bool
	// AllocateNext allocates any address of the family.
	AllocateNext(ctx context.Context, owner Owner, family cidr.Family) (netip.Addr, error)
	// AllocateAt allocates the given address.
	AllocateAt(ctx context.Context, owner Owner, addr netip.Addr) error
	// Release gives back an address that the owner has. That it has not is no error.
	Release(ctx context.Context, owner Owner, addr netip.Addr) error
	// Classify says what an error of the allocator's means. It is never given nil.
	Classify(err error) Outcome
}

// DualStack is an Allocator that serves both families in one request, all or
// nothing, in the order asked for. Without it no dual-stack request is made.
type DualStack interface {
	AllocateDual(ctx context.Context, owner Owner, families [2]cidr.Family) ([2]netip.Addr, error)
}

// Counter is an Allocator that counts. Without it Counts is skipped.
type Counter interface {
	// Counts reports the bands of every CIDR, or the CIDRs as a whole, or both.
	Counts() []Count
}

// Count is how full a CIDR, or one of its bands, is.
type Count struct {
	Prefix netip.Prefix
	// Band is the part that is counted; BandNone means all usable addresses.
	Band cidr.Band
	// Free and Used are numbers of usable addresses.
	Free, Used cidr.Uint128
}

// Explainer is an Allocator that can say what it believes, in a few lines, for
// the story of a failure.
type Explainer interface{ Explain() string }

// Outcome is what the error of an allocation means.
type Outcome int

// Outcomes. An allocation that did not fail is OK.
const (
	OK Outcome = iota
	// APIError: the API server, or the way to it, refused a call, or the caller
	// gave up. It is also everything that is none of the others.
	APIError
	// Full: CIDRs are ready, and no address is free.
	Full
	// NotReady: CIDRs exist that could serve, and none of them is ready.
	NotReady
	// NoServiceCIDR: there is no CIDR of the family.
	NoServiceCIDR
	// NotInRange: the address is usable in no CIDR.
	NotInRange
	// AlreadyAllocated: the address has an owner.
	AlreadyAllocated
	// NotSynced: the allocator does not know the cluster yet.
	NotSynced
	// InvalidRequest: the request cannot be right on any cluster.
	InvalidRequest
)

// String is for the story.
func (o Outcome) String() string {
	names := [...]string{"OK", "APIError", "Full", "NotReady", "NoServiceCIDR", "NotInRange", "AlreadyAllocated", "NotSynced", "InvalidRequest"}
	if o < 0 || int(o) >= len(names) {
		return "unknown outcome"
	}
	return names[o]
}
