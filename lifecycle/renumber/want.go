// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/cidr"
)

// want is what a Service should have: its families, and an address of each. It
// depends on the Service as it was when its move began, not on what it is now, so a
// run that is resumed wants the same.
type want struct {
	families []corev1.IPFamily
	policy   *corev1.IPFamilyPolicy
	// addresses are parallel to families; "" is drawn by the API server. Nil for a
	// headless Service.
	addresses []string
	// forbidden tells which addresses will not do where one is drawn.
	forbidden func(string) bool
	// tried counts how often elsewhere was called.
	tried int
}

// wants derives it from a Service, what a step wants of all, and the addresses that the plan has chosen for this one, if any.
func wants(svc *corev1.Service, t *Target, chosen []string) want {
	leaves := t.leaves()
	w := want{families: slices.Clone(svc.Spec.IPFamilies), policy: svc.Spec.IPFamilyPolicy, forbidden: leaves}
	if !isHeadless(svc) {
		w.addresses = slices.Clone(svc.Spec.ClusterIPs)
	}
	for i, a := range w.addresses {
		if leaves(a) {
			w.addresses[i] = ""
		}
	}
	switch {
	case t.Add != "":
		w.addFamily(t.Add)
	case t.Drop != "":
		w.dropFamily(t.Drop)
	case t.First != "":
		if len(w.families) == 2 && w.families[1] == t.First {
			slices.Reverse(w.families)
			slices.Reverse(w.addresses)
		}
	}
	for _, c := range chosen {
		for i, f := range w.families {
			if i < len(w.addresses) && w.addresses[i] == "" && c != "" && familyOf(c) == f {
				w.addresses[i] = c
			}
		}
	}
	return w
}

// wantsBack is what a Service had.
func wantsBack(original *corev1.Service) want {
	w := want{families: slices.Clone(original.Spec.IPFamilies), policy: original.Spec.IPFamilyPolicy,
		forbidden: func(string) bool { return false }}
	if !isHeadless(original) {
		w.addresses = slices.Clone(original.Spec.ClusterIPs)
	}
	return w
}

func (w *want) addFamily(f corev1.IPFamily) {
	if len(w.families) != 1 || w.families[0] == f {
		return
	}
	w.families = append(w.families, f)
	if w.addresses != nil {
		w.addresses = append(w.addresses, "")
	}
	if w.policy == nil || *w.policy == corev1.IPFamilyPolicySingleStack {
		w.policy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	}
}

func (w *want) dropFamily(f corev1.IPFamily) {
	i := slices.Index(w.families, f)
	if i < 0 {
		return
	}
	w.policy = ptr.To(corev1.IPFamilyPolicySingleStack)
	if len(w.families) == 1 {
		w.families = []corev1.IPFamily{other(f)}
		if w.addresses != nil {
			w.addresses = []string{""}
		}
		return
	}
	w.families = slices.Delete(w.families, i, i+1)
	if w.addresses != nil {
		w.addresses = slices.Delete(w.addresses, i, i+1)
	}
}

func other(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// first tells whether the first family and address will do. They do not change but
// through ExternalName.
func (w want) first(svc *corev1.Service) bool {
	if len(w.families) == 0 {
		return true
	}
	if len(svc.Spec.IPFamilies) == 0 || svc.Spec.IPFamilies[0] != w.families[0] {
		return false
	}
	return w.addressFits(svc, 0)
}

func (w want) addressFits(svc *corev1.Service, i int) bool {
	if w.addresses == nil {
		return true
	}
	if i >= len(svc.Spec.ClusterIPs) || i >= len(w.addresses) {
		return false
	}
	have := svc.Spec.ClusterIPs[i]
	if w.addresses[i] == "" {
		return have != "" && familyOf(have) == w.families[i] && !w.forbidden(have)
	}
	return have == w.addresses[i]
}

// met tells whether a Service has all that is wanted.
func (w want) met(svc *corev1.Service) bool {
	if !slices.Equal(svc.Spec.IPFamilies, w.families) || !ptr.Equal(svc.Spec.IPFamilyPolicy, w.policy) {
		return false
	}
	for i := range w.families {
		if !w.addressFits(svc, i) {
			return false
		}
	}
	return true
}

// asked are the addresses that a Service without any is given: as many as can be asked for
// at once, since the API server draws none before one that is asked for.
func (w want) asked() (families []corev1.IPFamily, policy *corev1.IPFamilyPolicy, addresses []string) {
	if len(w.addresses) == 2 && w.addresses[0] == "" && w.addresses[1] != "" {
		return w.families[:1], ptr.To(corev1.IPFamilyPolicySingleStack), nil
	}
	for _, a := range w.addresses {
		if a == "" {
			break
		}
		addresses = append(addresses, a)
	}
	return w.families, w.policy, addresses
}

// drawn is the same with no address asked for.
func (w want) drawn() want {
	w.addresses = slices.Clone(w.addresses)
	clear(w.addresses)
	return w
}

// tries is how many addresses of a range are tried before the API server draws from all.
const tries = 16

// elsewhere replaces the addresses that are asked for by others, at random, of the same ranges that the plan makes. It
// reports false if it has done that often enough, or knows no such range.
func (w *want) elsewhere(p *Plan, draw func(n cidr.Uint128) cidr.Uint128) bool {
	if w.tried++; w.tried > tries {
		return false
	}
	addresses := slices.Clone(w.addresses)
	changed := false
	for i, a := range addresses {
		addr, _, err := cidr.ParseAddrLenient(a)
		if err != nil {
			continue
		}
		for _, s := range p.Steps {
			if s.Kind != CreateServiceCIDR {
				continue
			}
			for _, r := range parseAll(s.ServiceCIDR.CIDRs) {
				if !r.Contains(addr) {
					continue
				}
				other := cidr.FromUint128(r.Family(), cidr.ToUint128(r.Dynamic().First).Add(draw(r.DynamicSize())))
				addresses[i], changed = other.String(), true
			}
		}
	}
	w.addresses = addresses
	return changed
}

// leaves tells whether an address has to be left.
func (t *Target) leaves() func(string) bool {
	leave, stay := parseAll(t.Leave), parseAll(t.Stay)
	in := func(ranges []cidr.Range, a netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r cidr.Range) bool { return r.Contains(a) })
	}
	// Prefixes for Leave: nobody may be on its ends either. Usable for Stay.
	return func(s string) bool {
		a, _, err := cidr.ParseAddrLenient(s)
		if err != nil {
			return false
		}
		return slices.ContainsFunc(leave, func(r cidr.Range) bool { return r.Prefix().Contains(a) }) && !in(stay, a)
	}
}

// parseAll parses what a plan was made of.
func parseAll(cidrs []string) []cidr.Range {
	var all []cidr.Range
	for _, s := range cidrs {
		if r, _, err := cidr.ParseLenient(s); err == nil {
			all = append(all, r)
		}
	}
	return all
}

func familyOf(s string) corev1.IPFamily {
	a, _, err := cidr.ParseAddrLenient(s)
	if err != nil {
		return ""
	}
	return corev1.IPFamily(cidr.FamilyOf(a).String())
}
