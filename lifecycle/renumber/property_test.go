// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
)

// drawPrefix draws a prefix within another, of a length between two.
func drawPrefix(t *rapid.T, within string, from, to int, label string) netip.Prefix {
	p := netip.MustParsePrefix(within)
	bits := rapid.IntRange(from, to).Draw(t, label+" length")
	r := cidr.MustParse(within)
	free := cidr.U128(uint(1)).Lsh(uint(bits - p.Bits()))
	n, _ := free.Uint64()
	k := rapid.Uint64Range(0, n-1).Draw(t, label+" index")
	at := cidr.ToUint128(p.Addr()).Add(cidr.U128(k).Lsh(uint(p.Addr().BitLen() - bits)))
	return netip.PrefixFrom(cidr.FromUint128(r.Family(), at), bits)
}

// drawAddress draws a usable address.
func drawAddress(t *rapid.T, p netip.Prefix, label string) string {
	span := mustRange(p).Usable()
	n, ok := span.Size().Uint64()
	if !ok || n > 1<<20 {
		n = 1 << 20
	}
	return span.At(cidr.U128(rapid.Uint64Range(0, n-1).Draw(t, label))).String()
}

func mustRange(p netip.Prefix) cidr.Range { return cidr.MustParse(p.String()) }

// scene is a world, a request, and the ranges that a naive reader takes from them.
type scene struct {
	b           *builder
	req         Request
	leave, stay []netip.Prefix
	target      map[corev1.IPFamily][]netip.Prefix
}

func drawScene(t *rapid.T) scene {
	old := drawPrefix(t, "10.0.0.0/9", 20, 27, "old")
	s := scene{target: map[corev1.IPFamily][]netip.Prefix{}}
	dual := rapid.Bool().Draw(t, "dual")
	ranges := []string{old.String()}
	old6 := drawPrefix(t, "fd00::/48", 108, 120, "old6")
	if dual {
		ranges = append(ranges, old6.String())
	}
	s.b = newWorld(ranges...)
	in := old
	switch s.req.Playbook = rapid.SampledFrom([]Playbook{Replace, Shrink, Drain}).Draw(t, "playbook"); s.req.Playbook {
	case Replace:
		to := drawPrefix(t, "10.128.0.0/9", 20, 28, "new")
		s.req.To, s.leave, s.target["IPv4"] = []string{to.String()}, []netip.Prefix{old}, []netip.Prefix{to}
		if dual && rapid.Bool().Draw(t, "both") {
			to6 := drawPrefix(t, "fd01::/48", 108, 120, "new6")
			s.req.To, s.leave, s.target["IPv6"] = append(s.req.To, to6.String()), append(s.leave, old6), []netip.Prefix{to6}
		}
	case Shrink:
		to := drawPrefix(t, old.String(), old.Bits()+1, 29, "new")
		s.req.To, s.leave, s.stay, s.target["IPv4"] = []string{to.String()}, []netip.Prefix{old}, []netip.Prefix{to}, []netip.Prefix{to}
	case Drain:
		in = drawPrefix(t, "172.16.0.0/12", 20, 27, "extra")
		s.b.serviceCIDR("extra", in.String())
		s.req.From, s.leave = "extra", []netip.Prefix{in}
		s.target["IPv4"] = []netip.Prefix{old}
		if rapid.Bool().Draw(t, "nested") {
			nested := drawPrefix(t, in.String(), in.Bits()+1, 29, "nested")
			s.b.serviceCIDR("nested", nested.String())
			s.stay, s.target["IPv4"] = []netip.Prefix{nested}, append(s.target["IPv4"], nested)
		}
	}
	mappings := []Mapping{MapServer, MapRandom}
	if s.req.Playbook != Drain {
		mappings = append(mappings, MapOffset)
	}
	s.req.Mapping = rapid.SampledFrom(mappings).Draw(t, "mapping")
	s.req.Strategy = rapid.SampledFrom([]Strategy{InPlace, Recreate}).Draw(t, "strategy")
	s.req.LoadBalancers = rapid.Bool().Draw(t, "load balancers")
	used := map[string]bool{s.b.kubernetes()[0]: true}
	for i := range rapid.IntRange(0, 25).Draw(t, "Services") {
		home := in
		if in != old && rapid.Bool().Draw(t, "elsewhere") {
			home = old
		}
		a, a6 := drawAddress(t, home, "address"), drawAddress(t, old6, "address6")
		if used[a] || used[a6] {
			continue
		}
		used[a], used[a6] = true, true
		key := fmt.Sprintf("n/s%d", i)
		switch kind := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case kind == 0:
			s.b.headless(key, corev1.IPv4Protocol)
		case kind == 1:
			s.b.externalName(key)
		case kind == 2:
			s.b.service(key, a).Spec.Type = corev1.ServiceTypeLoadBalancer
		case kind == 3 && dual:
			s.b.service(key, a6, a)
		case kind == 4 && dual:
			s.b.service(key, a, a6)
		default:
			s.b.service(key, a)
		}
	}
	// Somebody else has a few of the new addresses.
	for range rapid.IntRange(0, 5).Draw(t, "others") {
		to := rapid.SampledFrom(s.target["IPv4"]).Draw(t, "of")
		if a := drawAddress(t, to, "taken"); !used[a] {
			used[a] = true
			s.b.address(a, "gateways", "n", "g")
		}
	}
	return s
}

// leaves is the rule, naively: in Leave, and not usable in Stay.
func (s scene) leaves(text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	within := slices.ContainsFunc(s.leave, func(p netip.Prefix) bool { return p.Contains(a) })
	return within && !slices.ContainsFunc(s.stay, func(p netip.Prefix) bool { return s.usable(p, a) })
}

// usable: in the prefix, and neither its network nor its IPv4 broadcast address.
func (scene) usable(p netip.Prefix, a netip.Addr) bool {
	if !p.Contains(a) || a == p.Masked().Addr() {
		return false
	}
	return a.Is6() || p.Contains(a.Next())
}

// Every row is consistent: a Service moves if and only if it has an address to
// leave; what it keeps, it keeps; what it is given is usable in a target, taken by
// nobody, given once, and not what the API server needs.
func TestMake_RowsAreConsistent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		p, err := Make(&s.b.World, s.req, MakeOptions{Name: "p", Clock: testingclock.NewFakePassiveClock(noon), Rand: rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)})
		if err != nil {
			t.Fatal(err)
		}
		taken := map[string]string{}
		for _, ip := range s.b.IPAddresses {
			taken[ip.Name] = "there already"
		}
		for _, step := range p.Steps {
			if len(step.Ranges) > 0 {
				taken[mustRange(netip.MustParsePrefix(step.Ranges[0])).First().String()] = "the API server's"
			}
		}
		if len(p.Services) != len(s.b.Services) {
			t.Fatalf("%d rows of %d Services", len(p.Services), len(s.b.Services))
		}
		for i := range p.Services {
			s.checkRow(t, p, &p.Services[i], taken)
		}
		if found := s.b.Moved(p); len(found) != 0 {
			t.Errorf("nothing moved, and: %+v", found)
		}
	})
}

func (s scene) checkRow(t *rapid.T, p *Plan, row *Row, taken map[string]string) {
	svc := s.b.find(row.Key())
	left := slices.ContainsFunc(svc.Spec.ClusterIPs, s.leaves)
	want := ActionKeep
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Spec.ClusterIP == corev1.ClusterIPNone:
		want = ActionSkip
	case row.Class == ClassKubernetes && left:
		want = ActionRenew
	case left && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !s.req.LoadBalancers:
		want = ActionHold
	case left:
		want = ActionMove
	}
	if row.Action != want {
		t.Errorf("%s with %v: %s, want %s", row.Key(), svc.Spec.ClusterIPs, row.Action, want)
	}
	if !slices.Equal(row.From, svc.Spec.ClusterIPs) || row.Reason == "" || row.UID != svc.UID {
		t.Errorf("%+v", row)
	}
	if row.Action != ActionMove {
		if row.Action != ActionRenew && (row.To != nil || row.Strategy != "") {
			t.Errorf("%+v", row)
		}
		return
	}
	if !slices.Equal(row.Families, svc.Spec.IPFamilies) || row.To != nil && len(row.To) != len(row.Families) {
		t.Errorf("%+v", row)
	}
	for i, a := range row.To {
		switch {
		case !s.leaves(row.From[i]):
			if a != row.From[i] {
				t.Errorf("%s: %s need not leave, and becomes %q", row.Key(), row.From[i], a)
			}
			continue
		case a == "":
			continue
		}
		addr := netip.MustParseAddr(a)
		if !slices.ContainsFunc(s.target[row.Families[i]], func(p netip.Prefix) bool { return s.usable(p, addr) }) {
			t.Errorf("%s: %s is not usable in %v", row.Key(), a, s.target[row.Families[i]])
		}
		if s.leaves(a) {
			t.Errorf("%s: %s is to be left", row.Key(), a)
		}
		if by := taken[a]; by != "" {
			t.Errorf("%s: %s is %s", row.Key(), a, by)
		}
		taken[a] = "given to " + row.Key()
		if s.req.Mapping == MapOffset {
			s.checkDistance(t, p, row, i)
		}
	}
}

func (s scene) checkDistance(t *rapid.T, p *Plan, row *Row, i int) {
	from, to := netip.MustParseAddr(row.From[i]), netip.MustParseAddr(row.To[i])
	for _, old := range s.leave {
		if !old.Contains(from) {
			continue
		}
		was := cidr.ToUint128(from).Sub(cidr.ToUint128(old.Addr()))
		is := cidr.ToUint128(to).Sub(cidr.ToUint128(s.target[row.Families[i]][0].Addr()))
		// A range without a static band has its addresses drawn where one cannot keep
		// its distance, which the plan tells.
		told := slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Code == CodeOffsetNotKept && f.Object == "Service "+row.Key() })
		if was != is && !told {
			t.Errorf("%s: %s -> %s", row.Key(), from, to)
		}
	}
}

// With room for all, the mapping random leaves nothing to the API server, and takes
// no static address while a dynamic one is free.
func TestMake_RandomTakesDynamicAddressesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 29).Draw(t, "Services")
		b := newWorld("10.96.0.0/16")
		for i := range n {
			b.service(fmt.Sprintf("n/s%d", i), fmt.Sprintf("10.96.1.%d", i))
		}
		p, err := Make(&b.World, Request{Playbook: Replace, To: []string{"10.112.0.0/27"}, Mapping: MapRandom},
			MakeOptions{Name: "p", Rand: rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)})
		if err != nil {
			t.Fatal(err)
		}
		r := cidr.MustParse("10.112.0.0/27")
		dynamic := 0
		for _, row := range p.Services {
			if row.Action != ActionMove {
				continue
			}
			if len(row.To) != 1 || row.To[0] == "" {
				t.Fatalf("%+v", row)
			}
			if r.Band(netip.MustParseAddr(row.To[0])) == cidr.BandDynamic {
				dynamic++
			}
		}
		if size, _ := r.DynamicSize().Uint64(); dynamic != min(n, int(size)) {
			t.Errorf("%d of %d in the dynamic band", dynamic, n)
		}
	})
}
