// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
)

// metaAdapter is all it takes to test an allocator: here meta.MetaAllocator.
type metaAdapter struct{ *meta.MetaAllocator }

func newMeta(env proptest.Env) (proptest.Allocator, error) {
	m, err := meta.New(meta.Config{Client: env.Client, Clock: env.Clock, Random: env.Random})
	return metaAdapter{m}, err
}

func (a metaAdapter) Synced() bool { return a.HasSynced() }

func (a metaAdapter) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	got, err := a.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{family}})
	if err != nil {
		return netip.Addr{}, err
	}
	return got[0].Address, nil
}

func (a metaAdapter) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	_, err := a.Allocate(ctx, meta.Request{Owner: owner, Addresses: []netip.Addr{addr}})
	return err
}

func (a metaAdapter) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	return a.MetaAllocator.Release(ctx, owner, addr)
}

func (a metaAdapter) Classify(err error) proptest.Outcome {
	switch {
	case errors.Is(err, meta.ErrFull):
		return proptest.Full
	case errors.Is(err, meta.ErrNotReady):
		return proptest.NotReady
	case errors.Is(err, meta.ErrNoServiceCIDR):
		return proptest.NoServiceCIDR
	case errors.Is(err, meta.ErrNotInRange):
		return proptest.NotInRange
	case errors.Is(err, meta.ErrAllocated):
		return proptest.AlreadyAllocated
	case errors.Is(err, meta.ErrNotSynced):
		return proptest.NotSynced
	case errors.Is(err, meta.ErrInvalidRequest):
		return proptest.InvalidRequest
	}
	return proptest.APIError
}

// AllocateDual and Counts are optional.
func (a metaAdapter) AllocateDual(ctx context.Context, owner proptest.Owner, families [2]cidr.Family) (out [2]netip.Addr, err error) {
	got, err := a.Allocate(ctx, meta.Request{Owner: owner, Families: families[:]})
	for i, allocation := range got {
		out[i] = allocation.Address
	}
	return out, err
}

func (a metaAdapter) Counts() (out []proptest.Count) {
	for _, s := range a.Status().CIDRs {
		out = append(out,
			proptest.Count{Prefix: s.Prefix.Prefix(), Band: cidr.BandStatic, Free: s.Static.Free, Used: s.Static.Taken},
			proptest.Count{Prefix: s.Prefix.Prefix(), Band: cidr.BandDynamic, Free: s.Dynamic.Free, Used: s.Dynamic.Taken})
	}
	return out
}

func TestMeta_HasAllProperties(t *testing.T) { proptest.All(t, newMeta) }

func FuzzMeta(f *testing.F) { proptest.Fuzz(f, newMeta) }
