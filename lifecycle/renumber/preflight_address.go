// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/metacidr/metacidr/cidr"
)

// checkServiceCIDRs: do they work, and is one on its way out?
func checkServiceCIDRs(w *World, p *Plan) []Finding {
	var all []Finding
	for _, s := range p.ServiceCIDRs {
		object, ranges := "ServiceCIDR "+s.Name, strings.Join(s.CIDRs, ",")
		switch {
		case s.Terminating:
			all = append(all, finding(CodeServiceCIDRTerminating, object, fmt.Sprintf("%s is being deleted; %d addresses are in it", ranges, s.Addresses)))
		case !s.Ready:
			all = append(all, finding(CodeServiceCIDRNotReady, object, ranges+" is not ready"+w.whyNotReady(s.Name)))
		}
	}
	return all
}

func (w *World) whyNotReady(name string) string {
	for i := range w.ServiceCIDRs {
		for _, c := range w.ServiceCIDRs[i].Status.Conditions {
			if w.ServiceCIDRs[i].Name == name && c.Type == networkingv1.ServiceCIDRConditionReady {
				return fmt.Sprintf(": %s %s", c.Reason, c.Message)
			}
		}
	}
	return ""
}

// checkAddresses: what else than Services holds the old range?
func checkAddresses(w *World, p *Plan) []Finding {
	leaves := p.leaves()
	object := "range " + rangeList(p.left())
	holders := w.holders()
	var others, orphaned, unmanaged []string
	for i := range w.IPAddresses {
		ip := &w.IPAddresses[i]
		if !leaves(ip.Name) {
			continue
		}
		service := ofService(ip)
		switch {
		case service == "":
			others = append(others, ip.Name+" of "+parentOf(ip))
		case !managedByCore(ip):
			unmanaged = append(unmanaged, ip.Name+" of "+parentOf(ip))
		case !slices.Contains(holders[ip.Name], service):
			orphaned = append(orphaned, ip.Name+" of "+parentOf(ip))
		}
	}
	var all []Finding
	for _, kind := range []struct {
		code Code
		list []string
	}{{CodeAddressesOfOthers, others}, {CodeAddressesOrphaned, orphaned}, {CodeAddressesUnmanaged, unmanaged}} {
		if n := len(kind.list); n > 0 {
			slices.Sort(kind.list)
			all = append(all, finding(kind.code, object, fmt.Sprintf("%s: %s", numberOf(n, "IPAddress", "IPAddresses"), some(kind.list))))
		}
	}
	return all
}

// holders are the Services, "namespace/name", that have an address.
func (w *World) holders() map[string][]string {
	all := make(map[string][]string, len(w.Services))
	for i := range w.Services {
		svc := &w.Services[i]
		for _, a := range svc.Spec.ClusterIPs {
			all[a] = append(all[a], key(svc))
		}
	}
	return all
}

// ofService is the "namespace/name" of the Service that an IPAddress belongs to; "" if
// it belongs to something else.
func ofService(ip *networkingv1.IPAddress) string {
	if r := ip.Spec.ParentRef; r != nil && r.Group == "" && r.Resource == "services" {
		return r.Namespace + "/" + r.Name
	}
	return ""
}

func parentOf(ip *networkingv1.IPAddress) string { return cmp.Or(ownerOf(ip), "nobody") }

// checkMissing: has every Service its IPAddresses?
func checkMissing(w *World, _ *Plan) []Finding {
	present := w.present()
	var missing []string
	for i := range w.Services {
		svc := &w.Services[i]
		for _, a := range parseAddresses(svc.Spec.ClusterIPs) {
			if set := present[cidr.FamilyOf(a)]; set != nil && !set.Has(a) {
				missing = append(missing, fmt.Sprintf("%s of Service %s/%s", a, svc.Namespace, svc.Name))
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return []Finding{finding(CodeAddressesMissing, "IPAddresses", fmt.Sprintf("there is none for %s: %s", numberOf(len(missing), "address", "addresses"), some(missing)))}
}

// numberOf is "1 address" or "3 addresses".
func numberOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
