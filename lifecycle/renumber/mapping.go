// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/metacidr/metacidr/cidr"
)

// chooser gives the new addresses that a plan chooses itself. Whatever it gives is
// usable in a target range, held by nobody when the cluster was read, and given
// once.
type chooser struct {
	plan    *Plan
	src     rand.Source
	targets map[cidr.Family][]cidr.Range
	// taken is what nobody may be given: what others have, and what was given.
	taken map[cidr.Family]*cidr.AddrSet
	// leaves tells what is in a range to leave: never to be given.
	leaves func(string) bool
	// crowded are the families in which the API server might draw what it needs itself.
	crowded map[cidr.Family]bool
	found   []Finding
}

// choose fills in Row.To. Where it says "", the API server draws.
//
//	file     what the file says
//	offset   the same distance from the start of the range   "" if that cannot be had
//	random   drawn: dynamic bands first, then static ones
//	server   "", but for the DNS, which keeps its distance if it is in the static band:
//	         kubelets must be told its address before it moves; and drawn as random if
//	         the API server could draw the address that Service kubernetes is to have
func (p *Plan) choose(w *World, src rand.Source) ([]Finding, error) {
	c := &chooser{plan: p, src: src, targets: p.targets(), taken: w.taken(), leaves: p.leaves(), crowded: map[cidr.Family]bool{}}
	c.reserve()
	if p.Request.Mapping == MapFile {
		if err := c.file(); err != nil {
			return nil, err
		}
	}
	for i := range p.Services {
		row := &p.Services[i]
		switch {
		case !row.changes():
		case row.Class == ClassDNS && (p.Request.Mapping == MapServer || p.Request.Mapping == MapRandom):
			c.dns(row)
		case p.Request.Mapping == MapOffset:
			c.offset(row)
		}
	}
	for i := range p.Services {
		row := &p.Services[i]
		if !row.changes() || row.Class == ClassHeadless {
			continue
		}
		c.random(row)
		if !slices.ContainsFunc(row.To, func(a string) bool { return a != "" }) {
			row.To = nil
		}
	}
	return c.found, nil
}

// changes tells whether the runner changes the Service.
func (r *Row) changes() bool { return r.Action == ActionMove || r.Action == ActionConvert }

// reserve keeps what the API server wants for itself.
func (c *chooser) reserve() {
	for _, s := range c.plan.Steps {
		if len(s.Ranges) > 0 {
			first := cidr.MustParse(s.Ranges[0]).First()
			f := cidr.FamilyOf(first)
			c.taken[f].Add(first)
			if s.Kind == RenewKubernetes && slices.ContainsFunc(c.targets[f], func(r cidr.Range) bool { return r.Band(first) == cidr.BandDynamic }) {
				c.crowded[f] = true
			}
		}
	}
}

// refusal tells why an address cannot be given; "" if it can.
func (c *chooser) refusal(a netip.Addr) string {
	f := cidr.FamilyOf(a)
	switch {
	case !slices.ContainsFunc(c.targets[f], func(r cidr.Range) bool { return r.Contains(a) }):
		return fmt.Sprintf("is not usable in %s", rangeList(c.targets[f]))
	case c.leaves(a.String()):
		return "is in a range to leave"
	case c.taken[f].Has(a):
		return "is taken"
	}
	return ""
}

func (c *chooser) give(row *Row, i int, a netip.Addr) {
	c.taken[cidr.FamilyOf(a)].Add(a)
	row.To[i] = a.String()
}

// file takes the addresses of the request. Every one must fit.
func (c *chooser) file() error {
	rows := c.plan.rows()
	keys := make([]string, 0, len(c.plan.Request.Addresses))
	for key := range c.plan.Request.Addresses {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		row := rows[key]
		switch {
		case row == nil:
			return refuse("addresses of %s: there is no such Service: the key is namespace/name", key)
		case !row.changes() || row.Class == ClassHeadless:
			return refuse("addresses of %s: it gets no other address, since %s: leave it out", key, row.Reason)
		}
		for _, text := range c.plan.Request.Addresses[key] {
			a, err := cidr.ParseAddr(text)
			if err != nil {
				return refuse("addresses of %s: %v", key, err)
			}
			i := slices.Index(row.Families, corev1.IPFamily(cidr.FamilyOf(a).String()))
			switch {
			case i < 0:
				return refuse("addresses of %s: %s is %s, and its families will be %s", key, a, cidr.FamilyOf(a), quoted(row.Families))
			case row.To[i] == a.String():
				return refuse("addresses of %s: %s is there twice, or is what it has and keeps: leave it out", key, a)
			case row.To[i] != "":
				return refuse("addresses of %s: its %s address is %s already: leave %s out", key, cidr.FamilyOf(a), row.To[i], a)
			}
			if why := c.refusal(a); why != "" {
				return refuse("addresses of %s: %s %s: give another", key, a, why)
			}
			c.give(row, i, a)
		}
	}
	return nil
}

// distance is the address of the target range of the i-th family that is as far from
// its start as the present one from the start of its own.
func (c *chooser) distance(row *Row, i int) (_ netip.Addr, why string) {
	f := row.Families[i]
	ranges := c.targets[numbered(f)]
	if len(ranges) != 1 {
		return netip.Addr{}, "there is no one range to keep a distance in"
	}
	// The present address of that family, or else the first.
	old := row.From[0]
	for _, a := range row.From {
		if familyOf(a) == f {
			old = a
		}
	}
	from, _, err := cidr.ParseAddrLenient(old)
	if err != nil {
		return netip.Addr{}, err.Error()
	}
	for _, base := range parseAll(c.plan.from().CIDRs) {
		if !base.Prefix().Contains(from) {
			continue
		}
		to := ranges[0]
		k := cidr.ToUint128(from).Sub(cidr.ToUint128(base.Prefix().Addr()))
		if host := uint(to.Family().Bits() - to.Prefix().Bits()); k.BitLen() > int(host) {
			return netip.Addr{}, fmt.Sprintf("it is %s from the start of %s, and %s is smaller", k, base, to)
		}
		a := cidr.FromUint128(to.Family(), cidr.ToUint128(to.Prefix().Addr()).Add(k))
		if why := c.refusal(a); why != "" {
			return netip.Addr{}, fmt.Sprintf("%s %s", a, why)
		}
		return a, ""
	}
	return netip.Addr{}, fmt.Sprintf("%s is in no range of ServiceCIDR %s", from, c.plan.from().Name)
}

func (c *chooser) offset(row *Row) {
	if row.Class == ClassHeadless {
		return
	}
	for i := range row.To {
		if row.To[i] != "" {
			continue
		}
		a, why := c.distance(row, i)
		if why == "" {
			c.give(row, i, a)
			continue
		}
		c.found = append(c.found, finding(CodeOffsetNotKept, "Service "+row.Key(),
			fmt.Sprintf("its %s address cannot keep its distance from the start of the range: %s; the API server draws one", row.Families[i], why)))
	}
}

// dns keeps the distance of the DNS if nobody is given such an address by chance.
func (c *chooser) dns(row *Row) {
	for i := range row.To {
		if row.To[i] != "" {
			continue
		}
		a, why := c.distance(row, i)
		if why != "" {
			continue
		}
		if r := c.targets[cidr.FamilyOf(a)][0]; r.Band(a) == cidr.BandStatic {
			c.give(row, i, a)
			row.Reason += fmt.Sprintf("; %s, as far from the start of %s as before, for it is the DNS", a, r)
		}
	}
}

// random draws, without replacement: all dynamic bands before any static one.
func (c *chooser) random(row *Row) {
	for i := range row.To {
		if row.To[i] != "" {
			continue
		}
		f := numbered(row.Families[i])
		if c.plan.Request.Mapping != MapRandom && !c.crowded[f] {
			continue
		}
		// Where there is no room, preflight tells.
		if a, ok := c.draw(f); ok {
			c.give(row, i, a)
		}
	}
}

func (c *chooser) draw(f cidr.Family) (netip.Addr, bool) {
	for _, band := range []cidr.Band{cidr.BandDynamic, cidr.BandStatic} {
		var free cidr.Uint128
		for _, r := range c.targets[f] {
			free = free.AddSat(freeIn(c.taken[f], r.BandSpan(band)))
		}
		if free.IsZero() {
			continue
		}
		k := cidr.RandBelow(c.src, free)
		for _, r := range c.targets[f] {
			span := r.BandSpan(band)
			n := freeIn(c.taken[f], span)
			if k.Less(n) {
				return c.taken[f].KthAbsent(span, k)
			}
			k = k.Sub(n)
		}
	}
	return netip.Addr{}, false
}

// freeIn counts the addresses of a span that are not in the set.
func freeIn(taken *cidr.AddrSet, span cidr.Span) cidr.Uint128 {
	if span.IsEmpty() {
		return cidr.Uint128{}
	}
	return span.Size().Sub(cidr.U128(taken.Count(span)))
}

func rangeList(ranges []cidr.Range) string {
	if len(ranges) == 0 {
		return "any range that Services move to"
	}
	all := make([]string, len(ranges))
	for i, r := range ranges {
		all[i] = r.String()
	}
	return strings.Join(all, ", ")
}

// numbered is the family in the terms of package cidr.
func numbered(f corev1.IPFamily) cidr.Family {
	if f == corev1.IPv6Protocol {
		return cidr.IPv6
	}
	return cidr.IPv4
}
