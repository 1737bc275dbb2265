// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// DefaultGrace is how long the reference controller waits after a deletion.
const DefaultGrace = 10 * time.Second

// ReferenceController is the controller that properties use unless WithController
// names another: it has no cache, reads all there is for each decision, and so is
// slow and easy to believe.
//
//	no deletionTimestamp  ->  the finalizer is put on
//	terminating           ->  after the grace period, one list of IPAddresses and
//	                          one of ServiceCIDRs; the finalizer goes if every
//	                          managed address here is usable in another one that
//	                          is not terminating and bears the finalizer
//
// Its methods may be called concurrently.
func ReferenceController(env Env) (Controller, error) {
	return &reference{client: env.Client, clock: env.Clock}, nil
}

type reference struct {
	client Client
	clock  clock.PassiveClock
}

// Run has nothing to keep up to date.
func (c *reference) Run(ctx context.Context) error { <-ctx.Done(); return nil }

func (c *reference) Sync(ctx context.Context, name string) (time.Duration, error) {
	obj, err := c.client.ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading ServiceCIDR %s: %w", name, err)
	}
	row := informer.NewServiceCIDR(obj)
	switch {
	case !row.Terminating && !row.HasFinalizer:
		obj.Finalizers = append(obj.Finalizers, informer.Finalizer)
	case row.Terminating && row.HasFinalizer:
		if left := DefaultGrace - c.clock.Since(obj.DeletionTimestamp.Time); left > 0 {
			return left, nil
		}
		blocked, err := c.blocked(ctx, row)
		if err != nil || blocked {
			return 0, err
		}
		obj.Finalizers = slices.DeleteFunc(obj.Finalizers, func(f string) bool { return f == informer.Finalizer })
	default:
		return 0, nil
	}
	// The resourceVersion is that of the read: no write of others is undone.
	_, err = c.client.ServiceCIDRs().Update(ctx, obj, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("writing the finalizers of ServiceCIDR %s: %w", name, err)
	}
	return 0, nil
}

// blocked reports whether an address depends on this ServiceCIDR alone.
func (c *reference) blocked(ctx context.Context, row *informer.ServiceCIDR) (bool, error) {
	// No resourceVersion: neither answer is older than its request.
	addresses, err := c.client.IPAddresses().List(ctx, metav1.ListOptions{LabelSelector: informer.LabelManagedBy})
	if err != nil {
		return false, fmt.Errorf("listing IPAddresses: %w", err)
	}
	all, err := c.client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	return slices.ContainsFunc(addresses.Items, func(a networkingv1.IPAddress) bool {
		addr, _, err := cidr.ParseAddrLenient(a.Name)
		return err == nil && row.CoversUsable(addr) && !covered(all.Items, addr)
	}), nil
}

// covered reports whether a ServiceCIDR that stays covers the address.
func covered(all []networkingv1.ServiceCIDR, addr netip.Addr) bool {
	return slices.ContainsFunc(all, func(obj networkingv1.ServiceCIDR) bool {
		row := informer.NewServiceCIDR(&obj)
		return !row.Terminating && row.HasFinalizer && row.CoversUsable(addr)
	})
}
