// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/informer"
)

// resolve decides about one address from live reads alone, and acts.
func (p *pass) resolve(ctx context.Context, addr netip.Addr) {
	f, err := p.read(ctx, addr)
	if err != nil {
		p.fail("read", err)
		return
	}
	// Of a resource that could not be listed, "not found" proves nothing: it may
	// not be served.
	sure := f.registration == nil || f.claimed(f.named) || !p.unknown[f.registration.Owners.Resource()]
	if kind := judge(f, p.managed); kind != "" && sure {
		p.act(ctx, f, kind)
	}
	if len(f.claimants) < 2 {
		return
	}
	heir := f.heir()
	for _, younger := range f.claimants[1:] {
		other := f.claimants[0].Owner
		p.report.add(Finding{Kind: Duplicate, Outcome: Reported, Name: addr.String(), Address: addr, Owner: younger.Owner, Other: other,
			Detail: fmt.Sprintf("the IPAddress is for %s: give one of the owners another address", heir.Owner)})
		p.announce(Duplicate, younger, reasonAlreadyAllocated, addr.String(), "%s is also the address of %s", addr, other)
	}
}

// read gathers the facts: the IPAddress, then its claimants, the owner that it
// names last. The IPAddress is fenced when it is deleted, an owner cannot be.
func (p *pass) read(ctx context.Context, addr netip.Addr) (*facts, error) {
	f := &facts{addr: addr}
	obj, err := p.get(ctx, addr.String())
	switch {
	case err == nil:
		f.object, f.named = obj, informer.OwnerOf(obj.Spec.ParentRef)
		f.registration = p.registration(f.named)
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	var owners []informer.Owner
	for _, c := range p.claims[addr] {
		if c.Owner != f.named {
			owners = append(owners, c.Owner)
		}
	}
	if f.registration != nil {
		owners = append(owners, f.named)
	}
	for _, owner := range owners {
		live, err := p.getOwner(ctx, owner)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case claims(live, addr):
			f.claimants = append(f.claimants, live)
		}
	}
	slices.SortFunc(f.claimants, bySeniority)
	return f, nil
}

func (p *pass) get(ctx context.Context, name string) (obj *networkingv1.IPAddress, err error) {
	err = p.call(ctx, p.config.CallTimeout, func(ctx context.Context) (err error) {
		// No resourceVersion: the answer is not older than the request.
		obj, err = p.config.Client.IPAddresses().Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading IPAddress %s: %w", name, err)
	}
	return obj, nil
}

func (p *pass) getOwner(ctx context.Context, owner informer.Owner) (live Claims, err error) {
	r := p.registration(owner)
	err = p.call(ctx, p.config.CallTimeout, func(ctx context.Context) (err error) {
		live, err = r.Owners.Get(ctx, owner)
		return err
	})
	if err != nil {
		return Claims{}, fmt.Errorf("reading %s: %w", owner, err)
	}
	live.Owner = owner
	return live, nil
}

// act puts right what may be, and reports.
func (p *pass) act(ctx context.Context, f *facts, kind Kind) {
	finding := Finding{Kind: kind, Outcome: Reported, Name: f.addr.String(), Address: f.addr, Owner: f.named}
	if f.object != nil {
		finding.UID = f.object.UID
	}
	switch kind {
	case Missing:
		finding.Owner = f.heir().Owner
		if !p.config.DryRun {
			p.create(ctx, f, &finding)
		}
	case Leaked:
		if p.mayRemove(f, &finding) {
			p.collect(ctx, f, &finding)
		}
	case WrongReference:
		finding.Owner, finding.Other = f.heir().Owner, f.named
		if p.mayRemove(f, &finding) {
			p.replace(ctx, f, &finding)
		}
	case WrongLabel:
		if !p.config.DryRun {
			p.relabel(ctx, f, &finding)
		}
	case AlreadyAllocated:
		p.alreadyAllocated(f, f.object, &finding)
	}
	if finding.Outcome == Failed {
		p.fail(string(finding.Kind), finding.Err)
	}
	if finding.Outcome == Repaired {
		klog.FromContext(ctx).V(2).Info("Repaired", "kind", finding.Kind, "name", finding.Name, "uid", finding.UID, "owner", finding.Owner, "other", finding.Other)
	}
	p.report.add(finding)
}

// mayRemove reports whether the IPAddress may be deleted now; otherwise the
// finding says why not.
func (p *pass) mayRemove(f *facts, finding *Finding) bool {
	if finding.Wait = p.patience(finding.Kind, f.object.UID); finding.Wait > 0 {
		finding.Outcome = Pending
		return false
	}
	finding.Wait = 0
	if f.object.DeletionTimestamp != nil {
		finding.Outcome, finding.Detail = Pending, "it is deleted already, and waits for its finalizers"
		return false
	}
	return !p.config.DryRun
}

// remove deletes the very object that was read, in the very state. It reports
// whether it did; otherwise the finding says why not.
func (p *pass) remove(ctx context.Context, f *facts, finding *Finding) bool {
	err := p.call(ctx, p.config.CallTimeout, func(ctx context.Context) error {
		return p.config.Client.IPAddresses().Delete(ctx, f.object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &f.object.UID, ResourceVersion: &f.object.ResourceVersion,
		}})
	})
	return err == nil || finding.fail(err, "deleting", p, nil)
}

// collect deletes a leaked IPAddress. An owner that came back in that moment
// and claims it, such as from a backup, gets another at once.
func (p *pass) collect(ctx context.Context, f *facts, finding *Finding) {
	if !p.remove(ctx, f, finding) {
		return
	}
	finding.Outcome = Repaired
	p.announceAddress(Leaked, f.object, reasonLeaked, "The owner, %s, is gone or does not claim it: deleted", f.named)
	live, err := p.getOwner(ctx, f.named)
	if err != nil || !claims(live, f.addr) {
		return // an owner that could not be read is looked at by the next pass
	}
	f.claimants = []Claims{live}
	again := Finding{Kind: Missing, Name: f.addr.String(), Address: f.addr, Owner: f.named}
	if p.create(ctx, f, &again); again.Outcome == Failed {
		p.fail(string(Missing), again.Err)
	}
	p.report.add(again)
}

// replace deletes an IPAddress and creates one for the owner that claims it. In
// between, an allocation may take the address: then that is reported, and the
// next pass sees whose it is.
func (p *pass) replace(ctx context.Context, f *facts, finding *Finding) {
	if !p.remove(ctx, f, finding) {
		return
	}
	p.announceAddress(WrongReference, f.object, reasonWrongReference, "It names %s, but is the address of %s: replaced", f.named, finding.Owner)
	p.create(ctx, f, finding)
}

// create creates the IPAddress of the heir, and never overwrites one.
func (p *pass) create(ctx context.Context, f *facts, finding *Finding) {
	heir := f.heir()
	obj := &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: f.addr.String(), Labels: labelsOf(p.registration(heir.Owner), f.addr)},
		Spec:       networkingv1.IPAddressSpec{ParentRef: heir.Owner.Reference()},
	}
	err := p.call(ctx, p.config.CallTimeout, func(ctx context.Context) error {
		_, err := p.config.Client.IPAddresses().Create(ctx, obj, metav1.CreateOptions{})
		return err
	})
	switch {
	case err == nil:
		finding.Outcome = Repaired
		if finding.Kind == Missing {
			p.announce(Missing, heir, reasonNotAllocated, finding.Name, "%s had no IPAddress: created", f.addr)
		}
	case apierrors.IsAlreadyExists(err):
		p.met(ctx, f, finding)
	default:
		finding.fail(err, "creating", p, &heir)
	}
}

// met looks at the IPAddress that a create met.
func (p *pass) met(ctx context.Context, f *facts, finding *Finding) {
	obj, err := p.get(ctx, f.addr.String())
	switch heir := f.heir(); {
	case apierrors.IsNotFound(err):
		finding.Outcome = Superseded
	case err != nil:
		finding.Outcome, finding.Err = Failed, err
	case informer.OwnerOf(obj.Spec.ParentRef) == heir.Owner:
		finding.Outcome = Superseded // another replica, or the owner's allocator
	case f.object != nil && obj.UID == f.object.UID:
		finding.Outcome, finding.Detail = Pending, "it is deleted, and waits for its finalizers"
	default:
		p.alreadyAllocated(f, obj, finding)
	}
}

// alreadyAllocated reports that the heir's address has another's IPAddress.
func (p *pass) alreadyAllocated(f *facts, obj *networkingv1.IPAddress, finding *Finding) {
	heir := f.heir()
	finding.Kind, finding.Outcome = AlreadyAllocated, Reported
	finding.Owner, finding.Other, finding.UID = heir.Owner, informer.OwnerOf(obj.Spec.ParentRef), obj.UID
	finding.Detail = "give the owner another address, or delete the IPAddress if it is wrong"
	p.announce(AlreadyAllocated, heir, reasonAlreadyAllocated, finding.Name, "The IPAddress of %s is for %s", f.addr, finding.Other)
}

// relabel sets the labels of the very object that was read.
func (p *pass) relabel(ctx context.Context, f *facts, finding *Finding) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": f.object.UID, "resourceVersion": f.object.ResourceVersion, "labels": wrongLabels(f),
	}})
	if err == nil {
		err = p.call(ctx, p.config.CallTimeout, func(ctx context.Context) error {
			_, err := p.config.Client.IPAddresses().Patch(ctx, f.object.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	}
	if err == nil {
		finding.Outcome = Repaired
		return
	}
	finding.fail(err, "labelling", p, nil)
}

// fail notes a write that failed, or met another object than was read. It
// returns false.
func (f *Finding) fail(err error, doing string, p *pass, owner *Claims) bool {
	if owner == nil && superseded(err) {
		f.Outcome = Superseded
		return false
	}
	f.Outcome, f.Err = Failed, fmt.Errorf("%s IPAddress %s: %w", doing, f.Name, err)
	if owner != nil {
		p.announce(f.Kind, *owner, reasonUnknownError, f.Name, "The IPAddress of %s could not be created", f.Name)
	}
	return false
}
