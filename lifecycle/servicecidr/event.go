// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/metacidr/metacidr/lifecycle/internal/note"
)

// Reasons of events on a ServiceCIDR.
const (
	// EventTerminating, Normal: it is deleted, and nothing depends on it; it goes
	// after the grace period.
	EventTerminating = "Terminating"
	// EventBlocked, Normal: its deletion waits for addresses; the message says
	// which, and what would end it.
	EventBlocked = "TerminationBlocked"
	// EventReleased, Normal: its finalizer is removed.
	EventReleased = "Released"
	// EventError, Warning: its condition could not be written. It is the reason
	// that Kubernetes' own controller gives.
	EventError = "KubernetesServiceCIDRError"
)

// event tells an operator of something that is news.
func (c *Controller) event(obj *networkingv1.ServiceCIDR, kind, reason, format string, args ...any) {
	if c.config.Recorder != nil {
		c.config.Recorder.Eventf(obj, nil, kind, reason, "Syncing", "%s", note.Format(format, args...))
	}
}
