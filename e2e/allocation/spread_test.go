// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/meta"
)

// maxFalseAlarm is how often the chi-squared distribution exceeds the threshold. The statistic follows it only
// about: for the smallest expectations here, 30 addresses of 600, the exact tail is some hundred times as heavy
// as this threshold, so that a right allocator fails with p < 1e-6.
const maxFalseAlarm = 1e-9

// spread allocates n addresses of the family one after the other through the replica, whose view must be
// complete and whom nobody may disturb, and checks how they spread over the maximal CIDRs (I5).
//
// Drawing a CIDR in proportion to its free dynamic addresses, before each draw anew, is the same as drawing
// addresses without replacement out of all free ones: with f of F free addresses in a CIDR, the number of draws
// that fall into it is multivariate hypergeometric, with expectation n f/F and a variance that is
// (F-n)/(F-1) times the multinomial one. So, with O observed and E expected,
//
//	X2 = sum over CIDRs (O-E)^2/E * (F-1)/(F-n)
//
// has, about, the chi-squared distribution with (number of CIDRs)-1 degrees of freedom.
func spread(t *testing.T, r *replica, l *ledger, family cidr.Family, n int) {
	t.Helper()
	free := map[cidr.Range]float64{}
	var total float64
	for _, s := range r.Status().CIDRs {
		if s.Maximal && s.Prefix.Family() == family {
			free[s.Prefix] = s.Dynamic.Free.Float64()
			total += free[s.Prefix]
		}
	}
	observed := map[cidr.Range]float64{}
	for i := range n {
		request := meta.Request{Owner: widget(fmt.Sprintf("spread-%s-%d-%d", r.name, family, i)), Families: []cidr.Family{family}}
		from := r.View().Snapshot().Sequence()
		allocations, err := r.Allocate(t.Context(), request)
		if err != nil {
			t.Errorf("replica %s: %v", r.name, err)
			return
		}
		for _, g := range allocationsOf(r, request, from, allocations) {
			l.enter(g)
			observed[allocations[0].Range]++
		}
	}

	var statistic float64
	var table strings.Builder
	for prefix, f := range free {
		expected := float64(n) * f / total
		statistic += (observed[prefix] - expected) * (observed[prefix] - expected) / expected
		fmt.Fprintf(&table, "\n\t%-20s %6.0f free, %6.1f expected, %4.0f drawn", prefix, f, expected, observed[prefix])
		delete(observed, prefix)
	}
	if len(observed) > 0 {
		t.Errorf("replica %s drew from CIDRs that are not maximal: %v", r.name, observed)
	}
	statistic *= (total - 1) / (total - float64(n))
	p := distuv.ChiSquared{K: float64(len(free) - 1)}.Survival(statistic)
	t.Logf("replica %s, %d %s addresses: X2 = %.2f, p = %.2g%s", r.name, n, family, statistic, p, &table)
	if p < maxFalseAlarm {
		t.Errorf("replica %s does not draw CIDRs in proportion to their free addresses: X2 = %.2f, p = %.2g%s", r.name, statistic, p, &table)
	}
}
