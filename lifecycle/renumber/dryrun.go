// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DryRun has the API server try the first write of every step and Service, and store
// nothing: admission, validation and permissions are those of the real ones. It
// returns what would be refused, and how many writes were tried.
func DryRun(ctx context.Context, api API, p *Plan) (refused []string, tried int, err error) {
	dry := []string{metav1.DryRunAll}
	note := func(what string, err error) error {
		tried++
		var status apierrors.APIStatus
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return nil
		case errors.As(err, &status) && !passing(err):
			refused = append(refused, fmt.Sprintf("%s: %v", what, err))
			return nil
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	rows := p.rows()
	for _, step := range p.Steps {
		switch step.Kind {
		case CreateServiceCIDR:
			_, err := api.ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: step.ServiceCIDR.Name, Labels: withPlan(step.ServiceCIDR.Labels, p.Name)},
				Spec:       networkingv1.ServiceCIDRSpec{CIDRs: step.ServiceCIDR.CIDRs},
			}, metav1.CreateOptions{DryRun: dry, FieldManager: FieldManager})
			if err := note("creating ServiceCIDR "+step.ServiceCIDR.Name, err); err != nil {
				return nil, tried, err
			}
		case DeleteServiceCIDR:
			err := api.ServiceCIDRs().Delete(ctx, step.ServiceCIDR.Name, metav1.DeleteOptions{DryRun: dry})
			if err := note("deleting ServiceCIDR "+step.ServiceCIDR.Name, err); err != nil {
				return nil, tried, err
			}
		case MoveServices:
			var failed error
			err := eachService(ctx, api, func(svc *corev1.Service) {
				row := rows[key(svc)]
				if failed != nil || row == nil || !row.changes() {
					return
				}
				var err error
				services := api.Services(svc.Namespace)
				if row.Strategy == Recreate {
					err = services.Delete(ctx, svc.Name, metav1.DeleteOptions{DryRun: dry})
				} else {
					_, err = services.Update(ctx, parked(svc, p.Name), metav1.UpdateOptions{DryRun: dry, FieldManager: FieldManager})
				}
				failed = note("moving Service "+key(svc), err)
			})
			if err != nil {
				return nil, tried, err
			}
			if failed != nil {
				return nil, tried, failed
			}
		}
	}
	return refused, tried, nil
}
