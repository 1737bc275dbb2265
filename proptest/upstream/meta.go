// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/netip"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
)

// metaAllocator is metacidr's own allocator. Beside upstream's controller it shows
// which of the two is at fault. Its addresses bear core's label, for upstream's
// controller minds no others.
type metaAllocator struct{ *meta.MetaAllocator }

func newMeta(env proptest.Env) (proptest.Allocator, error) {
	m, err := meta.New(meta.Config{Client: env.Client, Clock: env.Clock, Random: env.Random, Manager: informer.CoreManager})
	return metaAllocator{m}, err
}

func (a metaAllocator) Synced() bool { return a.HasSynced() }

func (a metaAllocator) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	got, err := a.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{family}})
	if err != nil {
		return netip.Addr{}, err
	}
	return got[0].Address, nil
}

func (a metaAllocator) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	_, err := a.Allocate(ctx, meta.Request{Owner: owner, Addresses: []netip.Addr{addr}})
	return err
}

func (a metaAllocator) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	return a.MetaAllocator.Release(ctx, owner, addr)
}

// Classify is no matter for FinalizerSafety, the only property that this runs under.
func (a metaAllocator) Classify(err error) proptest.Outcome {
	if errors.Is(err, meta.ErrFull) {
		return proptest.Full
	}
	return proptest.APIError
}
