// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"cmp"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// facts are what live reads showed of one address.
type facts struct {
	addr netip.Addr
	// object is the IPAddress of the canonical name, nil if there is none.
	object *networkingv1.IPAddress
	// named is the owner that object names.
	named informer.Owner
	// registration is that of named's resource, nil if there is none.
	registration *Registration
	// claimants are the owners that claim the address, the oldest first.
	claimants []Claims
}

// claimed reports whether the owner is among the claimants.
func (f *facts) claimed(by informer.Owner) bool {
	return slices.ContainsFunc(f.claimants, func(c Claims) bool { return c.Owner == by })
}

// heir is who has the address, or should get it: the claimant that the
// IPAddress names, else the oldest. There must be one.
func (f *facts) heir() Claims {
	for _, c := range f.claimants {
		if f.object != nil && c.Owner == f.named {
			return c
		}
	}
	return f.claimants[0]
}

// judge says what is wrong with an address, the empty Kind if nothing is. Two
// owners of one address are a matter beside it. managed reports whether a
// managed-by label is one that this controller may act on.
//
//	IPAddress   names          claimed by   managed, registered   otherwise
//	none        -              somebody     Missing               Missing
//	there       a claimant     somebody     (WrongLabel)          Unmanaged
//	there       no claimant    somebody     WrongReference        AlreadyAllocated
//	there       no claimant    nobody       Leaked                Unmanaged, Unregistered
func judge(f *facts, managed func(string) bool) Kind {
	if f.object == nil {
		if len(f.claimants) == 0 {
			return ""
		}
		return Missing
	}
	ours := managed(f.object.Labels[informer.LabelManagedBy])
	switch {
	case f.claimed(f.named) && !ours:
		return Unmanaged
	case f.claimed(f.named):
		if len(wrongLabels(f)) > 0 {
			return WrongLabel
		}
		return ""
	case len(f.claimants) > 0 && ours && f.registration != nil:
		return WrongReference
	case len(f.claimants) > 0:
		return AlreadyAllocated
	case f.registration == nil:
		return Unregistered
	case !ours:
		return Unmanaged
	}
	return Leaked
}

// labelsOf are the labels that the IPAddress of an address must have.
func labelsOf(r *Registration, addr netip.Addr) map[string]string {
	return map[string]string{
		informer.LabelManagedBy: r.Manager,
		informer.LabelIPFamily:  cidr.FamilyOf(addr).String(),
	}
}

// wrongLabels are the labels that the object must have and has not.
func wrongLabels(f *facts) map[string]string {
	wrong := map[string]string{}
	for key, value := range labelsOf(f.registration, f.addr) {
		if f.object.Labels[key] != value {
			wrong[key] = value
		}
	}
	return wrong
}

// claims reports whether an owner claims the address, however it spells it.
func claims(c Claims, addr netip.Addr) bool {
	return slices.ContainsFunc(c.Addresses, func(text string) bool {
		a, _, err := cidr.ParseAddrLenient(text)
		return err == nil && a == addr
	})
}

// bySeniority puts the older owner first.
func bySeniority(a, b Claims) int {
	return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Owner.String(), b.Owner.String()))
}
