// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// MakeOptions are what a plan depends on beside the cluster and the request.
type MakeOptions struct {
	// Name must be a DNS label. "" means one made from the playbook and the time.
	Name string
	// Clock gives CreatedAt. Nil means the real one.
	Clock clock.PassiveClock
	// Rand draws names and addresses. Nil means a source seeded by the system.
	Rand rand.Source
}

// Make makes a plan. It reads nothing but w, and asks nobody. Errors:
// ErrInvalidRequest; what speaks against a plan that could be made is among its
// findings.
func Make(w *World, req Request, o MakeOptions) (*Plan, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rand == nil {
		o.Rand = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	now := o.Clock.Now().UTC()
	if o.Name == "" {
		o.Name = fmt.Sprintf("%s-%s-%s", req.Playbook, now.Format("20060102-150405"), randomLetters(o.Rand, 5))
	}
	p := &Plan{
		TypeMeta:  metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind},
		Name:      o.Name,
		CreatedAt: metav1.NewTime(now.Truncate(1e9)),
		Cluster:   w.Cluster,
		Request:   req,
	}
	if err := p.Request.complete(); err != nil {
		return nil, err
	}
	var err error
	if p.ServiceCIDRs, err = w.serviceCIDRs(); err != nil {
		return nil, err
	}
	if p.Steps, err = makeSteps(p.Name, p.Request, p.ServiceCIDRs, w.kubernetes()); err != nil {
		return nil, err
	}
	if errs := validation.IsDNS1123Label(p.Name); len(errs) > 0 {
		return nil, refuse("%q is no name for a plan: %s", p.Name, strings.Join(errs, "; "))
	}
	if err := p.validateNewServiceCIDRs(); err != nil {
		return nil, err
	}
	found, err := p.makeRows(w, o.Rand)
	if err != nil {
		return nil, err
	}
	p.Findings = append(found, preflight(w, p)...)
	sortFindings(p.Findings)
	p.accept()
	return p, nil
}

// complete sets defaults and refuses what has no meaning.
func (r *Request) complete() error {
	r.Strategy = cmp.Or(r.Strategy, InPlace)
	r.Mapping = cmp.Or(r.Mapping, MapServer)
	switch {
	case r.Strategy != InPlace && r.Strategy != Recreate:
		return refuse("there is no strategy %q: give %s or %s", r.Strategy, InPlace, Recreate)
	case !slices.Contains(Mappings(), r.Mapping):
		return refuse("there is no mapping %q: give one of %s", r.Mapping, quoted(Mappings()))
	case r.Mapping == MapFile && len(r.Addresses) == 0:
		return refuse("the mapping %s needs addresses: a file with a line \"namespace/name: [address]\" for each Service", MapFile)
	case r.Mapping != MapFile && len(r.Addresses) > 0:
		return refuse("addresses are given, and the mapping is %s: they are for the mapping %s", r.Mapping, MapFile)
	case r.Mapping == MapOffset && r.Playbook == Drain:
		return refuse("drain has no new range in which a distance could be kept: give the mapping %s, %s or %s", MapServer, MapRandom, MapFile)
	}
	for _, c := range r.Accepted {
		info, known := infoOf(c)
		switch {
		case !known:
			return refuse("there is no finding %q: a plan lists its findings, and docs/findings.md all there are", c)
		case info.Override == "":
			return refuse("%s cannot be accepted: %s", c, info.Remedy)
		case info.Override != acceptFlag+string(c):
			return refuse("%s is not for --accept: give %s", c, info.Override)
		}
	}
	return nil
}

// Mappings lists them.
func Mappings() []Mapping { return []Mapping{MapServer, MapRandom, MapOffset, MapFile} }

// validateNewServiceCIDRs refuses names that cannot be had.
func (p *Plan) validateNewServiceCIDRs() error {
	for _, s := range p.Steps {
		if s.Kind != CreateServiceCIDR {
			continue
		}
		if errs := validation.IsDNS1123Subdomain(s.ServiceCIDR.Name); len(errs) > 0 {
			return refuse("%q is no name for a ServiceCIDR: %s", s.ServiceCIDR.Name, strings.Join(errs, "; "))
		}
		for _, c := range p.ServiceCIDRs {
			if c.Name == s.ServiceCIDR.Name {
				return refuse("there is a ServiceCIDR %s already, with %s: give the new one another name with --service-cidr", c.Name, strings.Join(c.CIDRs, ","))
			}
		}
	}
	return nil
}

// serviceCIDRs is what a plan keeps of them.
func (w *World) serviceCIDRs() ([]ServiceCIDR, error) {
	all := make([]ServiceCIDR, 0, len(w.ServiceCIDRs))
	present := w.present()
	for i := range w.ServiceCIDRs {
		obj := &w.ServiceCIDRs[i]
		row := informer.NewServiceCIDR(obj)
		s := ServiceCIDR{Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion, Ready: row.Ready(),
			Terminating: row.Terminating, Labels: obj.Labels, Annotations: obj.Annotations}
		for _, text := range obj.Spec.CIDRs {
			r, _, err := cidr.ParseLenient(text)
			if err != nil {
				return nil, refuse("ServiceCIDR %s: %v: delete it, it gives no addresses", obj.Name, err)
			}
			s.CIDRs = append(s.CIDRs, r.String())
			if set := present[r.Family()]; set != nil {
				s.Addresses += int(set.Count(r.Usable()))
			}
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b ServiceCIDR) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// kubernetes returns the addresses of Service default/kubernetes.
func (w *World) kubernetes() []string {
	for i := range w.Services {
		if isKubernetes(&w.Services[i]) {
			return w.Services[i].Spec.ClusterIPs
		}
	}
	return nil
}

// present are the addresses that have an IPAddress.
func (w *World) present() map[cidr.Family]*cidr.AddrSet {
	sets := map[cidr.Family]*cidr.AddrSet{cidr.IPv4: cidr.NewAddrSet(cidr.IPv4), cidr.IPv6: cidr.NewAddrSet(cidr.IPv6)}
	for i := range w.IPAddresses {
		if a, ok := addrOf(&w.IPAddresses[i]); ok {
			sets[cidr.FamilyOf(a)].Add(a)
		}
	}
	return sets
}

// taken are those, and what Services have without one.
func (w *World) taken() map[cidr.Family]*cidr.AddrSet {
	sets := w.present()
	for i := range w.Services {
		for _, s := range w.Services[i].Spec.ClusterIPs {
			if a, _, err := cidr.ParseAddrLenient(s); err == nil {
				sets[cidr.FamilyOf(a)].Add(a)
			}
		}
	}
	return sets
}

// from is the ServiceCIDR that the plan empties.
func (p *Plan) from() ServiceCIDR {
	name := cmp.Or(p.Request.From, DefaultServiceCIDR)
	for _, s := range p.ServiceCIDRs {
		if s.Name == name {
			return s
		}
	}
	return ServiceCIDR{}
}

// leaves tells whether an address has to be left in any step.
func (p *Plan) leaves() func(string) bool {
	var whole Target
	for _, s := range p.Steps {
		if t := s.Target; t != nil {
			whole.Leave = append(append(whole.Leave, t.Leave...), familyRanges(p.from().CIDRs, t.Drop)...)
			whole.Stay = append(whole.Stay, t.Stay...)
		}
	}
	return whole.leaves()
}

// left are the ranges that the plan empties, in order.
func (p *Plan) left() []cidr.Range {
	var all []string
	for _, s := range p.Steps {
		if s.Target != nil {
			all = append(all, s.Target.Leave...)
			all = append(all, familyRanges(p.from().CIDRs, s.Target.Drop)...)
		}
	}
	ranges := parseAll(all)
	slices.SortFunc(ranges, cidr.Range.Compare)
	return slices.Compact(ranges)
}

// stay are the parts of them that are not emptied.
func (p *Plan) stay() []cidr.Range {
	var all []string
	for _, s := range p.Steps {
		if s.Target != nil {
			all = append(all, s.Target.Stay...)
		}
	}
	return parseAll(all)
}

// fresh are the ranges that the operator brings in.
func (p *Plan) fresh() []cidr.Range { return parseAll(p.Request.To) }

// targets are the ranges of each family in which Services get new addresses.
func (p *Plan) targets() map[cidr.Family][]cidr.Range {
	all := make(map[cidr.Family][]cidr.Range, 2)
	add := func(ranges []cidr.Range) {
		for _, r := range ranges {
			all[r.Family()] = append(all[r.Family()], r)
		}
	}
	switch p.Request.Playbook {
	case Replace, Shrink, AddFamily, MigrateFamily:
		add(p.fresh())
	case DropFamily:
		add(parseAll(familyRanges(p.from().CIDRs, other(p.Request.Family))))
	case Drain:
		var ready []cidr.Range
		for _, s := range p.ServiceCIDRs {
			if s.Ready && s.Name != p.from().Name {
				ready = append(ready, parseAll(s.CIDRs)...)
			}
		}
		add(cidr.Maximal(ready))
	}
	return all
}

// familyRanges are those of one family.
func familyRanges(cidrs []string, f corev1.IPFamily) []string {
	var all []string
	for _, r := range parseAll(cidrs) {
		if r.Family().String() == string(f) {
			all = append(all, r.String())
		}
	}
	return all
}

// randomLetters has no vowels, so that it makes no words.
func randomLetters(src rand.Source, n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	b := make([]byte, n)
	for i := range b {
		k, _ := cidr.RandBelow(src, cidr.U128(uint(len(letters)))).Uint64()
		b[i] = letters[k]
	}
	return string(b)
}

// accept marks what the operator takes on.
func (p *Plan) accept() {
	for i, f := range p.Findings {
		p.Findings[i].Accepted = f.Override == acceptFlag+string(f.Code) && slices.Contains(p.Request.Accepted, f.Code)
	}
}

// managedByCore tells whether core's allocator made the IPAddress, so that its
// controllers repair it and let it hold a ServiceCIDR.
func managedByCore(ip *networkingv1.IPAddress) bool {
	return ip.Labels[informer.LabelManagedBy] == informer.CoreManager
}
