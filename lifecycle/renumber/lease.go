// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/lifecycle"
)

// LeaseName names the Lease that keeps a second runner out.
const LeaseName = "metacidr-renumber"

// leaseDuration outlives the restart of a cluster's only API server, by a third.
const leaseDuration = 2 * time.Minute

// pauseAnnotation on the Lease asks the runner to pause.
const pauseAnnotation = "renumber.metacidr.io/pause"

// Exclusive runs work while it holds the cluster's Lease, as identity; work's context
// ends if the Lease is lost. It does not wait for another holder: that is ErrHeld,
// which names the holder. A holder that was killed is waited for no longer than its
// Lease lasts, or not at all by the same identity.
func Exclusive(ctx context.Context, client coordinationv1client.LeasesGetter, namespace, identity string, now clock.PassiveClock, work func(context.Context) error) error {
	lease, err := client.Leases(namespace).Get(ctx, LeaseName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Lease %s/%s: %w", namespace, LeaseName, err)
	default:
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		if holder != "" && holder != identity && lease.Spec.RenewTime != nil {
			lifetime := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
			if left := lifetime - now.Since(lease.Spec.RenewTime.Time); left > 0 {
				return fmt.Errorf("%w: %s holds Lease %s/%s; if it was killed, try again in %s", ErrHeld, holder, namespace, LeaseName, left.Round(time.Second))
			}
		}
	}
	return lifecycle.Election{Client: client, Namespace: namespace, Name: LeaseName, Identity: identity, Duration: leaseDuration}.Run(ctx, work)
}

// RequestPause asks the runner that works on the cluster to pause, or takes that
// back. It is asked between batches and steps.
func RequestPause(ctx context.Context, client coordinationv1client.LeasesGetter, namespace string, pause bool) error {
	var value any
	if pause {
		value = "true"
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{pauseAnnotation: value}}})
	if err != nil {
		return err
	}
	_, err = client.Leases(namespace).Patch(ctx, LeaseName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if apierrors.IsNotFound(err) {
		if !pause {
			return nil
		}
		return fmt.Errorf("no runner has worked on this cluster: there is no Lease %s/%s", namespace, LeaseName)
	}
	return err
}

// PauseRequested tells whether a pause is asked for. It is a Config.Paused.
func PauseRequested(client coordinationv1client.LeasesGetter, namespace string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		lease, err := client.Leases(namespace).Get(ctx, LeaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return lease.Annotations[pauseAnnotation] == "true", nil
	}
}
