// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// S44, the part of this package: the gauges of a ServiceCIDR are there as soon
// as it is, right after a restart and after changes by others, and gone with it.
func TestS44_GaugesComeAndGoWithTheServiceCIDR(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		want := func(lines ...string) {
			t.Helper()
			synctest.Wait()
			for _, each := range []*cluster{c, newCluster(t, c.server, "restarted")} {
				if got := gauges(t, each); !slices.Equal(got, lines) {
					t.Errorf("gauges\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
				}
				if each != c {
					each.stop()
				}
			}
		}
		want()
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		want(`ready{servicecidr="a"} 0`, `terminating{servicecidr="a"} 0`)
		c.step("a")
		want(`ready{servicecidr="a"} 1`, `terminating{servicecidr="a"} 0`)
		c.hold("10.0.0.7", "10.0.0.9")
		c.remove("a")
		want(`blocking_addresses{servicecidr="a"} 2`, `ready{servicecidr="a"} 0`, `terminating{servicecidr="a"} 1`)
		c.free("10.0.0.7")
		want(`blocking_addresses{servicecidr="a"} 1`, `ready{servicecidr="a"} 0`, `terminating{servicecidr="a"} 1`)
		c.free("10.0.0.9")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		c.step("a")
		want()
		if n := c.released.Load(); n != 1 {
			t.Errorf("%d released", n)
		}
	})
}

// gauges are the samples of the ServiceCIDRs, without the prefix of the names.
func gauges(t *testing.T, c *cluster) []string {
	t.Helper()
	if problems, err := testutil.CollectAndLint(c.Collector()); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				out = append(out, fmt.Sprintf("%s{%s=%q} %v", strings.TrimPrefix(f.GetName(), DefaultMetricsPrefix), l.GetName(), l.GetValue(), m.GetGauge().GetValue()))
			}
		}
	}
	return out
}
