// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// DefaultMetricsPrefix makes the metrics' names those of kube-apiserver's own
// allocator, so that dashboards and alerts work unchanged.
const DefaultMetricsPrefix = "kube_apiserver_clusterip_allocator_"

// Values of the scope label.
const (
	scopeStatic  = "static"
	scopeDynamic = "dynamic"
)

// metrics are the counters of what calls did. The gauges are computed when
// they are read: see collector. Nothing is registered here.
type metrics struct {
	allocations *prometheus.CounterVec   // cidr, scope
	errors      *prometheus.CounterVec   // cidr, scope
	collisions  *prometheus.CounterVec   // cidr
	duration    *prometheus.HistogramVec // cidr
	allocatedIP *prometheus.Desc         // cidr
	availableIP *prometheus.Desc         // cidr

	mu    sync.RWMutex // guards cidrs
	cidrs map[cidr.Range]*series
}

// series are one CIDR's, found once.
type series struct {
	allocations, errors [2]prometheus.Counter // static, dynamic
	collisions          prometheus.Counter
	duration            prometheus.Observer
}

func newMetrics(prefix string) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	}
	return &metrics{
		allocations: counter("allocation_total", "Addresses allocated, by CIDR and by static (asked for) or dynamic.", "cidr", "scope"),
		errors:      counter("allocation_errors_total", "Allocations that failed, by CIDR and by static or dynamic.", "cidr", "scope"),
		collisions:  counter("allocation_collisions_total", "Picks that somebody else had taken by then, by CIDR.", "cidr"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    prefix + "allocation_duration_seconds",
			Help:    "Time that a successful allocation took, in seconds, by CIDR.",
			Buckets: prometheus.DefBuckets,
		}, []string{"cidr"}),
		allocatedIP: prometheus.NewDesc(prefix+"allocated_ips", "Usable addresses of the CIDR that are taken.", []string{"cidr"}, nil),
		availableIP: prometheus.NewDesc(prefix+"available_ips", "Usable addresses of the CIDR that are free.", []string{"cidr"}, nil),
		cidrs:       map[cidr.Range]*series{},
	}
}

// follow adds the series of new CIDRs and drops those of CIDRs that are gone.
func (m *metrics) follow(t *informer.Topology) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.cidrs {
		if _, ok := t.Get(r); ok {
			continue
		}
		delete(m.cidrs, r)
		labels := prometheus.Labels{"cidr": r.String()}
		m.allocations.DeletePartialMatch(labels)
		m.errors.DeletePartialMatch(labels)
		m.collisions.Delete(labels)
		m.duration.Delete(labels)
	}
	for _, p := range t.Prefixes() {
		if m.cidrs[p.Range] != nil {
			continue
		}
		name := p.Range.String()
		m.cidrs[p.Range] = &series{
			allocations: [2]prometheus.Counter{m.allocations.WithLabelValues(name, scopeStatic), m.allocations.WithLabelValues(name, scopeDynamic)},
			errors:      [2]prometheus.Counter{m.errors.WithLabelValues(name, scopeStatic), m.errors.WithLabelValues(name, scopeDynamic)},
			collisions:  m.collisions.WithLabelValues(name),
			duration:    m.duration.WithLabelValues(name),
		}
	}
}

// of finds the series of a CIDR, nil if it is gone.
func (m *metrics) of(r cidr.Range) *series {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.cidrs[r]
}

func scopeIndex(static bool) int {
	if static {
		return 0
	}
	return 1
}

// succeeded counts an allocation.
func (m *metrics) succeeded(r cidr.Range, static bool, took time.Duration) {
	if s := m.of(r); s != nil {
		s.allocations[scopeIndex(static)].Inc()
		s.duration.Observe(took.Seconds())
	}
}

// failed counts a failure: on the CIDRs that would have had to serve it.
func (m *metrics) failed(t *informer.Topology, f cidr.Family, addr netip.Addr, last cidr.Range, err error) {
	static := addr.IsValid()
	var at []cidr.Range
	switch {
	case static:
		for _, p := range t.Covering(addr) {
			at = append(at, p.Range)
		}
	case last.IsValid() && !errors.Is(err, ErrFull):
		at = append(at, last)
	default:
		for _, p := range t.Maximal(f) {
			at = append(at, p.Range)
		}
	}
	for _, r := range at {
		if s := m.of(r); s != nil {
			s.errors[scopeIndex(static)].Inc()
		}
	}
}

func (m *metrics) collided(r cidr.Range) {
	if s := m.of(r); s != nil {
		s.collisions.Inc()
	}
}

// Collector returns the allocator's metrics, to register with a
// prometheus.Registerer; it registers nothing itself. The gauges are computed
// from a snapshot when they are read, so they cost an allocation nothing, are
// there as soon as a CIDR is, and go with it. Values above 2^53 are rounded, as
// all of Prometheus' are.
//
//	allocated_ips{cidr}                gauge
//	available_ips{cidr}                gauge
//	allocation_total{cidr,scope}       counter
//	allocation_errors_total{cidr,scope} counter
//	allocation_collisions_total{cidr}  counter
//	allocation_duration_seconds{cidr}  histogram
//
// All but the collisions have the names, labels and meanings of
// kube-apiserver's.
func (m *MetaAllocator) Collector() prometheus.Collector { return collector{m} }

type collector struct{ m *MetaAllocator }

func (c collector) Describe(ch chan<- *prometheus.Desc) {
	x := c.m.metrics
	ch <- x.allocatedIP
	ch <- x.availableIP
	for _, v := range []prometheus.Collector{x.allocations, x.errors, x.collisions, x.duration} {
		v.Describe(ch)
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	x := c.m.metrics
	topology, taken := c.m.known()
	for _, p := range topology.Prefixes() {
		counts := countBands(p.Range, taken)
		used := counts[0].Taken.Add(counts[1].Taken)
		free := counts[0].Free.Add(counts[1].Free)
		ch <- prometheus.MustNewConstMetric(x.allocatedIP, prometheus.GaugeValue, used.Float64(), p.Range.String())
		ch <- prometheus.MustNewConstMetric(x.availableIP, prometheus.GaugeValue, free.Float64(), p.Range.String())
	}
	for _, v := range []prometheus.Collector{x.allocations, x.errors, x.collisions, x.duration} {
		v.Collect(ch)
	}
}
