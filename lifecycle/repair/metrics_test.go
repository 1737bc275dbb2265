// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// gather is all samples of the controller as "name{label}" to value.
func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += "{" + l.GetValue() + "}"
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// S44: the gauges are there right after the first pass, for all kinds, and are
// reset when what they count is fixed, by whomever.
func TestS44_Gauges(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.CoreMetrics = true })
	for name := range gather(t, w.Controller) {
		if strings.HasPrefix(name, "metacidr_repair_findings") {
			t.Errorf("%s before any pass", name)
		}
	}
	w.service("missing", "10.0.0.1")
	w.service("old", "10.0.0.2")
	w.clock.Step(time.Second)
	w.service("young", "10.0.0.2")
	w.allocate("10.0.0.2", service("old"))
	w.service("far", "10.9.0.1")
	w.allocate("10.9.0.1", service("far"))
	w.allocate("10.0.0.3", service("gone"))
	w.pass()
	got := gather(t, w.Controller)
	for name, value := range map[string]float64{
		"findings{missing}": 0, "findings{duplicate}": 1, "findings{out_of_range}": 1, "findings{leaked}": 0, "pending": 1,
		"found_total{missing}": 1, "repaired_total{missing}": 1, "found_total{duplicate}": 1, "errors_total{missing}": 0,
	} {
		if v, ok := got["metacidr_repair_"+name]; !ok || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, value)
		}
	}
	for name, value := range map[string]float64{"ip_errors_total{repair}": 1, "ip_errors_total{duplicate}": 1, "ip_errors_total{outOfRange}": 1, "reconcile_errors_total": 0} {
		if v, ok := got["apiserver_clusterip_repair_"+name]; !ok || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, value)
		}
	}
	for _, k := range kinds() {
		if _, ok := got[fmt.Sprintf("metacidr_repair_findings{%s}", k)]; !ok {
			t.Errorf("no gauge of %s", k)
		}
	}

	w.deleteService("young")
	w.deleteService("far")
	w.clock.Step(DefaultLeakGrace)
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	w.pass()
	got = gather(t, w.Controller)
	for name, value := range map[string]float64{"findings{duplicate}": 0, "findings{out_of_range}": 0, "pending": 0, "repaired_total{leaked}": 2} {
		if v := got["metacidr_repair_"+name]; v != value {
			t.Errorf("%s is %v, want %v", name, v, value)
		}
	}
}

// An incomplete pass counts its errors and leaves the gauges alone; a failed
// repair stays in them.
func TestMetrics_Failures(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MetricsPrefix = "my_" })
	w.service("a", "10.0.0.1")
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "create", Err: simapi.Forbidden("no")})
	if _, err := w.Sync(quiet()); err == nil {
		t.Error("no error")
	}
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "list", Resource: "ipaddresses", Err: simapi.Forbidden("no")})
	if _, err := w.Sync(quiet()); err == nil {
		t.Error("no error")
	}
	got := gather(t, w.Controller)
	for name, value := range map[string]float64{"findings{missing}": 1, "errors_total{missing}": 1, "errors_total{list}": 1, "repaired_total{missing}": 0} {
		if v, ok := got["my_"+name]; !ok || v != value {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, value)
		}
	}
}
