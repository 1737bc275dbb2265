// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Owner is the object that addresses are allocated for.
type Owner = informer.Owner

// Allocation is an address that has its IPAddress.
type Allocation = allocator.Allocation

// Request asks for one address, or one of each family.
type Request struct {
	// Owner is the object the addresses are for; required.
	Owner Owner
	// Families are what is wanted, in order: one, or both for dual-stack.
	// Empty means the families of Addresses.
	Families []cidr.Family
	// Addresses are fixed: one at most of each family. A family without one
	// gets any address.
	Addresses []netip.Addr
	// DryRun answers as the call would at this moment and writes nothing.
	DryRun bool
}

// validate completes the request, or says what cannot be right on any cluster.
func (r *Request) validate() error {
	if err := r.Owner.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	fixed := map[cidr.Family]netip.Addr{}
	for _, a := range r.Addresses {
		switch {
		case !a.IsValid():
			return fmt.Errorf("%w: an address is the zero Addr: leave it out to get any", ErrInvalidRequest)
		case a.Zone() != "":
			return fmt.Errorf("%w: address %s has a zone: give it without", ErrInvalidRequest, a)
		case a.Is4In6():
			return fmt.Errorf("%w: address %s is IPv4-mapped: give it as %s", ErrInvalidRequest, a, a.Unmap())
		}
		f := cidr.FamilyOf(a)
		if old, ok := fixed[f]; ok {
			return fmt.Errorf("%w: two %s addresses, %s and %s: one at most of each family", ErrInvalidRequest, f, old, a)
		}
		fixed[f] = a
		if len(r.Families) > 0 && !slices.Contains(r.Families, f) {
			return fmt.Errorf("%w: address %s is %s, which is not among the families asked for, %v", ErrInvalidRequest, a, f, r.Families)
		}
	}
	if len(r.Families) == 0 {
		for _, a := range r.Addresses {
			r.Families = append(r.Families, cidr.FamilyOf(a))
		}
	}
	if len(r.Families) == 0 {
		return fmt.Errorf("%w: no family and no address: name at least one of %s and %s", ErrInvalidRequest, cidr.IPv4, cidr.IPv6)
	}
	for i, f := range r.Families {
		if !f.IsValid() {
			return fmt.Errorf("%w: unknown family %d: use cidr.IPv4 or cidr.IPv6", ErrInvalidRequest, uint8(f))
		}
		if slices.Contains(r.Families[:i], f) {
			return fmt.Errorf("%w: family %s is asked for twice", ErrInvalidRequest, f)
		}
	}
	return nil
}

func (r *Request) fixed(f cidr.Family) (netip.Addr, bool) {
	for _, a := range r.Addresses {
		if cidr.FamilyOf(a) == f {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// Allocate allocates what the request asks for, in the order of its families,
// all or nothing: if one family fails, the addresses of the others are given
// back. The error is an *Error (with the family and the CIDRs considered), or
// ErrInvalidRequest, ErrNotSynced or ctx's.
//
// It makes one API call per address, one more for each address that somebody
// else took meanwhile, and one for verification unless the freshness lease
// holds. A call that ends with an error may have been carried out if the API
// server's answer was lost; what it made is removed in the background.
func (m *MetaAllocator) Allocate(ctx context.Context, request Request) ([]Allocation, error) {
	if err := request.validate(); err != nil {
		return nil, err
	}
	if !m.HasSynced() {
		return nil, ErrNotSynced
	}
	topology := m.view.Snapshot().Topology()
	for _, f := range request.Families {
		addr, _ := request.fixed(f)
		if err := admissible(topology, f, addr); err != nil {
			if !request.DryRun {
				m.metrics.failed(topology, f, addr, cidr.Range{}, err)
			}
			return nil, err
		}
	}
	var done []Allocation
	for _, f := range request.Families {
		allocation, err := m.allocateOne(ctx, &request, f)
		if err != nil {
			if !request.DryRun {
				m.rollBack(ctx, done)
			}
			return nil, err
		}
		done = append(done, allocation)
	}
	return done, nil
}

// admissible refuses, without an API call, what the topology cannot serve.
func admissible(t *informer.Topology, f cidr.Family, addr netip.Addr) error {
	fail := func(kind error, otherwise string) error {
		return &Error{Family: f, Address: addr, Considered: consider(t, f, nil, otherwise), cause: kind}
	}
	if !t.Exist(f) {
		return fail(ErrNoServiceCIDR, "")
	}
	if !addr.IsValid() {
		if !t.AnyReady(f) {
			return fail(ErrNotReady, "")
		}
		return nil
	}
	covering := t.Covering(addr)
	switch {
	case slices.ContainsFunc(covering, func(p *informer.Prefix) bool { return p.Ready }):
		return nil
	case len(covering) > 0:
		return fail(ErrNotReady, "ready, but the address is not usable in it")
	}
	return fail(ErrNotInRange, "ready, but the address is not usable in it")
}

func (m *MetaAllocator) allocateOne(ctx context.Context, request *Request, f cidr.Family) (Allocation, error) {
	begin := m.config.Clock.Now()
	addr, static := request.fixed(f)
	var (
		allocation Allocation
		err        error
		picker     = &picker{m: m, family: f}
	)
	switch {
	case static && request.DryRun:
		allocation, err = m.pool.DryRunAt(ctx, request.Owner, addr)
	case static:
		allocation, err = m.pool.AllocateAt(ctx, request.Owner, addr)
	case request.DryRun:
		allocation, err = m.pool.DryRunNext(ctx, request.Owner, picker)
	default:
		allocation, err = m.pool.AllocateNext(ctx, request.Owner, picker)
	}
	if static && err == nil {
		allocation.Range = m.rangeOf(addr)
	}
	switch {
	case request.DryRun:
	case err == nil:
		m.metrics.succeeded(allocation.Range, static, m.config.Clock.Since(begin))
	default:
		m.metrics.failed(m.view.Snapshot().Topology(), f, addr, picker.last, err)
	}
	var described *Error
	switch {
	case err == nil, errors.As(err, &described), errors.Is(err, ErrNotSynced), errors.Is(err, ErrInvalidRequest):
		return allocation, err
	case static && errors.Is(err, allocator.ErrNotCovered):
		t := m.view.Snapshot().Topology()
		err = &Error{Family: f, Address: addr, Considered: consider(t, f, nil, "not confirmed"), cause: fmt.Errorf("%w: %w", ErrNotReady, err)}
	default:
		err = &Error{Family: f, Address: addr, cause: err}
	}
	return Allocation{}, err
}

// rangeOf is the maximal range that an address belongs to.
func (m *MetaAllocator) rangeOf(addr netip.Addr) cidr.Range {
	var found cidr.Range
	for _, p := range m.view.Snapshot().Topology().Covering(addr) {
		if p.Ready && (!found.IsValid() || p.Range.Covers(found)) {
			found = p.Range
		}
	}
	return found
}

// rollBack gives back what an allocation of another family has got.
func (m *MetaAllocator) rollBack(ctx context.Context, done []Allocation) {
	for _, a := range done {
		stray := allocator.Stray{Name: a.Address.String(), UID: a.UID}
		if err := m.pool.Undo(ctx, stray); err != nil {
			klog.FromContext(ctx).Error(err, "Rolling back a dual-stack allocation; trying again in the background", "address", a.Address, "owner", a.Owner.String())
			m.janitor.add(stray)
		}
	}
}

// picker draws a CIDR and picks in it, for one dynamic allocation.
type picker struct {
	m        *MetaAllocator
	family   cidr.Family
	rejected map[cidr.Range]error // by verification, in this allocation
	retried  []netip.Addr         // once each: their last call's outcome is unknown
	last     cidr.Range
}

// Pick passes through the phases, each over all CIDRs. Last come addresses that
// are held only because a call's answer was lost.
func (p *picker) Pick() (allocator.Reservation, error) {
	for phase := range allocator.NumPhases {
		var full map[cidr.Range]bool // filled up between draw and pick
		for {
			var leftOut func(cidr.Range) bool
			if len(full)+len(p.rejected) > 0 {
				leftOut = func(r cidr.Range) bool { return full[r] || p.rejected[r] != nil }
			}
			a, ok := p.m.chooser.draw(p.family, phase, leftOut)
			if !ok {
				break
			}
			p.last = a.Range()
			if r, ok := a.Reserve(phase); ok {
				return r, nil
			}
			if full == nil {
				full = map[cidr.Range]bool{}
			}
			full[a.Range()] = true
		}
	}
	topology := p.m.view.Snapshot().Topology()
	r, ok := p.m.pool.ReserveUnknown(p.family, func(addr netip.Addr) bool {
		return slices.ContainsFunc(topology.Covering(addr), func(q *informer.Prefix) bool {
			return q.Maximal && p.rejected[q.Range] == nil && !slices.Contains(p.retried, addr)
		})
	})
	if !ok {
		return allocator.Reservation{}, p.exhausted(topology)
	}
	r.Range, p.retried = p.m.rangeOf(r.Addr), append(p.retried, r.Addr)
	return r, nil
}

// exhausted says why there is nothing to pick.
func (p *picker) exhausted(t *informer.Topology) error {
	if err := admissible(t, p.family, netip.Addr{}); err != nil {
		return err // the topology changed meanwhile
	}
	kind := ErrFull
	if len(p.rejected) > 0 {
		kind = ErrNotReady
	}
	return &Error{Family: p.family, Considered: consider(t, p.family, p.rejected, "full"), cause: kind}
}

// Rejected leaves a CIDR out for the rest of the allocation if verification
// refused it.
func (p *picker) Rejected(r allocator.Reservation, err error) {
	if !errors.Is(err, allocator.ErrNotCovered) {
		p.m.metrics.collided(r.Range)
		return
	}
	if p.rejected == nil {
		p.rejected = map[cidr.Range]error{}
	}
	p.rejected[r.Range] = err
}
