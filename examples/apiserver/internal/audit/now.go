// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/cidr"
)

// Fault is one thing that is not one to one.
type Fault struct {
	Kind FaultKind
	// Address is what it is about, as it is spelled in the object.
	Address string
	// Services are those concerned, as namespace/name.
	Services []string
}

// FaultKind is what is wrong with an address.
type FaultKind string

const (
	// Orphan: a Service has the address, and no IPAddress names that Service for it.
	Orphan FaultKind = "orphan"
	// Leak: there is an IPAddress, and no Service has the address.
	Leak FaultKind = "leak"
	// Duplicate: more than one Service has the address.
	Duplicate FaultKind = "duplicate"
	// Uncovered: there is an IPAddress that is usable in no ServiceCIDR.
	Uncovered FaultKind = "uncovered"
	// Malformed: it is no address in its canonical spelling.
	Malformed FaultKind = "malformed"
)

func (f Fault) String() string {
	return fmt.Sprintf("%s: %s %s", f.Kind, f.Address, strings.Join(f.Services, ", "))
}

// Now compares all Services with all IPAddresses. The lists are not of one moment: while somebody writes, a fault may be
// nothing but that.
func Now(ctx context.Context, client kubernetes.Interface) ([]Fault, error) {
	addresses, err := client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list IPAddresses: %w", err)
	}
	services, err := client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	cidrs, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
	}
	return Compare(services.Items, addresses.Items, cidrs.Items), nil
}

// Compare returns what is wrong, in the order of the addresses' spelling.
func Compare(services []corev1.Service, addresses []networkingv1.IPAddress, cidrs []networkingv1.ServiceCIDR) []Fault {
	var faults []Fault
	claims := map[string][]string{}
	for i := range services {
		for _, address := range claimed(&services[i]) {
			claims[address] = append(claims[address], nameOf(&services[i]))
		}
	}
	owners := map[string]string{}
	for _, obj := range addresses {
		owner := ""
		if ref := obj.Spec.ParentRef; ref != nil {
			owner = ref.Namespace + "/" + ref.Name
			if ref.Resource != "services" || ref.Group != "" {
				owner = ref.Resource + "." + ref.Group + " " + owner
			}
		}
		owners[obj.Name] = owner
		if len(claims[obj.Name]) == 0 {
			faults = append(faults, Fault{Kind: Leak, Address: obj.Name, Services: []string{owner}})
		}
		addr, err := cidr.ParseAddr(obj.Name)
		switch {
		case err != nil || addr.String() != obj.Name:
			faults = append(faults, Fault{Kind: Malformed, Address: obj.Name, Services: claims[obj.Name]})
		case !covered(addr, cidrs):
			faults = append(faults, Fault{Kind: Uncovered, Address: obj.Name, Services: claims[obj.Name]})
		}
	}
	for address, names := range claims {
		if len(names) > 1 {
			faults = append(faults, Fault{Kind: Duplicate, Address: address, Services: names})
		}
		for _, name := range names {
			if owners[address] != name {
				faults = append(faults, Fault{Kind: Orphan, Address: address, Services: []string{name}})
			}
		}
	}
	slices.SortFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Kind, b.Kind), slices.Compare(a.Services, b.Services))
	})
	return faults
}

// covered reports whether addr is usable in a ServiceCIDR.
func covered(addr netip.Addr, cidrs []networkingv1.ServiceCIDR) bool {
	for _, obj := range cidrs {
		for _, prefix := range obj.Spec.CIDRs {
			if r, err := cidr.Parse(prefix); err == nil && r.Band(addr) != cidr.BandNone {
				return true
			}
		}
	}
	return false
}

// claimed are the addresses that a Service has.
func claimed(svc *corev1.Service) []string {
	if svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return svc.Spec.ClusterIPs
}

func nameOf(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }
