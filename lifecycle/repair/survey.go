// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// listFactor is how many times CallTimeout a whole list may take.
const listFactor = 10

// pass is one Sync.
type pass struct {
	*Controller
	report    Report
	errs      PassError
	overloads int // calls in a row that the API server turned down

	claims  map[netip.Addr][]*Claims // by listed owners
	odd     []oddClaim
	unknown map[schema.GroupResource]bool // their list failed
	ranges  *cidr.Index[struct{}]         // nil: unknown

	candidates map[netip.Addr]bool
	unclaimed  map[types.UID]time.Time // becomes the controller's
}

// oddClaim is a claim whose text is not a canonical address.
type oddClaim struct {
	owner informer.Owner
	text  string
	kind  Kind
	why   string
}

// record is what a pass needs of one IPAddress, from a list or the View.
type record struct {
	name      string
	addr      netip.Addr
	canonical bool
	uid       types.UID
	owner     informer.Owner
	manager   string
	family    string // label; not known from the View
}

func newPass(c *Controller) *pass {
	return &pass{
		Controller: c,
		report:     Report{Counts: map[Kind]int{}, Outstanding: map[Kind]int{}, listed: map[Kind]int{}},
		claims:     map[netip.Addr][]*Claims{},
		unknown:    map[schema.GroupResource]bool{},
		candidates: map[netip.Addr]bool{},
		unclaimed:  map[types.UID]time.Time{},
	}
}

// run makes the pass. complete reports that it got to all objects.
func (p *pass) run(ctx context.Context) (complete bool, err error) {
	// Owners first: whoever is listed had its IPAddress before the addresses
	// are read, unless it lost it.
	p.surveyOwners(ctx)
	if len(p.unknown) == len(p.registered) || p.stop(ctx) {
		return false, p.result(ctx)
	}
	p.surveyRanges(ctx)
	if !p.surveyAddresses(ctx) {
		return false, p.result(ctx)
	}
	p.Controller.unclaimed = p.unclaimed
	for _, addr := range slices.SortedFunc(maps.Keys(p.candidates), netip.Addr.Compare) {
		if p.stop(ctx) {
			return false, p.result(ctx)
		}
		p.resolve(ctx, addr)
	}
	p.checkRanges(ctx)
	for _, o := range p.odd {
		p.reportClaim(ctx, Finding{Kind: o.kind, Name: o.text, Owner: o.owner, Detail: o.why}, reasonNotValid,
			func(c Claims) bool { return slices.Contains(c.Addresses, o.text) })
	}
	p.forgetAnnouncements()
	return !p.stop(ctx), p.result(ctx)
}

// call makes one API call, within its time.
func (p *pass) call(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(bounded)
	if err != nil && ctx.Err() == nil && overloaded(err) {
		p.overloads++
	} else {
		p.overloads = 0
	}
	return err
}

// stop reports that the pass must end here.
func (p *pass) stop(ctx context.Context) bool { return ctx.Err() != nil || p.overloads >= maxOverloads }

// fail notes an error, and counts it under what was being done.
func (p *pass) fail(what string, err error) {
	p.errs.add(err)
	p.metrics.failed(what)
}

func (p *pass) result(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("repair: the pass was ended: %w", context.Cause(ctx))
	case p.overloads >= maxOverloads:
		p.errs.Errors = append(p.errs.Errors, ErrOverloaded)
	}
	if len(p.errs.Errors) == 0 {
		return nil
	}
	return &p.errs
}

func (p *pass) surveyOwners(ctx context.Context) {
	for i := range p.config.Owners {
		r := &p.config.Owners[i]
		var list []Claims
		err := p.call(ctx, listFactor*p.config.CallTimeout, func(ctx context.Context) (err error) {
			list, err = r.Owners.List(ctx)
			return err
		})
		if err != nil {
			p.unknown[r.Owners.Resource()] = true
			p.fail("list", fmt.Errorf("listing %s: %w", r.Owners.Resource(), err))
			if p.stop(ctx) {
				return
			}
			continue
		}
		p.report.Owners += len(list)
		for j := range list {
			r.identify(&list[j])
			p.takeClaims(&list[j])
		}
	}
}

func (p *pass) takeClaims(c *Claims) {
	for _, text := range c.Addresses {
		addr, canonical, err := cidr.ParseAddrLenient(text)
		if err != nil {
			p.odd = append(p.odd, oddClaim{c.Owner, text, NotValid, err.Error()})
			continue
		}
		if !canonical {
			p.odd = append(p.odd, oddClaim{c.Owner, text, NonCanonical, fmt.Sprintf("taken as %s", addr)})
		}
		if !slices.Contains(p.claims[addr], c) { // an owner may say it twice
			p.claims[addr] = append(p.claims[addr], c)
		}
	}
}

// surveyRanges learns where addresses are usable. Without that, nothing is
// called out of range.
func (p *pass) surveyRanges(ctx context.Context) {
	if p.config.View != nil {
		p.ranges = new(cidr.Index[struct{}])
		for _, prefix := range p.config.View.Snapshot().Topology().Prefixes() {
			p.ranges.Insert(prefix.Range, struct{}{})
		}
		return
	}
	p.listRanges(ctx)
}

func (p *pass) listRanges(ctx context.Context) {
	index := new(cidr.Index[struct{}])
	err := p.call(ctx, listFactor*p.config.CallTimeout, func(ctx context.Context) error {
		return paged(ctx, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
			list, err := p.config.Client.ServiceCIDRs().List(ctx, opts)
			if err != nil {
				return "", err
			}
			for i := range list.Items {
				for _, r := range informer.NewServiceCIDR(&list.Items[i]).Ranges {
					index.Insert(r, struct{}{})
				}
			}
			return list.Continue, nil
		}, func() { index = new(cidr.Index[struct{}]) })
	})
	if err != nil {
		p.ranges = nil
		p.fail("list", fmt.Errorf("listing ServiceCIDRs: %w", err))
		return
	}
	p.ranges = index
}

func (p *pass) inRange(addr netip.Addr) bool {
	for range p.ranges.UsableIn(addr) {
		return true
	}
	return false
}

// checkRanges reports the claims that are usable in no ServiceCIDR.
func (p *pass) checkRanges(ctx context.Context) {
	var out []netip.Addr
	outside := func() []netip.Addr {
		if p.ranges == nil {
			return nil
		}
		return slices.SortedFunc(func(yield func(netip.Addr) bool) {
			for addr := range p.claims {
				if !p.inRange(addr) && !yield(addr) {
					return
				}
			}
		}, netip.Addr.Compare)
	}
	if out = outside(); len(out) > 0 && p.config.View != nil {
		p.listRanges(ctx) // the View may be stale
		out = outside()
	}
	for _, addr := range out {
		for _, c := range p.claims[addr] {
			p.reportClaim(ctx, Finding{Kind: OutOfRange, Name: addr.String(), Address: addr, Owner: c.Owner, Detail: "usable in no ServiceCIDR"},
				reasonOutOfRange, func(live Claims) bool { return claims(live, addr) })
		}
	}
}

// surveyAddresses looks at all IPAddresses, and notes the addresses that look
// wrong. It reports whether it saw all.
func (p *pass) surveyAddresses(ctx context.Context) bool {
	seen := map[netip.Addr]bool{}
	if view := p.config.View; view != nil {
		for row := range view.Snapshot().IPAddresses() {
			p.take(record{row.Name, row.Addr, row.Canonical, row.UID, row.Owner(), row.Manager(), cidr.FamilyOf(row.Addr).String()}, seen)
		}
	} else {
		before := p.report
		before.Counts, before.Outstanding, before.listed = maps.Clone(before.Counts), maps.Clone(before.Outstanding), maps.Clone(before.listed)
		err := p.call(ctx, listFactor*p.config.CallTimeout, func(ctx context.Context) error {
			return paged(ctx, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
				list, err := p.config.Client.IPAddresses().List(ctx, opts)
				if err != nil {
					return "", err
				}
				for i := range list.Items {
					p.take(recordOf(&list.Items[i]), seen)
				}
				return list.Continue, nil
			}, func() {
				p.report = before
				clear(seen)
				clear(p.candidates)
				clear(p.unclaimed)
			})
		})
		if err != nil {
			p.fail("list", fmt.Errorf("listing IPAddresses: %w", err))
			return false
		}
	}
	for addr, claimants := range p.claims {
		if !seen[addr] || len(claimants) > 1 {
			p.candidates[addr] = true
		}
	}
	return true
}

func recordOf(obj *networkingv1.IPAddress) record {
	r := record{
		name:    obj.Name,
		uid:     obj.UID,
		owner:   informer.OwnerOf(obj.Spec.ParentRef),
		manager: obj.Labels[informer.LabelManagedBy],
		family:  obj.Labels[informer.LabelIPFamily],
	}
	if addr, canonical, err := cidr.ParseAddrLenient(obj.Name); err == nil {
		r.addr, r.canonical = addr, canonical
	}
	return r
}

// take looks at one IPAddress. What looks wrong and could be acted on becomes a
// candidate; what can only be reported is.
func (p *pass) take(r record, seen map[netip.Addr]bool) {
	p.report.Addresses++
	finding := Finding{Outcome: Reported, Name: r.name, Address: r.addr, UID: r.uid, Owner: r.owner}
	if !r.canonical {
		finding.Kind, finding.Detail = NonCanonical, "its name is no address: delete it by hand"
		if r.addr.IsValid() {
			finding.Detail = fmt.Sprintf("it stands for %s, and keeps nobody from taking that: delete it by hand", r.addr)
		}
		p.report.add(finding)
		return
	}
	seen[r.addr] = true
	registration, claimants, managed := p.registration(r.owner), p.claims[r.addr], p.managed(r.manager)
	if slices.ContainsFunc(claimants, func(c *Claims) bool { return c.Owner == r.owner }) {
		switch {
		case !managed:
			finding.Kind = Unmanaged
			p.report.add(finding)
		case r.manager != registration.Manager || r.family != cidr.FamilyOf(r.addr).String():
			p.candidates[r.addr] = true
		}
		return
	}
	switch {
	case registration == nil && len(claimants) == 0:
		finding.Kind = Unregistered
		p.report.add(finding)
	case !managed && len(claimants) == 0:
		finding.Kind = Unmanaged
		p.report.add(finding)
	case registration != nil && managed:
		if p.unknown[registration.Owners.Resource()] {
			// Nothing new is known of it.
			if since, ok := p.Controller.unclaimed[r.uid]; ok {
				p.unclaimed[r.uid] = since
			}
			return
		}
		finding.Kind = Leaked
		if len(claimants) > 0 {
			finding.Kind, finding.Owner, finding.Other = WrongReference, claimants[0].Owner, r.owner
		}
		if finding.Wait = p.patience(finding.Kind, r.uid); finding.Wait > 0 && len(claimants) < 2 {
			finding.Outcome = Pending
			p.report.add(finding)
			return
		}
		p.candidates[r.addr] = true
	default:
		p.candidates[r.addr] = true
	}
}

// patience is how long an IPAddress whose owner does not claim it must still be
// left alone: until it has been seen so for a grace period, by this clock. Its
// creationTimestamp, which another clock wrote, has no say.
func (p *pass) patience(kind Kind, uid types.UID) time.Duration {
	now := p.config.Clock.Now()
	since, ok := p.unclaimed[uid]
	if !ok {
		if since, ok = p.Controller.unclaimed[uid]; !ok {
			since = now
		}
		p.unclaimed[uid] = since
	}
	grace := p.config.LeakGrace
	if kind == WrongReference {
		grace = p.config.MismatchGrace
	}
	return grace - now.Sub(since)
}
