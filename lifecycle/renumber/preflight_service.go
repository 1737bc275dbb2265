// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/metacidr/metacidr/cidr"
)

// Actions lists them, in the order in which people want to read of them.
func Actions() []Action {
	return []Action{ActionMove, ActionConvert, ActionHold, ActionRenew, ActionKeep, ActionSkip}
}

// Classes lists them.
func Classes() []Class {
	return []Class{ClassKubernetes, ClassDNS, ClassClusterIP, ClassNodePort, ClassLoadBalancer, ClassHeadless, ClassExternalName}
}

// countClasses counts rows by class and action.
func countClasses(_ *World, p *Plan) []Finding {
	counts := map[Class]map[Action]int{}
	for _, row := range p.Services {
		if counts[row.Class] == nil {
			counts[row.Class] = map[Action]int{}
		}
		counts[row.Class][row.Action]++
	}
	var parts []string
	for _, c := range Classes() {
		for _, a := range Actions() {
			if n := counts[c][a]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s %s", n, c, strings.ToLower(string(a))))
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []Finding{finding(CodeServicesByClass, "", strings.Join(parts, ", "))}
}

func checkLoadBalancers(_ *World, p *Plan) []Finding {
	var all []Finding
	var moved []string
	for i := range p.Services {
		switch row := &p.Services[i]; {
		case row.Action == ActionHold && row.Class != ClassKubernetes:
			all = append(all, finding(CodeLoadBalancersHeld, "Service "+row.Key(), "it is a LoadBalancer with "+strings.Join(row.From, ",")+", and its addresses or families should change"))
		case row.Class == ClassLoadBalancer && row.changes():
			moved = append(moved, row.Key())
		}
	}
	if len(moved) > 0 {
		all = append(all, finding(CodeLoadBalancersMove, "", fmt.Sprintf("%s: %s", numberOf(len(moved), "Service", "Services"), some(moved))))
	}
	return all
}

// checkParked: did an earlier run leave a Service on its way?
func checkParked(w *World, _ *Plan) []Finding {
	var all []Finding
	for i := range w.Services {
		if svc := &w.Services[i]; isParked(svc) {
			all = append(all, finding(CodeServiceParked, "Service "+key(svc), "it is an ExternalName for now, by plan "+strings.TrimSuffix(svc.Spec.ExternalName, parkedSuffix)))
		}
	}
	return byObject(all)
}

func checkKubernetes(_ *World, p *Plan) []Finding {
	for i := range p.Services {
		if row := &p.Services[i]; row.Class == ClassKubernetes && row.Action == ActionHold {
			return []Finding{finding(CodeKubernetesInRange, "Service "+row.Key(), "it has "+strings.Join(row.From, ",")+", and no step gives it another")}
		}
	}
	return nil
}

// checkHardCoded: who names an address that goes?
func checkHardCoded(w *World, p *Plan) []Finding {
	var all []Finding
	rows := p.rows()
	for i := range w.Services {
		svc := &w.Services[i]
		row := rows[key(svc)]
		if row == nil || row.Action != ActionMove {
			continue
		}
		if who := hardCoded(svc); who != "" {
			all = append(all, finding(CodeHardCodedAddress, "Service "+row.Key(), who+" names its address, "+strings.Join(row.From, ",")))
		}
	}
	return byObject(all)
}

func checkOwned(w *World, p *Plan) []Finding {
	var all []Finding
	rows := p.rows()
	for i := range w.Services {
		svc := &w.Services[i]
		row := rows[key(svc)]
		if row == nil || !row.changes() || len(svc.OwnerReferences) == 0 {
			continue
		}
		var owners []string
		for _, o := range svc.OwnerReferences {
			owners = append(owners, o.Kind+" "+o.Name)
		}
		all = append(all, finding(CodeServiceOwned, "Service "+row.Key(), "it belongs to "+strings.Join(owners, ", ")))
	}
	return byObject(all)
}

func checkInPlace(w *World, p *Plan) []Finding {
	var all []Finding
	if p.Request.Strategy != Recreate {
		return nil
	}
	about, rows := w.about(), p.rows()
	for i := range w.Services {
		svc := &w.Services[i]
		row := rows[key(svc)]
		if row != nil && row.Action == ActionMove && row.Strategy == InPlace {
			all = append(all, finding(CodeMovesInPlace, "Service "+row.Key(), "a deletion is not safe for "+about.losesIfRecreated(svc)))
		}
	}
	return byObject(all)
}

// checkExternalIPs: are addresses of the old or the new range used as externalIPs?
func checkExternalIPs(w *World, p *Plan) []Finding {
	var all []Finding
	leaves, fresh := p.leaves(), p.fresh()
	for i := range w.Services {
		svc := &w.Services[i]
		for _, a := range parseAddresses(svc.Spec.ExternalIPs) {
			object := "Service " + key(svc)
			if leaves(a.String()) {
				all = append(all, finding(CodeExternalIPsInRange, object, fmt.Sprintf("its external IP %s lies in the range to leave", a)))
			}
			for _, r := range fresh {
				if r.Prefix().Contains(a) {
					all = append(all, finding(CodeExternalIPsInRange, object, fmt.Sprintf("its external IP %s lies in the new range %s", a, r)))
				}
			}
		}
	}
	return byObject(all)
}

// checkSingleStack lists what has one family in a cluster of two.
func checkSingleStack(_ *World, p *Plan) []Finding {
	if p.Request.Playbook != AddFamily && p.Request.Playbook != SwapFamily {
		return nil
	}
	var single []string
	for _, row := range p.Services {
		if len(row.Families) == 1 && row.Class != ClassKubernetes {
			single = append(single, row.Key())
		}
	}
	if len(single) == 0 {
		return nil
	}
	return []Finding{finding(CodeSingleStackServices, "", fmt.Sprintf("%s: %s", numberOf(len(single), "Service", "Services"), some(single)))}
}

// checkNetworkPolicies: which of them mean addresses of the old range, and not also
// those of the new?
func checkNetworkPolicies(w *World, p *Plan) []Finding {
	left, targets, stay := p.left(), p.targets(), p.stay()
	var all []Finding
	for i := range w.NetworkPolicies {
		policy := &w.NetworkPolicies[i]
		var blocks []string
		for _, b := range ipBlocks(policy) {
			for _, text := range append([]string{b.CIDR}, b.Except...) {
				block, _, err := cidr.ParseLenient(text)
				if err == nil && slices.ContainsFunc(left, block.Overlaps) && !coversAll(block, left, targets) &&
					!slices.ContainsFunc(stay, func(r cidr.Range) bool { return r.Covers(block) }) {
					blocks = append(blocks, block.String())
				}
			}
		}
		if len(blocks) > 0 {
			slices.Sort(blocks)
			all = append(all, finding(CodeNetworkPolicyInRange, "NetworkPolicy "+policy.Namespace+"/"+policy.Name, "it names "+strings.Join(slices.Compact(blocks), ", ")))
		}
	}
	return byObject(all)
}

// coversAll: the block means the same before and after, as 0.0.0.0/0 does.
func coversAll(block cidr.Range, left []cidr.Range, targets map[cidr.Family][]cidr.Range) bool {
	for _, r := range append(slices.Clone(left), targets[block.Family()]...) {
		if r.Family() == block.Family() && !block.Covers(r) {
			return false
		}
	}
	return len(targets[block.Family()]) > 0
}

func ipBlocks(policy *networkingv1.NetworkPolicy) []networkingv1.IPBlock {
	var all []networkingv1.IPBlock
	add := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if peer.IPBlock != nil {
				all = append(all, *peer.IPBlock)
			}
		}
	}
	for _, r := range policy.Spec.Ingress {
		add(r.From)
	}
	for _, r := range policy.Spec.Egress {
		add(r.To)
	}
	return all
}

func checkEndpointSlices(w *World, p *Plan) []Finding {
	leaves := p.leaves()
	var all []Finding
	for i := range w.EndpointSlices {
		slice := &w.EndpointSlices[i]
		var named []string
		for _, e := range slice.Endpoints {
			for _, a := range e.Addresses {
				if leaves(a) {
					named = append(named, a)
				}
			}
		}
		if len(named) > 0 {
			all = append(all, finding(CodeEndpointsInRange, "EndpointSlice "+slice.Namespace+"/"+slice.Name, "it names "+some(named)))
		}
	}
	return byObject(all)
}

func checkWebhooks(w *World, p *Plan) []Finding {
	leaves := p.leaves()
	var all []Finding
	for _, h := range w.Webhooks {
		u, err := url.Parse(h.URL)
		if err == nil && leaves(u.Hostname()) {
			all = append(all, finding(CodeWebhookInRange, h.Object, fmt.Sprintf("its webhook %s is called at %s", h.Name, h.URL)))
		}
	}
	return byObject(all)
}

// byObject puts findings into an order that does not depend on the API server's.
func byObject(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int { return strings.Compare(a.Object, b.Object) })
	return all
}

// parseAddresses leaves out what is none, as "None".
func parseAddresses(all []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range all {
		if a, _, err := cidr.ParseAddrLenient(s); err == nil {
			out = append(out, a)
		}
	}
	return out
}
