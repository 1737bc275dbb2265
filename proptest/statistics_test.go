// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// The test of uniformity lets right picks pass while the state changes under them,
// and notices ones that are a little wrong.
func TestUniform_NoticesWrongPicks(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		bias  float64 // of the first outcome
		wrong bool
	}{{"right", 1, false}, {"first too often", 1.6, true}, {"first too rare", 0.5, true}} {
		u := newUniform(c.name, 3)
		for i := range 2000 {
			likelihood := []float64{1 + float64(i%3), 2, float64(i % 5)}
			real := []float64{likelihood[0] * c.bias, likelihood[1], likelihood[2]}
			at, came := random.Float64()*(real[0]+real[1]+real[2]), 0
			for at >= real[came] {
				at -= real[came]
				came++
			}
			u.add(likelihood, came)
		}
		if why := u.unlikely(ErrorProbability); (why != "") != c.wrong {
			t.Errorf("%s: %q", c.name, why)
		}
	}
}

// The reference model of a walk agrees with walking.
func TestI6_StartsAreThoseOfTheWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 5))
	for range 200 {
		span := cidr.MustParse("10.0.0.0/27").Usable()
		n := span.Size().Saturate64()
		known := truth{addrs: map[netip.Addr]stored{}}
		for k := range n {
			if random.IntN(3) > 0 && k != 11 {
				known.addrs[span.At(cidr.U128(k))] = stored{}
			}
		}
		walked := map[netip.Addr]float64{}
		for start := range n {
			k := start
			for {
				if _, taken := known.addrs[span.At(cidr.U128(k))]; !taken {
					break
				}
				k = (k + 1) % n
			}
			walked[span.At(cidr.U128(k))]++
		}
		addrs, starts := band{span: span}.starts(known)
		if len(addrs) != len(walked) {
			t.Fatalf("%d free, %d reached", len(addrs), len(walked))
		}
		for i, a := range addrs {
			if starts[i] != walked[a] {
				t.Fatalf("%s: %v starts lead to it, the model says %v", a, walked[a], starts[i])
			}
		}
	}
}

// What a replica can know: certain is what was so in every state, possible what was
// so in one.
func TestKnowledge(t *testing.T) {
	r, outer := cidr.MustParse("10.0.0.0/28"), cidr.MustParse("10.0.0.0/27")
	addr := netip.MustParseAddr("10.0.0.5")
	with := func(finalizer bool, ranges ...cidr.Range) truth {
		return truth{rows: []*informer.ServiceCIDR{{Name: "a", Ranges: ranges, HasFinalizer: finalizer}}, addrs: map[netip.Addr]stored{}}
	}
	var k knowledge
	k.extend(with(true, r))
	if k.valid || k.maximal(r) {
		t.Error("it knows something before it was in step")
	}
	k.reset(with(true, r), 1)
	if !k.maximal(r) || !k.existCertain[cidr.IPv4] || k.takenPossible[addr] {
		t.Errorf("in step: %+v", k)
	}
	taken := with(true, r)
	taken.addrs[addr] = stored{}
	k.extend(taken)
	k.extend(with(true, r))
	if !k.takenPossible[addr] || !k.maximal(r) {
		t.Errorf("the address was taken and freed: %+v", k)
	}
	k.extend(with(true, r, outer))
	if k.maximal(r) || k.maximal(outer) || !k.readyCertain[r] {
		t.Errorf("it may be nested by now: %+v", k)
	}
	k.extend(with(false, r))
	if k.readyCertain[r] || !k.readyPossible[r] {
		t.Errorf("its finalizer was missing once: %+v", k)
	}
	k.reset(with(true, r), 2)
	successor := with(true, r)
	successor.rows[0].UID = "another"
	k.extend(successor)
	if k.readyCertain[r] {
		t.Errorf("one ServiceCIDR took the other's turn: %+v", k)
	}
	k.extend(truth{})
	if k.existCertain[cidr.IPv4] {
		t.Errorf("it was gone once: %+v", k)
	}
}
