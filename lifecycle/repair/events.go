// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/internal/note"
)

// Reasons of events, those of kube-apiserver's own repair loop.
const (
	reasonNotValid         = "ClusterIPNotValid"         // on the owner
	reasonOutOfRange       = "ClusterIPOutOfRange"       // on the owner
	reasonNotAllocated     = "ClusterIPNotAllocated"     // on the owner
	reasonAlreadyAllocated = "ClusterIPAlreadyAllocated" // on the owner
	reasonUnknownError     = "UnknownError"              // on the owner
	reasonLeaked           = "IPAddressNotAllocated"     // on the IPAddress
	reasonWrongReference   = "IPAddressWrongReference"   // on the IPAddress
)

// action is what all events say was going on.
const action = "ClusterIPRepair"

// announceEvery is how often an event is repeated while its cause lasts: before
// the API server forgets the last one, which by default it does after an hour.
const announceEvery = 30 * time.Minute

// announcement is what an event is about.
type announcement struct {
	kind   Kind
	reason string
	owner  informer.Owner
	name   string
}

// due reports whether an event may be sent now.
func (p *pass) due(a announcement) bool {
	if p.config.Recorder == nil || p.config.DryRun {
		return false
	}
	last, ok := p.announced[a]
	return !ok || p.config.Clock.Since(last) >= announceEvery
}

// announce sends an event about an owner's claim; name is the address, or the
// text if it is none.
func (p *pass) announce(kind Kind, owner Claims, reason, name, format string, args ...any) {
	a := announcement{kind, reason, owner.Owner, name}
	if owner.Object == nil || !p.due(a) {
		return
	}
	p.announced[a] = p.config.Clock.Now()
	p.config.Recorder.Eventf(owner.Object, nil, corev1.EventTypeWarning, reason, action, "%s", note.Format(format, args...))
}

// announceAddress sends an event about an IPAddress.
func (p *pass) announceAddress(kind Kind, obj *networkingv1.IPAddress, reason, format string, args ...any) {
	a := announcement{kind, reason, informer.OwnerOf(obj.Spec.ParentRef), obj.Name}
	if !p.due(a) {
		return
	}
	p.announced[a] = p.config.Clock.Now()
	p.config.Recorder.Eventf(obj, nil, corev1.EventTypeWarning, reason, action, "%s", note.Format(format, args...))
}

// reportClaim reports something about a claim that only people can put right.
// When an event is due, the owner is read for it, and is forgiven if it has
// changed.
func (p *pass) reportClaim(ctx context.Context, f Finding, reason string, still func(Claims) bool) {
	f.Outcome = Reported
	a := announcement{f.Kind, reason, f.Owner, f.Name}
	if p.due(a) && !p.stop(ctx) {
		live, err := p.getOwner(ctx, f.Owner)
		switch {
		case apierrors.IsNotFound(err), err == nil && !still(live):
			return
		case err != nil:
			p.fail(string(f.Kind), err)
		default:
			p.announce(f.Kind, live, reason, f.Name, "%s: %s", f.Name, f.Detail)
		}
	}
	p.report.add(f)
}

// forgetAnnouncements drops those that no longer hold back anything.
func (p *pass) forgetAnnouncements() {
	for a, last := range p.announced {
		if p.config.Clock.Since(last) >= announceEvery {
			delete(p.announced, a)
		}
	}
}
