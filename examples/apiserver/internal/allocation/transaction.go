// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/examples/apiserver/internal/validation"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// releaseTimeout bounds what is done after the client has its answer, or has gone.
const releaseTimeout = 10 * time.Second

// Addresses gives Services what they need. A *meta.MetaAllocator is one.
type Addresses interface {
	Allocate(ctx context.Context, request meta.Request) ([]meta.Allocation, error)
	Release(ctx context.Context, owner informer.Owner, addresses ...netip.Addr) error
}

var _ Addresses = (*meta.MetaAllocator)(nil)

// Transaction is one call that writes a Service: what it has taken, and what it will give up. It is used by the one
// goroutine that serves the call.
type Transaction struct {
	addresses Addresses
	ports     *Ports
	owner     informer.Owner
	dryRun    bool

	// taken are the addresses that were allocated for this call, by family; an update that is tried again has them
	// already.
	taken map[corev1.IPFamily]netip.Addr
	// old is what the Service had before, as of the latest try, and now what it has.
	old, now *corev1.Service
	// takenPorts are node ports, likewise.
	takenPorts []int32
	// failed is set if the latest try ended before anything could be written.
	failed bool
}

type key struct{}

// With puts a new transaction into the context of a call.
func With(ctx context.Context, addresses Addresses, ports *Ports, dryRun bool) (context.Context, *Transaction) {
	t := &Transaction{addresses: addresses, ports: ports, dryRun: dryRun, taken: map[corev1.IPFamily]netip.Addr{}}
	return context.WithValue(ctx, key{}, t), t
}

// From returns the transaction of a call.
func From(ctx context.Context) *Transaction {
	t, _ := ctx.Value(key{}).(*Transaction)
	return t
}

// Begin gives the Service what it lacks: addresses for its families, node ports for its ports. old is what is stored,
// nil for a new one. It may be called again in the same transaction, when the write met another one.
func (t *Transaction) Begin(ctx context.Context, svc, old *corev1.Service) (err error) {
	defer func() { t.failed = err != nil }()
	owner := informer.ServiceOwner(svc.Namespace, svc.Name)
	if t.now != nil && owner != t.owner {
		// A generated name was taken already, and this is another one: what the earlier try has is in the wrong name.
		t.undo(ctx)
	}
	t.owner = owner
	t.old, t.now = old, svc
	if err := t.beginAddresses(ctx, svc, old); err != nil {
		return err
	}
	return t.beginPorts(ctx, svc, old)
}

// beginAddresses allocates for the families that have no address yet.
//
//	has an address, and the stored Service has it too   keep
//	has an address, new                                 allocate that one
//	has none                                            allocate any
func (t *Transaction) beginAddresses(ctx context.Context, svc, old *corev1.Service) error {
	if !validation.HasClusterIP(svc) || validation.IsHeadless(svc) || len(svc.Spec.IPFamilies) == 0 {
		return nil
	}
	had := addressesOf(old)
	request := meta.Request{Owner: t.owner, DryRun: t.dryRun}
	have := make([]string, len(svc.Spec.IPFamilies))
	for i, f := range svc.Spec.IPFamilies {
		family := familyOf(f)
		asked := ""
		if i < len(svc.Spec.ClusterIPs) {
			asked = svc.Spec.ClusterIPs[i]
		}
		addr, _, err := cidr.ParseAddrLenient(asked)
		switch {
		case asked != "" && err != nil, asked != "" && cidr.FamilyOf(addr) != family:
			// Validation says what is wrong with it.
			return nil
		case asked != "" && slices.Contains(had, addr):
			have[i] = asked
			continue
		}
		if earlier, ok := t.taken[f]; ok {
			if asked == "" || addr == earlier {
				have[i] = earlier.String()
				continue
			}
			// Another write came between and the client's merge asks for another address.
			if !t.dryRun {
				t.release(ctx, earlier)
			}
			delete(t.taken, f)
		}
		request.Families = append(request.Families, family)
		if asked != "" {
			request.Addresses = append(request.Addresses, addr)
			have[i] = asked
		}
	}
	if len(request.Families) == 0 {
		svc.Spec.ClusterIPs = have
		svc.Spec.ClusterIP = have[0]
		return nil
	}
	allocated, err := t.addresses.Allocate(ctx, request)
	if err != nil {
		return refusal(svc, err)
	}
	for _, a := range allocated {
		family := corev1.IPFamily(cidr.FamilyOf(a.Address).String())
		t.taken[family] = a.Address
		for i, f := range svc.Spec.IPFamilies {
			if f == family && have[i] == "" {
				have[i] = a.Address.String()
			}
		}
	}
	svc.Spec.ClusterIPs = have
	svc.Spec.ClusterIP = have[0]
	return nil
}

// beginPorts reserves node ports, likewise.
func (t *Transaction) beginPorts(ctx context.Context, svc, old *corev1.Service) error {
	if t.ports == nil {
		return nil
	}
	taken, err := t.ports.begin(ctx, svc, old, t.takenPorts, t.dryRun)
	t.takenPorts = taken
	return err
}

// Settle ends the transaction, by the outcome of the write.
func (t *Transaction) Settle(ctx context.Context, err error) {
	if t.dryRun || t.now == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	switch {
	case err == nil:
		has := addressesOf(t.now)
		for _, a := range append(addressesOf(t.old), t.all()...) {
			if !slices.Contains(has, a) {
				t.release(ctx, a)
			}
		}
		if t.ports != nil {
			t.ports.settle(ctx, t.now, t.old, t.takenPorts)
		}
	case t.failed, Refused(err):
		t.undo(ctx)
	}
}

// undo gives up what the call has taken, after a write that was not applied and will not be.
func (t *Transaction) undo(ctx context.Context) {
	if !t.dryRun {
		had := addressesOf(t.old)
		for _, a := range t.all() {
			if !slices.Contains(had, a) {
				t.release(ctx, a)
			}
		}
		if t.ports != nil {
			t.ports.undo(ctx, t.now, t.old, t.takenPorts)
		}
	}
	clear(t.taken)
	t.takenPorts = nil
}

func (t *Transaction) all() []netip.Addr {
	var all []netip.Addr
	for _, a := range t.taken {
		all = append(all, a)
	}
	return all
}

// release gives an address up. What fails here is collected by the repair controller; nobody waits for the answer.
func (t *Transaction) release(ctx context.Context, a netip.Addr) {
	if err := t.addresses.Release(ctx, t.owner, a); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "Releasing an address; the repair controller will", "owner", t.owner, "address", a)
	}
}

// Deleted releases what a Service had that is gone.
func Deleted(ctx context.Context, addresses Addresses, ports *Ports, svc *corev1.Service) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	t := &Transaction{addresses: addresses, owner: informer.ServiceOwner(svc.Namespace, svc.Name)}
	for _, a := range addressesOf(svc) {
		t.release(ctx, a)
	}
	if ports != nil {
		ports.release(ctx, svc, nodePorts(svc)...)
	}
}

// Refused tells whether an error of a write proves that it was not applied, and will not be.
func Refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch {
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsInternalError(err), apierrors.IsUnexpectedServerError(err),
		apierrors.IsTooManyRequests(err):
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// refusal makes an answer of an allocator's error: the client's fault is Invalid, at the field that the client can
// change.
func refusal(svc *corev1.Service, err error) error {
	switch {
	case errors.Is(err, meta.ErrNotSynced):
		return apierrors.NewServerTimeout(corev1.Resource("services"), "allocate an address", 1)
	case errors.Is(err, meta.ErrFull), errors.Is(err, meta.ErrNotReady), errors.Is(err, meta.ErrNoServiceCIDR):
		if len(svc.Spec.ClusterIPs) == 0 {
			return apierrors.NewInternalError(err)
		}
	case errors.Is(err, meta.ErrNotInRange), errors.Is(err, meta.ErrAllocated), errors.Is(err, meta.ErrInvalidRequest):
	default:
		return err
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, invalidClusterIPs(svc, err))
}

// addressesOf are the addresses that a Service claims.
func addressesOf(svc *corev1.Service) []netip.Addr {
	if svc == nil || !validation.HasClusterIP(svc) || validation.IsHeadless(svc) {
		return nil
	}
	var all []netip.Addr
	for _, s := range svc.Spec.ClusterIPs {
		if a, _, err := cidr.ParseAddrLenient(s); err == nil {
			all = append(all, a)
		}
	}
	return all
}

func familyOf(f corev1.IPFamily) cidr.Family {
	if f == corev1.IPv6Protocol {
		return cidr.IPv6
	}
	return cidr.IPv4
}
