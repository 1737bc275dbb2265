// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/metacidr/metacidr/informer"
)

// DefaultMetricsPrefix begins the names of the metrics.
const DefaultMetricsPrefix = "metacidr_servicecidr_"

// Collector makes the controller's metrics, at scrape time and from the view, so
// that those of a ServiceCIDR are there as soon as it is, and gone with it:
//
//	ready{servicecidr}               1 if Ready is True and it is not terminating, else 0
//	terminating{servicecidr}         1 if it has a deletionTimestamp, else 0
//	blocking_addresses{servicecidr}  of a terminating one: how many addresses block it
//	syncs_total, sync_errors_total, released_total
//
// Register it where metrics are served; the controller registers nothing.
func (c *Controller) Collector() prometheus.Collector {
	name := func(s string) string { return c.config.MetricsPrefix + s }
	label := []string{"servicecidr"}
	return &collector{
		controller:  c,
		ready:       prometheus.NewDesc(name("ready"), "1 if the condition Ready is True and the ServiceCIDR is not terminating, else 0.", label, nil),
		terminating: prometheus.NewDesc(name("terminating"), "1 if the ServiceCIDR has a deletionTimestamp, else 0.", label, nil),
		blocking:    prometheus.NewDesc(name("blocking_addresses"), "Managed addresses that only this terminating ServiceCIDR covers.", label, nil),
		syncs:       prometheus.NewDesc(name("syncs_total"), "Syncs of single ServiceCIDRs.", nil, nil),
		failures:    prometheus.NewDesc(name("sync_errors_total"), "Syncs of single ServiceCIDRs that failed.", nil, nil),
		released:    prometheus.NewDesc(name("released_total"), "Finalizers removed because nothing depended on the ServiceCIDR.", nil, nil),
	}
}

type collector struct {
	controller                                              *Controller
	ready, terminating, blocking, syncs, failures, released *prometheus.Desc
}

func (m *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.terminating, m.blocking, m.syncs, m.failures, m.released} {
		ch <- d
	}
}

func (m *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, name string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, name)
	}
	snapshot := m.controller.view.Snapshot()
	for row := range snapshot.ServiceCIDRs() {
		gauge(m.ready, number(row.ReadyStatus == "True" && !row.Terminating), row.Name)
		gauge(m.terminating, number(row.Terminating), row.Name)
		if row.Terminating {
			gauge(m.blocking, float64(m.blockingAddresses(snapshot, row)), row.Name)
		}
	}
	for _, c := range []struct {
		desc  *prometheus.Desc
		value uint64
	}{
		{m.syncs, m.controller.syncs.Load()},
		{m.failures, m.controller.failures.Load()},
		{m.released, m.controller.released.Load()},
	} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.value))
	}
}

func (*collector) blockingAddresses(s *informer.Snapshot, row *informer.ServiceCIDR) (n uint64) {
	for _, span := range exposed(s.Topology(), row, nil) {
		n += s.Present(span.Family()).Count(span) - s.Unmanaged(span.Family()).Count(span)
	}
	return n
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
