// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
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

// oneToOne returns an error if Services and IPAddresses are not one to one, or an address is in no ServiceCIDR.
func (s stock) oneToOne() error {
	if faults := audit.Compare(s.services, s.addresses, s.cidrs); len(faults) > 0 {
		return fmt.Errorf("not one to one, Services and IPAddresses: %v", faults)
	}
	return nil
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
