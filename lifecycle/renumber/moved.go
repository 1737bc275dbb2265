// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/metacidr/metacidr/cidr"
)

// Moved compares the world, read anew, with that which a plan was made from, before
// the first step is done. It returns what moved in a way that matters; no finding
// means that the plan still fits. Blockers that the plan has accepted are marked so.
//
//	cluster       another                                                  OtherCluster
//	ServiceCIDR   gone, terminating | other ranges, UID | new, overlapping Gone | Changed | New
//	Service       gone | other addresses, class, UID | new, in Leave       Gone | Changed | Unknown
//	preflight     a blocker that was not there                             that one
func (w *World) Moved(p *Plan) []Finding {
	if w.Cluster.UID != p.Cluster.UID {
		// Nothing else can be compared.
		return []Finding{finding(CodeOtherCluster, "", fmt.Sprintf("the plan is of the cluster %s, and this is %s", p.Cluster.UID, w.Cluster.UID))}
	}
	all := slices.Concat(w.movedServiceCIDRs(p), w.movedServices(p), w.newBlockers(p))
	sortFindings(all)
	accepted := Plan{Request: p.Request, Findings: all}
	accepted.accept()
	return accepted.Findings
}

func (w *World) movedServiceCIDRs(p *Plan) []Finding {
	now, err := w.serviceCIDRs()
	if err != nil {
		return []Finding{finding(CodeServiceCIDRChanged, "", err.Error())}
	}
	live := make(map[string]ServiceCIDR, len(now))
	for _, s := range now {
		live[s.Name] = s
	}
	var all []Finding
	known := make(map[string]bool, len(p.ServiceCIDRs))
	for _, s := range p.ServiceCIDRs {
		known[s.Name] = true
		if !p.concerns(s) {
			continue
		}
		object := "ServiceCIDR " + s.Name
		l, there := live[s.Name]
		switch {
		case !there:
			all = append(all, finding(CodeServiceCIDRGone, object, strings.Join(s.CIDRs, ",")+" is gone"))
		case l.UID != s.UID:
			all = append(all, finding(CodeServiceCIDRChanged, object, "it is another object of the same name, with "+strings.Join(l.CIDRs, ",")))
		case !slices.Equal(l.CIDRs, s.CIDRs):
			all = append(all, finding(CodeServiceCIDRChanged, object, fmt.Sprintf("it has %s, and had %s", strings.Join(l.CIDRs, ","), strings.Join(s.CIDRs, ","))))
		case l.Terminating && !s.Terminating:
			all = append(all, finding(CodeServiceCIDRGone, object, strings.Join(s.CIDRs, ",")+" is being deleted"))
		}
	}
	for _, s := range now {
		if known[s.Name] {
			continue
		}
		object := "ServiceCIDR " + s.Name
		switch {
		case slices.ContainsFunc(p.Steps, func(step Step) bool { return step.Kind == CreateServiceCIDR && step.ServiceCIDR.Name == s.Name }):
			all = append(all, finding(CodeServiceCIDRChanged, object, "the plan would create it, and it is there, with "+strings.Join(s.CIDRs, ",")))
		case p.concerns(s):
			all = append(all, finding(CodeServiceCIDRNew, object, strings.Join(s.CIDRs, ",")+" is new, and overlaps a range of the plan"))
		}
	}
	return all
}

// concerns tells whether the plan depends on a ServiceCIDR.
func (p *Plan) concerns(s ServiceCIDR) bool {
	if s.Name == DefaultServiceCIDR || s.Name == cmp.Or(p.Request.From, DefaultServiceCIDR) {
		return true
	}
	ranges := append(p.left(), p.fresh()...)
	for _, targets := range p.targets() {
		ranges = append(ranges, targets...)
	}
	return slices.ContainsFunc(parseAll(s.CIDRs), func(r cidr.Range) bool { return slices.ContainsFunc(ranges, r.Overlaps) })
}

func (w *World) movedServices(p *Plan) []Finding {
	leaves, about, rows := p.leaves(), w.about(), p.rows()
	var all []Finding
	seen := make(map[string]bool, len(w.Services))
	for i := range w.Services {
		svc := &w.Services[i]
		seen[key(svc)] = true
		row, object := rows[key(svc)], "Service "+key(svc)
		class := about.class(svc)
		left := slices.IndexFunc(svc.Spec.ClusterIPs, leaves)
		switch {
		case row == nil && left >= 0 && class == ClassLoadBalancer && !p.Request.LoadBalancers:
			all = append(all, finding(CodeLoadBalancersHeld, object, "it is new, and has "+svc.Spec.ClusterIPs[left]))
		case row == nil && left >= 0:
			all = append(all, finding(CodeServiceUnknown, object, "it is new, and has "+svc.Spec.ClusterIPs[left]))
		case row == nil || row.Action == ActionRenew:
		case row.changes() && svc.UID != row.UID:
			all = append(all, finding(CodeServiceChanged, object, "it is another object of the same name"))
		case row.changes() && class != row.Class:
			all = append(all, finding(CodeServiceChanged, object, fmt.Sprintf("it is of class %s, and was of %s", class, row.Class)))
		case row.changes() && !slices.Equal(svc.Spec.ClusterIPs, row.From):
			all = append(all, finding(CodeServiceChanged, object, fmt.Sprintf("it has %s, and had %s", strings.Join(svc.Spec.ClusterIPs, ","), strings.Join(row.From, ","))))
		case !row.changes() && row.Action != ActionHold && left >= 0:
			all = append(all, finding(CodeServiceChanged, object, fmt.Sprintf("it has %s, in a range to leave, and was to stay as it is", svc.Spec.ClusterIPs[left])))
		}
	}
	for i := range p.Services {
		if row := &p.Services[i]; row.changes() && !seen[row.Key()] {
			all = append(all, finding(CodeServiceGone, "Service "+row.Key(), "it had "+strings.Join(row.From, ",")))
		}
	}
	return byObject(all)
}

// newBlockers are those of preflight that the plan does not list.
func (w *World) newBlockers(p *Plan) []Finding {
	type identity struct {
		code   Code
		object string
	}
	known := make(map[identity]bool, len(p.Findings))
	for _, f := range p.Findings {
		known[identity{f.Code, f.Object}] = true
	}
	// What ServiceCIDRs are there now is what matters.
	now := *p
	if cidrs, err := w.serviceCIDRs(); err == nil {
		now.ServiceCIDRs = cidrs
	}
	return slices.DeleteFunc(preflight(w, &now), func(f Finding) bool {
		return f.Severity != Blocker || known[identity{f.Code, f.Object}]
	})
}
