// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// counter sums a metric over its labels.
func counter(t failer, r *replica, name string) float64 {
	t.Helper()
	sum := 0.0
	for _, v := range series1(t, r, name) {
		sum += v
	}
	return sum
}

// series1 reads a metric by the values of its labels.
func series1(t failer, r *replica, name string) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(r.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != DefaultMetricsPrefix+name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// S44: a CIDR's gauges are there as soon as it is, right after a restart and
// after changes by others, and gone with it.
func TestS44_GaugesFollowTheCIDRs(t *testing.T) {
	withReplica(t, nil, func(s *simapi.Server) {
		having("10.0.0.0/28")(s)
		put(t, s, "10.0.0.3")
	}, func(t *testing.T, r *replica) {
		if got := series1(t, r, "allocated_ips"); got["10.0.0.0/28"] != 1 || len(got) != 1 {
			t.Errorf("at the start: %v", got)
		}
		put(t, r.server, "10.0.0.4")
		add(r.server, "b", "10.1.0.0/28")
		synctest.Wait()
		if got := series1(t, r, "available_ips"); got["10.0.0.0/28"] != 12 || got["10.1.0.0/28"] != 14 {
			t.Errorf("after changes by others: %v", got)
		}
		if got := series1(t, r, "allocation_total"); len(got) != 4 {
			t.Errorf("counters are missing: %v", got)
		}
		terminate(t, r.server, "b")
		r.server.RemoveFinalizer("b", informer.Finalizer)
		synctest.Wait()
		for _, name := range []string{"allocated_ips", "available_ips", "allocation_total", "allocation_errors_total", "allocation_collisions_total", "allocation_duration_seconds"} {
			for labels := range series1(t, r, name) {
				if strings.Contains(labels, "10.1.0.0/28") {
					t.Errorf("%s{%s} stays", name, labels)
				}
			}
		}
	})
}

func TestCountersCountCalls(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/29"), func(t *testing.T, r *replica) {
		r.must(r.at("10.0.0.1"))
		if _, err := r.at("10.0.0.1"); !errors.Is(err, ErrAllocated) {
			t.Fatal(err)
		}
		if got, err := r.fill(cidr.IPv4); len(got) != 5 || !errors.Is(err, ErrFull) {
			t.Fatal(len(got), err)
		}
		if _, err := r.Allocate(quiet(), Request{Owner: widget, Families: v4, DryRun: true}); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		for name, want := range map[string]map[string]float64{
			"allocation_total":            {"10.0.0.0/29 dynamic": 5, "10.0.0.0/29 static": 1},
			"allocation_errors_total":     {"10.0.0.0/29 dynamic": 1, "10.0.0.0/29 static": 1},
			"allocation_duration_seconds": {"10.0.0.0/29": 6},
		} {
			got := series1(t, r, name)
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s: %v, want %v", name, got, want)
				}
			}
		}
		if problems, err := testutil.CollectAndLint(r.Collector()); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

func TestMetricsPrefix(t *testing.T) {
	withReplica(t, func(c *Config) { c.MetricsPrefix = "mine_" }, having("10.0.0.0/29"), func(t *testing.T, r *replica) {
		if n := testutil.CollectAndCount(r.Collector(), "mine_available_ips"); n != 1 {
			t.Errorf("%d series", n)
		}
	})
}

// S45: no count is ever negative; two /64 saturate.
func TestS45_HugeRangesSaturate(t *testing.T) {
	withReplica(t, nil, having("2001:db8::/64", "2001:db8:1::/64", "2001:db8:2::/48"), func(t *testing.T, r *replica) {
		c, err := NewClassic(r.MetaAllocator, ClassicConfig{Family: cidr.IPv6})
		if err != nil {
			t.Fatal(err)
		}
		if c.Free() != math.MaxInt {
			t.Errorf("Free %d", c.Free())
		}
		for range 20 {
			r.must(r.next(cidr.IPv6))
		}
		if c.Used() != 20 || c.Free() != math.MaxInt {
			t.Errorf("Used %d, Free %d", c.Used(), c.Free())
		}
		for labels, v := range series1(t, r, "available_ips") {
			if v <= 0 {
				t.Errorf("available %s: %v", labels, v)
			}
		}
		total := cidr.Uint128{}
		for _, s := range r.Status().CIDRs {
			for _, b := range []BandStatus{s.Static, s.Dynamic} {
				if b.Free.Add(b.Taken) != b.Size || b.Size.Less(b.Free) {
					t.Errorf("%s: %+v", s.Prefix, b)
				}
				total = total.Add(b.Taken)
			}
		}
		if total != cidr.U128(uint(20)) {
			t.Errorf("%s taken", total)
		}
	})
}
