// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// identityLabel is on the Leases by which API servers tell that they are there
	// (KEP-1965).
	identityLabel = "apiserver.kubernetes.io/identity=kube-apiserver"
	// samples is how often an API server is asked for its flags: behind one address may
	// be several.
	samples = 10
)

// holders are the processes of the API servers that renew their Lease, by its name.
// Empty where they have none or it may not be read.
func (r *Runner) holders(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	err := r.persist(ctx, func(ctx context.Context) error {
		clear(all)
		leases, err := r.cfg.API.Leases(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: identityLabel})
		if apierrors.IsForbidden(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range leases.Items {
			if l.Spec.RenewTime == nil {
				continue
			}
			lifetime := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 3600)) * time.Second
			if r.clock.Since(l.Spec.RenewTime.Time) < lifetime {
				all[l.Name] = ptr.Deref(l.Spec.HolderIdentity, "")
			}
		}
		return nil
	})
	return all, err
}

// handOver waits until all API servers run with the new ranges. What it goes by:
//
//	the default ServiceCIDR has the new ranges and is ready      one of them does: enough where it can be so
//	/flagz says so, and every process is younger than the run    all of them do
//	you say so, and every process is younger than the run        where /flagz is not served
//
// A process is told by the Lease that every API server holds. Where there are none, your word is all there is.
func (r *Runner) handOver(ctx context.Context, step Step, h *history) error {
	err := r.gate(ctx, step, r.cfg.HandOverTimeout, func(ctx context.Context) (string, error) { return r.handedOver(ctx, step, h) })
	if !errors.Is(err, ErrGate) {
		return err
	}
	return fmt.Errorf("%w: restart every API server with --service-cluster-ip-range=%s, and resume (%w)", ErrWaiting, strings.Join(step.Ranges, ","), err)
}

// handedOver says what is missing.
func (r *Runner) handedOver(ctx context.Context, step Step, h *history) (string, error) {
	known, differ := false, ""
	for range samples {
		ranges, err := r.cfg.API.ServerRanges(ctx)
		if err != nil {
			return "", err
		}
		if ranges == nil {
			break
		}
		known = true
		if !slices.Equal(ranges, step.Ranges) {
			differ = strings.Join(ranges, ",")
		}
	}
	old, err := r.oldProcesses(ctx, h)
	if err != nil {
		return "", err
	}
	switch {
	case differ != "":
		return fmt.Sprintf("an API server runs with --service-cluster-ip-range=%s", differ), nil
	case known && (len(old) == 0 || len(h.holders) <= 1):
		// A single server that says so need not be younger: it may have been restarted
		// before the run.
		return "", nil
	case !known:
		s, err := r.serviceCIDR(ctx, DefaultServiceCIDR)
		if err != nil {
			return "", err
		}
		if s != nil && isReady(s) && slices.Equal(s.Spec.CIDRs, step.Ranges) && !slices.Equal(step.Before, step.Ranges) && len(old) == 0 {
			return "", nil
		}
	}
	if len(old) > 0 && !known {
		return fmt.Sprintf("%d of %d API servers have not been restarted: %s", len(old), len(h.holders), strings.Join(old, ", ")), nil
	}
	return "", r.ask(ctx, step, h, fmt.Sprintf("Do all API servers run with --service-cluster-ip-range=%s?", strings.Join(step.Ranges, ",")))
}

// oldProcesses are the API servers that have not been restarted since the run began.
func (r *Runner) oldProcesses(ctx context.Context, h *history) ([]string, error) {
	now, err := r.holders(ctx)
	if err != nil {
		return nil, err
	}
	var old []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if h.holders[name] == now[name] {
			old = append(old, name)
		}
	}
	return old, nil
}
