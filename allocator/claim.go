// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Allocation is an address that has its IPAddress.
type Allocation struct {
	Address netip.Addr
	Owner   informer.Owner
	// Range is where it was picked.
	Range cidr.Range
	// UID and ResourceVersion are those of the IPAddress, empty after a dry run.
	UID             types.UID
	ResourceVersion string
}

// cleanupTimeout bounds an undo that runs after the caller's context is done.
const cleanupTimeout = 5 * time.Second

// dryRun asks the API server for the answer without writing.
type dryRun bool

func (d dryRun) options() []string {
	if d {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// Picker reserves the addresses that a dynamic allocation tries.
type Picker interface {
	// Pick reserves an address, or says why there is none.
	Pick() (Reservation, error)
	// Rejected tells that a pick did not lead to an allocation and that another
	// will be asked for: somebody had taken the address, or the error is
	// ErrNotCovered.
	Rejected(r Reservation, err error)
}

// AllocateNext claims what the picker reserves, and picks again for as long as
// somebody else turns out to have the address, or Verify answers ErrNotCovered.
// It ends with the picker's error if that has no more to offer. It makes one
// create per pick, and the calls that Verify makes.
func (p *Pool) AllocateNext(ctx context.Context, owner informer.Owner, picker Picker) (Allocation, error) {
	return p.allocateNext(ctx, owner, picker, false)
}

// DryRunNext is AllocateNext, but nothing is written: the API server answers a
// dry-run create.
func (p *Pool) DryRunNext(ctx context.Context, owner informer.Owner, picker Picker) (Allocation, error) {
	return p.allocateNext(ctx, owner, picker, true)
}

func (p *Pool) allocateNext(ctx context.Context, owner informer.Owner, picker Picker, dry dryRun) (Allocation, error) {
	if err := p.check(owner); err != nil {
		return Allocation{}, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return Allocation{}, err
		}
		r, err := picker.Pick()
		if err != nil {
			return Allocation{}, err
		}
		allocation, err := p.claim(ctx, r, owner, dry)
		switch {
		case errors.Is(err, errCollision):
			p.disown(r, collided)
		case errors.Is(err, ErrNotCovered):
		default:
			return allocation, err
		}
		picker.Rejected(r, err)
	}
}

// AllocateAt claims the given address, whatever the view says of it: the view
// may be late. Errors: ErrAllocated, ErrNotCovered, ErrNotSynced,
// ErrInvalidRequest, or the API server's.
func (p *Pool) AllocateAt(ctx context.Context, owner informer.Owner, addr netip.Addr) (Allocation, error) {
	return p.allocateAt(ctx, owner, addr, false)
}

// DryRunAt is AllocateAt, but nothing is written.
func (p *Pool) DryRunAt(ctx context.Context, owner informer.Owner, addr netip.Addr) (Allocation, error) {
	return p.allocateAt(ctx, owner, addr, true)
}

func (p *Pool) allocateAt(ctx context.Context, owner informer.Owner, addr netip.Addr, dry dryRun) (Allocation, error) {
	if err := p.check(owner); err != nil {
		return Allocation{}, err
	}
	if err := checkAddr(addr); err != nil {
		return Allocation{}, err
	}
	if err := ctx.Err(); err != nil {
		return Allocation{}, err
	}
	r := p.reserveAt(addr)
	allocation, err := p.claim(ctx, r, owner, dry)
	if !errors.Is(err, errCollision) {
		return allocation, err
	}
	// Who has it? It may be this very call, if client-go sent the create twice.
	obj, err := p.config.Client.IPAddresses().Get(ctx, addr.String(), metav1.GetOptions{})
	if err == nil && p.madeBy(r, obj) {
		return p.confirm(ctx, r, owner, obj)
	}
	p.disown(r, collided)
	switch {
	case apierrors.IsNotFound(err): // released since
		return Allocation{}, &AllocatedError{Address: addr}
	case err != nil:
		return Allocation{}, errors.Join(&AllocatedError{Address: addr}, fmt.Errorf("reading its owner: %w", err))
	}
	return Allocation{}, &AllocatedError{Address: addr, Owner: informer.OwnerOf(obj.Spec.ParentRef)}
}

// madeBy reports whether the reservation's call created the object.
func (p *Pool) madeBy(r Reservation, obj *networkingv1.IPAddress) bool {
	return obj.Annotations[informer.AnnotationNonce] == p.nonceString(r.nonce)
}

// check refuses what needs no API call to be refused.
func (p *Pool) check(owner informer.Owner) error {
	if err := owner.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	if !p.config.View.HasSynced() {
		return ErrNotSynced
	}
	return nil
}

// checkAddr refuses an address that no IPAddress can be named by.
func checkAddr(addr netip.Addr) error {
	if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
		return fmt.Errorf("%w: %q is no plain IPv4 or IPv6 address", ErrInvalidRequest, addr)
	}
	return nil
}

// reserveAt reserves an address that was asked for. Others may hold it as well:
// the API server decides.
func (p *Pool) reserveAt(addr netip.Addr) Reservation {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hold(p.space(cidr.FamilyOf(addr)), cidr.ToUint128(addr), addr)
	return Reservation{Addr: addr, Phase: NumPhases, pool: p, hold: h, nonce: h.nonce}
}

// claim creates the IPAddress of a reservation and confirms it. It settles the
// reservation unless it returns errCollision.
func (p *Pool) claim(ctx context.Context, r Reservation, owner informer.Owner, dry dryRun) (Allocation, error) {
	obj, err := p.config.Client.IPAddresses().Create(ctx, p.object(r, owner), metav1.CreateOptions{DryRun: dry.options()})
	if apierrors.IsAlreadyExists(err) {
		return Allocation{}, errCollision
	}
	if dry {
		defer r.Cancel()
		if err != nil {
			return Allocation{}, fmt.Errorf("asking for IPAddress %s: %w", r.Addr, err)
		}
		if err := p.verify(ctx, r.Addr); err != nil {
			return Allocation{}, err
		}
		return Allocation{Address: r.Addr, Owner: owner, Range: r.Range}, nil
	}
	if err == nil {
		return p.confirm(ctx, r, owner, obj)
	}
	cause := fmt.Errorf("creating IPAddress %s: %w", r.Addr, err)
	if refused(err) {
		r.Cancel()
		return Allocation{}, cause
	}
	// The create may have been carried out, or may still be.
	if ctx.Err() == nil {
		if obj, err := p.config.Client.IPAddresses().Get(ctx, r.Addr.String(), metav1.GetOptions{}); err == nil && p.madeBy(r, obj) {
			return p.confirm(ctx, r, owner, obj)
		}
	}
	p.disown(r, unknown)
	return Allocation{}, cause
}

// confirm verifies an object that this call created, and undoes the create if
// it must not be.
func (p *Pool) confirm(ctx context.Context, r Reservation, owner informer.Owner, obj *networkingv1.IPAddress) (Allocation, error) {
	if err := p.verify(ctx, r.Addr); err != nil {
		stray := Stray{Name: obj.Name, UID: obj.UID}
		if undoErr := p.Undo(ctx, stray); undoErr != nil {
			klog.FromContext(ctx).Error(undoErr, "An IPAddress that must not be could not be deleted yet", "name", obj.Name, "uid", obj.UID)
			p.settle(r, unknown)
			p.config.Observer.Stray(stray)
		} else {
			r.Cancel()
		}
		return Allocation{}, err
	}
	p.settle(r, created)
	return Allocation{Address: r.Addr, Owner: owner, Range: r.Range, UID: obj.UID, ResourceVersion: obj.ResourceVersion}, nil
}

func (p *Pool) verify(ctx context.Context, addr netip.Addr) error {
	if p.config.Verify == nil {
		return nil
	}
	return p.config.Verify(ctx, addr)
}

func (p *Pool) disown(r Reservation, state holdState) {
	if stray := p.settle(r, state); stray != nil {
		p.config.Observer.Stray(*stray)
	}
}

// Undo deletes an object that a call of this process made and must not leave.
// It does so even if ctx is done, within a few seconds. That the object is gone
// or replaced is success.
func (p *Pool) Undo(ctx context.Context, s Stray) error {
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
	}
	return p.Remove(ctx, s)
}

// Remove deletes the IPAddress with that name and that UID, no other. That it is
// gone or replaced is success.
func (p *Pool) Remove(ctx context.Context, s Stray) error {
	err := p.config.Client.IPAddresses().Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("deleting IPAddress %s: %w", s.Name, err)
	}
	if addr, _, err := cidr.ParseAddrLenient(s.Name); err == nil {
		p.released(addr)
	}
	return nil
}

// Release gives back an address that the owner has: it reads the IPAddress,
// checks its owner and deletes that very object. An address that is free or
// another's is left alone, and that is no error. It works whether or not a
// ServiceCIDR covers the address.
func (p *Pool) Release(ctx context.Context, owner informer.Owner, addr netip.Addr) error {
	if err := owner.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRequest, err)
	}
	if err := checkAddr(addr); err != nil {
		return err
	}
	name := addr.String()
	obj, err := p.config.Client.IPAddresses().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading IPAddress %s: %w", name, err)
	case informer.OwnerOf(obj.Spec.ParentRef) != owner:
		return nil
	}
	return p.Remove(ctx, Stray{Name: name, UID: obj.UID})
}

// object is the IPAddress of a reservation, as KEP-1880 has it.
func (p *Pool) object(r Reservation, owner informer.Owner) *networkingv1.IPAddress {
	manager := p.config.Manager
	if owner.IsService() {
		manager = p.config.ServiceManager
	}
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{
			Name: r.Addr.String(),
			Labels: map[string]string{
				informer.LabelManagedBy: manager,
				informer.LabelIPFamily:  cidr.FamilyOf(r.Addr).String(),
			},
			Annotations: map[string]string{informer.AnnotationNonce: p.nonceString(r.nonce)},
		},
		Spec: networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}
}

// refused reports that the request was not carried out: the API server has said
// so, or was not reached. Every other error leaves that open.
func refused(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= 400 && code < 500 && code != http.StatusRequestTimeout
	}
	var op *net.OpError
	return utilnet.IsConnectionRefused(err) || errors.As(err, &op) && op.Op == "dial"
}
