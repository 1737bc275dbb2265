// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/lifecycle/internal/note"
)

// Reasons of Events, those of kube-apiserver.
const (
	// ReasonInconsistent: the ServiceCIDR has other ranges than configured, and
	// is left as it is. Findings Mismatch, Downgrade and Swapped.
	ReasonInconsistent = "KubernetesDefaultServiceCIDRInconsistent"
	// ReasonError: the ServiceCIDR cannot be made as configured for now. Findings
	// FamilyMissing and Terminating.
	ReasonError = "KubernetesDefaultServiceCIDRError"
)

// eventAction is what all Events say was going on.
const eventAction = "CheckDefaultServiceCIDR"

// report takes the outcome of a look into the status, and tells of it if it is
// news. It returns the finding to answer with.
func (c *Controller) report(ctx context.Context, look uint64, f Finding, obj *networkingv1.ServiceCIDR, err error) Finding {
	c.mu.Lock()
	if f.Kind == Unknown {
		f = c.status.Finding
		obj = nil
	}
	if look < c.newest { // a look that began later has ended before
		c.mu.Unlock()
		return f
	}
	c.newest = look
	c.status = Status{Finding: f, Looked: c.config.Clock.Now(), Err: err}
	close(c.changed)
	c.changed = make(chan struct{})
	told := f
	told.Remedy = "" // that of a failed write changes with each error
	news := told != c.announced && (f.Kind != FamilyMissing || refused(err))
	if news {
		c.announced = told
	}
	c.mu.Unlock()

	if news {
		c.announce(ctx, f, obj, err)
	}
	return f
}

// refused reports that a server understood a write and does not want it. All
// else may pass: another replica was faster, there is no answer, not now.
func refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonUnknown, metav1.StatusReasonConflict, metav1.StatusReasonNotFound,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonServiceUnavailable:
		return err == nil // stored otherwise than written
	}
	return true
}

// announce logs a finding and, if it is not as configured, makes an Event.
func (c *Controller) announce(ctx context.Context, f Finding, obj *networkingv1.ServiceCIDR, err error) {
	logger := klog.FromContext(ctx)
	if f.Kind.AsConfigured() {
		logger.V(2).Info("The default ServiceCIDR is as configured", "kind", f.Kind, "finding", f.Message)
		return
	}
	logger.Info("The default ServiceCIDR is not as configured", "kind", f.Kind, "finding", f.Message, "remedy", f.Remedy)
	if c.config.Recorder == nil || obj == nil {
		return
	}
	reason := ReasonInconsistent
	if f.Kind == FamilyMissing || f.Kind == Terminating {
		reason = ReasonError
	}
	text := f.Message
	if err != nil {
		text += ": " + err.Error()
	}
	text += ". " + f.Remedy
	// A reference, for it needs no scheme that knows ServiceCIDRs.
	c.config.Recorder.Eventf(&corev1.ObjectReference{
		APIVersion:      networkingv1.SchemeGroupVersion.String(),
		Kind:            "ServiceCIDR",
		Name:            obj.Name,
		UID:             obj.UID,
		ResourceVersion: obj.ResourceVersion,
	}, nil, corev1.EventTypeWarning, reason, eventAction, "%s", note.Format("%s", text))
}
