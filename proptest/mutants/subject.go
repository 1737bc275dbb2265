// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"errors"
	"net/netip"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
)

// subject is what is broken: meta's allocator as the properties want it.
type subject struct{ *meta.MetaAllocator }

// newSubject makes one, with a change of its configuration.
func newSubject(env proptest.Env, change func(*meta.Config)) (subject, error) {
	config := meta.Config{Client: env.Client, Clock: env.Clock, Random: env.Random}
	if change != nil {
		change(&config)
	}
	m, err := meta.New(config)
	return subject{m}, err
}

func (a subject) Synced() bool { return a.HasSynced() }

func (a subject) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	got, err := a.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{family}})
	if err != nil {
		return netip.Addr{}, err
	}
	return got[0].Address, nil
}

func (a subject) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	_, err := a.Allocate(ctx, meta.Request{Owner: owner, Addresses: []netip.Addr{addr}})
	return err
}

func (a subject) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	return a.MetaAllocator.Release(ctx, owner, addr)
}

func (a subject) Classify(err error) proptest.Outcome {
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

func (a subject) AllocateDual(ctx context.Context, owner proptest.Owner, families [2]cidr.Family) (out [2]netip.Addr, err error) {
	got, err := a.Allocate(ctx, meta.Request{Owner: owner, Families: families[:]})
	for i, allocation := range got {
		out[i] = allocation.Address
	}
	return out, err
}

func (a subject) Counts() (out []proptest.Count) {
	for _, s := range a.Status().CIDRs {
		out = append(out,
			proptest.Count{Prefix: s.Prefix.Prefix(), Band: cidr.BandStatic, Free: s.Static.Free, Used: s.Static.Taken},
			proptest.Count{Prefix: s.Prefix.Prefix(), Band: cidr.BandDynamic, Free: s.Dynamic.Free, Used: s.Dynamic.Taken})
	}
	return out
}
