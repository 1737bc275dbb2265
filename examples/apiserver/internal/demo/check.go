// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/cidr"
)

// stock is all that the server has of what the walk is about.
type stock struct {
	services  []corev1.Service
	addresses []networkingv1.IPAddress
	cidrs     []networkingv1.ServiceCIDR
}

func takeStock(ctx context.Context, client kubernetes.Interface) (stock, error) {
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return stock{}, fmt.Errorf("list Services: %w", err)
	}
	addresses, err := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return stock{}, fmt.Errorf("list IPAddresses: %w", err)
	}
	cidrs, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return stock{}, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	return stock{services.Items, addresses.Items, cidrs.Items}, nil
}

// oneToOne returns an error for each address of a Service that has no IPAddress, or another's, for each IPAddress that
// no Service has, and for each that no ServiceCIDR covers.
func (s stock) oneToOne() error {
	var errs []error
	owners := map[string]string{} // address -> owner, as the IPAddresses say
	for _, obj := range s.addresses {
		ref := obj.Spec.ParentRef
		owners[obj.Name] = fmt.Sprintf("%s %s/%s", ref.Resource, ref.Namespace, ref.Name)
		addr, err := cidr.ParseAddr(obj.Name)
		if err != nil {
			errs = append(errs, fmt.Errorf("IPAddress %s: %w", obj.Name, err))
		} else if !s.covered(addr) {
			errs = append(errs, fmt.Errorf("IPAddress %s is in no ServiceCIDR", obj.Name))
		}
	}
	claimed := map[string]bool{}
	for _, svc := range s.services {
		owner := fmt.Sprintf("services %s/%s", svc.Namespace, svc.Name)
		for _, address := range svc.Spec.ClusterIPs {
			if address == corev1.ClusterIPNone {
				continue
			}
			claimed[address] = true
			if got := owners[address]; got != owner {
				errs = append(errs, fmt.Errorf("%s has %s, whose IPAddress names %q", owner, address, got))
			}
		}
	}
	for address, owner := range owners {
		if !claimed[address] {
			errs = append(errs, fmt.Errorf("IPAddress %s of %s is an orphan", address, owner))
		}
	}
	return errors.Join(errs...)
}

// covered reports whether addr is usable in a ServiceCIDR.
func (s stock) covered(addr netip.Addr) bool {
	for _, obj := range s.cidrs {
		for _, prefix := range obj.Spec.CIDRs {
			if r, err := cidr.Parse(prefix); err == nil && r.Band(addr) != cidr.BandNone {
				return true
			}
		}
	}
	return false
}

// in returns the Services that have an address in prefix.
func (s stock) in(prefix netip.Prefix) (found []corev1.Service) {
	for _, svc := range s.services {
		if addr, ok := addressOf(&svc); ok && prefix.Contains(addr) {
			found = append(found, svc)
		}
	}
	return found
}

// addressOf returns the first address of a Service.
func addressOf(svc *corev1.Service) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(svc.Spec.ClusterIP)
	return addr, err == nil
}
