// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/metacidr/metacidr/cidr"
)

// needs counts the new addresses of a family that the rows call for.
func (p *Plan) needs(f cidr.Family) (n uint64) {
	for i := range p.Services {
		row := &p.Services[i]
		if !row.changes() || row.Class == ClassHeadless {
			continue
		}
		for j, family := range row.Families {
			if numbered(family) == f && (j >= len(row.To) || !slices.Contains(row.From, row.To[j])) {
				n++
			}
		}
	}
	return n
}

// checkCapacity: is there room for all, in which band, and how much is left?
func checkCapacity(w *World, p *Plan) []Finding {
	var all []Finding
	c := &chooser{plan: p, targets: p.targets(), taken: w.taken(), crowded: map[cidr.Family]bool{}}
	c.reserve()
	for _, f := range []cidr.Family{cidr.IPv4, cidr.IPv6} {
		need := cidr.U128(p.needs(f))
		if need.IsZero() {
			continue
		}
		var size, free, dynamic cidr.Uint128
		for _, r := range c.targets[f] {
			size = size.AddSat(r.Size())
			free = free.AddSat(freeIn(c.taken[f], r.Usable()))
			dynamic = dynamic.AddSat(freeIn(c.taken[f], r.Dynamic()))
		}
		object := "range " + rangeList(c.targets[f])
		if len(c.targets[f]) == 0 {
			object = f.String() + " ranges"
		}
		switch left := free.SubSat(need); {
		case free.Less(need):
			all = append(all, finding(CodeTargetTooSmall, object, fmt.Sprintf("%s Services need an %s address there, and %s of %s are free", need, f, free, size)))
			continue
		case left.Float64() < size.Float64()*0.2:
			all = append(all, finding(CodeTargetTight, object, fmt.Sprintf("%s of %s addresses will be free when %s Services have moved there", left, size, need)))
		}
		if dynamic.Less(need) {
			all = append(all, finding(CodeDynamicBandTooSmall, object,
				fmt.Sprintf("%s Services need an address there, and %s are free in the dynamic band: %s will be of the static band", need, dynamic, need.Sub(dynamic))))
		}
	}
	return all
}

// checkFirst: can the API server have the first address?
func checkFirst(w *World, p *Plan) []Finding {
	var all []Finding
	for _, s := range p.Steps {
		if s.Kind != RenewKubernetes {
			continue
		}
		r := parseAll(s.Ranges[:1])[0]
		first := r.First()
		if owner := w.holder(first); owner != "" {
			all = append(all, finding(CodeFirstAddressTaken, owner, fmt.Sprintf("it has %s, which Service default/kubernetes gets in step %d", first, s.ID)))
		}
		if r.Band(first) == cidr.BandDynamic {
			all = append(all, finding(CodeFirstAddressAtRisk, "range "+r.String(), fmt.Sprintf("it has no static band, and Service default/kubernetes gets %s only in step %d", first, s.ID)))
		}
	}
	return all
}

// holder names who has an address, other than Service default/kubernetes.
func (w *World) holder(a netip.Addr) string {
	for i := range w.Services {
		svc := &w.Services[i]
		if slices.Contains(svc.Spec.ClusterIPs, a.String()) {
			if isKubernetes(svc) {
				return ""
			}
			return "Service " + svc.Namespace + "/" + svc.Name
		}
	}
	for i := range w.IPAddresses {
		if got, ok := addrOf(&w.IPAddresses[i]); ok && got == a {
			return "IPAddress " + w.IPAddresses[i].Name
		}
	}
	return ""
}

// checkOverlaps: does anything else have the new range?
func checkOverlaps(w *World, p *Plan) []Finding {
	var all []Finding
	for _, r := range p.fresh() {
		pods, addresses := w.overlapping(r)
		object := "range " + r.String()
		if len(pods) > 0 {
			all = append(all, finding(CodeOverlapsPods, object, "it overlaps the pod range "+some(pods)))
		}
		if len(addresses) > 0 {
			all = append(all, finding(CodeOverlapsNodes, object, "it contains the address "+some(addresses)))
		}
		for _, s := range p.ServiceCIDRs {
			if s.Name == p.from().Name {
				continue
			}
			for _, o := range parseAll(s.CIDRs) {
				if o.Overlaps(r) {
					all = append(all, finding(CodeOverlapsServiceCIDR, "ServiceCIDR "+s.Name, fmt.Sprintf("its range %s overlaps %s", o, r)))
				}
			}
		}
	}
	return all
}

// overlapping lists nodes' pod ranges and addresses in a range.
func (w *World) overlapping(r cidr.Range) (pods, addresses []string) {
	for i := range w.Nodes {
		node := &w.Nodes[i]
		podCIDRs := node.Spec.PodCIDRs
		if len(podCIDRs) == 0 && node.Spec.PodCIDR != "" {
			podCIDRs = []string{node.Spec.PodCIDR}
		}
		for _, o := range parseAll(podCIDRs) {
			if o.Overlaps(r) {
				pods = append(pods, fmt.Sprintf("%s of node %s", o, node.Name))
			}
		}
		for _, a := range node.Status.Addresses {
			if a.Type != corev1.NodeInternalIP && a.Type != corev1.NodeExternalIP {
				continue
			}
			if addr, _, err := cidr.ParseAddrLenient(a.Address); err == nil && r.Prefix().Contains(addr) {
				addresses = append(addresses, fmt.Sprintf("%s of node %s", addr, node.Name))
			}
		}
	}
	return pods, addresses
}

// checkSpecial: do addresses of the new range work at all?
func checkSpecial(_ *World, p *Plan) []Finding {
	var all []Finding
	for _, r := range p.fresh() {
		object := "range " + r.String()
		bad := false
		for _, s := range special() {
			if r.Prefix().Overlaps(s.prefix) {
				bad = true
				all = append(all, finding(CodeOverlapsSpecial, object, fmt.Sprintf("it overlaps %s, %s", s.prefix, s.what)))
			}
		}
		if !bad && !slices.ContainsFunc(private(), func(p netip.Prefix) bool { return p.Bits() <= r.Prefix().Bits() && p.Overlaps(r.Prefix()) }) {
			all = append(all, finding(CodePublicRange, object, "it is no private range"))
		}
	}
	return all
}

// What kube-apiserver takes (v1.37.2, and before v1.34 for the last).
const (
	fewestFlagBits = 3  // --service-cluster-ip-range has 8 addresses or more
	shortestIPv6   = 64 // no allocator for anything shorter
	mostFlagBits   = 20 // a range is kept in one object
)

// checkRefused: does the API server start with it, and allocate from it?
func checkRefused(w *World, p *Plan) []Finding {
	var all []Finding
	flags := map[cidr.Range]bool{}
	for _, s := range p.Steps {
		if s.Kind == HandOver {
			for _, r := range parseAll(s.Ranges) {
				flags[r] = true
			}
		}
	}
	v, err := version.ParseGeneric(w.Cluster.Version)
	oneObject := err == nil && v.LessThan(version.MustParseGeneric("1.34"))
	for _, r := range p.fresh() {
		host := r.Family().Bits() - r.Prefix().Bits()
		why := ""
		switch {
		case r.Family() == cidr.IPv6 && r.Prefix().Bits() < shortestIPv6:
			why = fmt.Sprintf("it is shorter than /%d", shortestIPv6)
		case flags[r] && host < fewestFlagBits:
			why = fmt.Sprintf("the API server's range has %d addresses or more", 1<<fewestFlagBits)
		case flags[r] && oneObject && host > mostFlagBits:
			why = fmt.Sprintf("before v1.34 the API server's range is /%d or longer", r.Family().Bits()-mostFlagBits)
		default:
			continue
		}
		all = append(all, finding(CodeRangeRefused, "range "+r.String(), why))
	}
	return all
}

// checkOtherRanges: might the API server draw from elsewhere?
func checkOtherRanges(_ *World, p *Plan) []Finding {
	if p.Request.Mapping != MapServer || p.Request.Playbook == Drain {
		return nil
	}
	targets := p.targets()
	var others []string
	for _, s := range p.ServiceCIDRs {
		if !s.Ready || s.Name == p.from().Name {
			continue
		}
		for _, r := range parseAll(s.CIDRs) {
			if p.needs(r.Family()) > 0 && !slices.Contains(targets[r.Family()], r) {
				others = append(others, fmt.Sprintf("%s of ServiceCIDR %s", r, s.Name))
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []Finding{finding(CodeOtherRangesDrawn, "range "+strings.Join(p.Request.To, ","), "Services may also be given addresses of "+some(others))}
}
