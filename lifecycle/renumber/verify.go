// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leftover is something in a range that should be empty.
type Leftover struct {
	// Kind is Service, IPAddress or ServiceCIDR; Object "namespace/name" or "name".
	Kind   string `json:"kind"`
	Object string `json:"object"`
	// Address is what it has in the range.
	Address string `json:"address"`
	// Owner, of an IPAddress, is "resource namespace/name".
	Owner string `json:"owner,omitempty"`
}

func (l Leftover) String() string {
	s := fmt.Sprintf("%s %s", l.Kind, l.Object)
	if l.Address != l.Object {
		s += " has " + l.Address
	}
	if l.Owner != "" {
		s += " of " + l.Owner
	}
	return s
}

// FindLeftovers reads the cluster, and lists what has an address in t.Leave that is not in t.Stay,
// and the ServiceCIDRs that still give such addresses out. None means that
// nothing was there when the reads were answered; they are consistent ones.
func FindLeftovers(ctx context.Context, api API, t *Target) ([]Leftover, error) {
	leaves := t.leaves()
	var left []Leftover
	err := eachService(ctx, api, func(svc *corev1.Service) {
		for _, a := range addressesOf(svc) {
			if leaves(a) {
				left = append(left, Leftover{Kind: "Service", Object: key(svc), Address: a})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, listOf(api.IPAddresses().List), func(ip *networkingv1.IPAddress) {
		if leaves(ip.Name) {
			left = append(left, Leftover{Kind: "IPAddress", Object: ip.Name, Address: ip.Name, Owner: ownerOf(ip)})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing the IPAddresses: %w", err)
	}
	cidrs, err := api.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing the ServiceCIDRs: %w", err)
	}
	for _, s := range cidrs.Items {
		for _, c := range s.Spec.CIDRs {
			if slices.Contains(t.Leave, c) {
				left = append(left, Leftover{Kind: "ServiceCIDR", Object: s.Name, Address: c})
			}
		}
	}
	return left, nil
}

func ownerOf(ip *networkingv1.IPAddress) string {
	p := ip.Spec.ParentRef
	if p == nil {
		return ""
	}
	resource := p.Resource
	if p.Group != "" {
		resource += "." + p.Group
	}
	if p.Namespace == "" {
		return resource + " " + p.Name
	}
	return fmt.Sprintf("%s %s/%s", resource, p.Namespace, p.Name)
}

// addressesOf are the clusterIPs that are addresses.
func addressesOf(svc *corev1.Service) []string {
	if isHeadless(svc) {
		return nil
	}
	if len(svc.Spec.ClusterIPs) == 0 && svc.Spec.ClusterIP != "" {
		return []string{svc.Spec.ClusterIP}
	}
	return svc.Spec.ClusterIPs
}

// eachService reads all Services, in pages.
func eachService(ctx context.Context, api API, do func(*corev1.Service)) error {
	if err := each(ctx, listOf(api.Services("").List), do); err != nil {
		return fmt.Errorf("listing the Services: %w", err)
	}
	return nil
}
