// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DefaultMetricsPrefix is that of the controller's metrics.
const DefaultMetricsPrefix = "metacidr_default_service_cidr_"

// The calls that are made.
const (
	verbGet    = "get"
	verbCreate = "create"
	verbUpdate = "update"
)

// metrics count the calls. The finding is read when it is asked for.
type metrics struct {
	calls   *prometheus.CounterVec // verb, outcome
	finding *prometheus.Desc       // kind
}

func newMetrics(prefix string) *metrics {
	return &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "calls_total",
			Help: "Calls to the API server about the default ServiceCIDR, by verb and by outcome: ok, raced (another was faster) or error.",
		}, []string{"verb", "outcome"}),
		finding: prometheus.NewDesc(prefix+"finding",
			"1 for what the default ServiceCIDR was last found to be, by kind, and 0 for the other kinds; all 0 before it was first read.",
			[]string{"kind"}, nil),
	}
}

// call makes one call with its time limit, and counts it.
func (m *metrics) call(ctx context.Context, verb string, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err, outcome := do(ctx), "ok"
	switch {
	case err == nil, verb == verbGet && apierrors.IsNotFound(err):
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err):
		outcome = "raced"
	default:
		outcome = "error"
	}
	m.calls.WithLabelValues(verb, outcome).Inc()
}

// Describe is for prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	c.metrics.calls.Describe(ch)
	ch <- c.metrics.finding
}

// Collect is for prometheus.Collector.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	c.metrics.calls.Collect(ch)
	now := c.Status().Finding.Kind
	for _, k := range kinds() {
		value := 0.0
		if k == now {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(c.metrics.finding, prometheus.GaugeValue, value, string(k))
	}
}
