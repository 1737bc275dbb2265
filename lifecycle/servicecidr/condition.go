// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/metacidr/metacidr/informer"
)

// Reasons of the Ready condition.
const (
	// ReasonReady: True. Addresses are allocated from it.
	ReasonReady = "Ready"
	// ReasonNoUsableAddress: False. No entry of spec.cidrs has a usable address.
	ReasonNoUsableAddress = "NoUsableAddress"
	// ReasonTerminating: False. It is deleted and waits for what the message says.
	ReasonTerminating = networkingv1.ServiceCIDRReasonTerminating
)

// verdict is what the Ready condition should be.
type verdict struct {
	status          metav1.ConditionStatus
	reason, message string
	// event is the reason of the event that goes with it when it is news.
	event string
}

// living is the verdict on a ServiceCIDR that is not terminating.
func living(row *informer.ServiceCIDR) verdict {
	if len(row.Ranges) == 0 {
		message := "spec.cidrs is empty"
		if len(row.Problems) > 0 {
			message = row.Problems[0].String()
		}
		return verdict{metav1.ConditionFalse, ReasonNoUsableAddress, message + ": create another ServiceCIDR", ""}
	}
	message := "its addresses may be allocated"
	for _, p := range row.Problems {
		message += "; " + p.String()
	}
	return verdict{metav1.ConditionTrue, ReasonReady, message, ""}
}

// blocked is the verdict on a terminating one that addresses depend on.
func blocked(report *Report) verdict {
	return verdict{metav1.ConditionFalse, ReasonTerminating, report.String(), EventBlocked}
}

// leaving is the verdict on a terminating one that only the grace period keeps.
func leaving(report *Report, grace time.Duration) verdict {
	message := fmt.Sprintf("%s; it goes after a grace period of %v", report, grace)
	return verdict{metav1.ConditionFalse, ReasonTerminating, message, EventTerminating}
}

// shownBy reports whether the ServiceCIDR says so already.
func (v verdict) shownBy(row *informer.ServiceCIDR) bool {
	return row.ReadyStatus == v.status && row.ReadyReason == v.reason && row.ReadyMessage == v.message &&
		row.ReadyGeneration == row.Generation
}

// show writes the condition unless the object bears it already. The patch
// carries the UID: a ServiceCIDR made anew under the name is left alone.
func (c *Controller) show(ctx context.Context, obj *networkingv1.ServiceCIDR, v verdict) error {
	if v.shownBy(informer.NewServiceCIDR(obj)) {
		return nil
	}
	since := metav1.NewTime(c.config.Clock.Now())
	if old := meta.FindStatusCondition(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady); old != nil && old.Status == v.status {
		since = old.LastTransitionTime
	}
	apply := networkingv1ac.ServiceCIDR(obj.Name).WithUID(obj.UID).WithStatus(
		networkingv1ac.ServiceCIDRStatus().WithConditions(metav1ac.Condition().
			WithType(networkingv1.ServiceCIDRConditionReady).
			WithStatus(v.status).
			WithReason(v.reason).
			WithMessage(v.message).
			WithObservedGeneration(obj.Generation).
			WithLastTransitionTime(since)))
	// Force: the condition is this controller's, whoever wrote it before.
	_, err := c.config.Client.ServiceCIDRs().ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: c.config.FieldManager, Force: true})
	if err != nil {
		return fmt.Errorf("setting Ready=%s (%s) on ServiceCIDR %s: %w", v.status, v.reason, obj.Name, err)
	}
	return nil
}
