// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what passes found and did. Nothing is registered here.
type metrics struct {
	found    *prometheus.CounterVec // kind
	repaired *prometheus.CounterVec // kind
	errors   *prometheus.CounterVec // kind, or "list" and "read"

	findings *prometheus.Desc // kind
	pending  *prometheus.Desc
	duration *prometheus.Desc

	// The names of kube-apiserver's own repair loop; nil unless wanted.
	ipErrors        *prometheus.CounterVec // type
	reconcileErrors prometheus.Counter

	mu   sync.Mutex // guards last; never held across anything that waits
	last *Report    // of the last complete pass; nil before
}

func newMetrics(prefix string, core bool) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		found:    counter(prefix+"found_total", "Findings of all passes, by kind; one that stays counts in each pass.", "kind"),
		repaired: counter(prefix+"repaired_total", "Findings that were put right, by kind.", "kind"),
		errors:   counter(prefix+"errors_total", "API calls that failed, by kind of the finding, or list or read.", "kind"),
		findings: prometheus.NewDesc(prefix+"findings", "Findings that the last complete pass left, by kind.", []string{"kind"}, nil),
		pending:  prometheus.NewDesc(prefix+"pending", "IPAddresses that waited for a grace period in the last complete pass.", nil, nil),
		duration: prometheus.NewDesc(prefix+"last_pass_duration_seconds", "Time that the last complete pass took, in seconds.", nil, nil),
	}
	for _, k := range kinds() { // a counter that is there from the start shows its first increase
		m.found.WithLabelValues(string(k))
		m.errors.WithLabelValues(string(k))
	}
	for _, k := range []Kind{Missing, Leaked, WrongReference, WrongLabel} {
		m.repaired.WithLabelValues(string(k))
	}
	m.errors.WithLabelValues("list")
	m.errors.WithLabelValues("read")
	if core {
		m.ipErrors = counter("apiserver_clusterip_repair_ip_errors_total", "Errors of cluster IPs that the repair loop found, by type.", "type")
		m.reconcileErrors = prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_clusterip_repair_reconcile_errors_total", Help: "Repairs of cluster IPs that failed.",
		})
	}
	return m
}

// coreType is what kube-apiserver's metric calls a kind, empty if nothing.
func coreType(k Kind) string {
	switch k {
	case Missing, WrongReference:
		return "repair"
	case Leaked:
		return "leak"
	case Duplicate, AlreadyAllocated:
		return "duplicate"
	case OutOfRange:
		return "outOfRange"
	case NotValid:
		return "invalid"
	}
	return ""
}

// passed takes in what a pass found. Gauges change with complete passes only.
func (m *metrics) passed(r *Report, complete bool) {
	for kind, n := range r.Counts {
		m.found.WithLabelValues(string(kind)).Add(float64(n))
		if fixed := n - r.Outstanding[kind]; fixed > 0 {
			m.repaired.WithLabelValues(string(kind)).Add(float64(fixed))
		}
		if m.ipErrors != nil && coreType(kind) != "" {
			m.ipErrors.WithLabelValues(coreType(kind)).Add(float64(n))
		}
	}
	if !complete {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = &Report{Outstanding: r.Outstanding, Pending: r.Pending, Duration: r.Duration}
}

// failed counts an error under what was being done.
func (m *metrics) failed(what string) {
	m.errors.WithLabelValues(what).Inc()
	if m.reconcileErrors != nil {
		m.reconcileErrors.Inc()
	}
}

func (m *metrics) vectors() []prometheus.Collector {
	out := []prometheus.Collector{m.found, m.repaired, m.errors}
	if m.ipErrors != nil {
		out = append(out, m.ipErrors, m.reconcileErrors)
	}
	return out
}

var _ prometheus.Collector = (*Controller)(nil)

// Describe is for a prometheus.Registerer. The metrics, with the configured
// prefix:
//
//	findings{kind}              gauge: what the last complete pass left
//	pending                     gauge: IPAddresses that wait for a grace period
//	last_pass_duration_seconds  gauge
//	found_total{kind}           counter: what stays counts in each pass
//	repaired_total{kind}        counter
//	errors_total{kind}          counter; kind is also "list" and "read"
//
// The gauges are there after the first complete pass, for all kinds. With
// Config.CoreMetrics, two more have the names of kube-apiserver's own repair
// loop: apiserver_clusterip_repair_ip_errors_total{type} and
// apiserver_clusterip_repair_reconcile_errors_total.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	m := c.metrics
	ch <- m.findings
	ch <- m.pending
	ch <- m.duration
	for _, v := range m.vectors() {
		v.Describe(ch)
	}
}

// Collect is for a prometheus.Registerer. It makes no API call.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	m := c.metrics
	for _, v := range m.vectors() {
		v.Collect(ch)
	}
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	if last == nil {
		return
	}
	for _, k := range kinds() {
		ch <- prometheus.MustNewConstMetric(m.findings, prometheus.GaugeValue, float64(last.Outstanding[k]), string(k))
	}
	ch <- prometheus.MustNewConstMetric(m.pending, prometheus.GaugeValue, float64(last.Pending))
	ch <- prometheus.MustNewConstMetric(m.duration, prometheus.GaugeValue, last.Duration.Seconds())
}
