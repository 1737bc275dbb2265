// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/informer"
)

// Controller keeps owners and IPAddresses one to one. Create it with New; then
// Run it, or step it with Sync. It is a prometheus.Collector.
type Controller struct {
	config     Config
	registered map[schema.GroupResource]*Registration
	managers   map[string]bool
	metrics    *metrics
	running    atomic.Bool

	// busy is set while a pass is under way, which alone may touch what follows.
	busy atomic.Bool
	// unclaimed says since when, by this clock, each IPAddress has been seen to
	// name an owner that does not claim it.
	unclaimed map[types.UID]time.Time
	announced map[announcement]time.Time
}

// New prepares a controller. Errors wrap ErrInvalidConfig.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c := &Controller{
		config:     config,
		registered: map[schema.GroupResource]*Registration{},
		managers:   map[string]bool{},
		metrics:    newMetrics(config.MetricsPrefix, config.CoreMetrics),
		unclaimed:  map[types.UID]time.Time{},
		announced:  map[announcement]time.Time{},
	}
	for i := range config.Owners {
		r := &config.Owners[i]
		c.registered[r.Owners.Resource()] = r
		c.managers[r.Manager] = true
	}
	return c, nil
}

func (c *Controller) managed(label string) bool { return c.managers[label] }

func (c *Controller) registration(owner informer.Owner) *Registration {
	return c.registered[schema.GroupResource{Group: owner.Group, Resource: owner.Resource}]
}

// Sync makes one pass over all owners and IPAddresses, and returns what it
// found and did. It starts no goroutine and waits for nothing but API calls. A
// failure on one object does not stop the pass over the others.
//
// The error is a *PassError, ErrBusy, ErrNotSynced, or ctx's, wrapped. The
// Report is right for what the pass got to, also beside an error.
func (c *Controller) Sync(ctx context.Context) (Report, error) {
	if !c.busy.CompareAndSwap(false, true) {
		return Report{}, ErrBusy
	}
	defer c.busy.Store(false)
	if c.config.View != nil && !c.config.View.HasSynced() {
		return Report{}, ErrNotSynced
	}
	begin := c.config.Clock.Now()
	p := newPass(c)
	complete, err := p.run(ctx)
	p.report.Duration = c.config.Clock.Since(begin)
	c.metrics.passed(&p.report, complete)
	return p.report, err
}

// Run makes passes until ctx is done: at once, then every Interval counted from
// its begin, and in between when a grace period ends or after a failure, but
// never closer than MinSpacing. After failures the spacing doubles up to
// Interval, and is as long as the API server asked for. It blocks, may be
// called once, and leaves no goroutine behind.
func (c *Controller) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("the repair controller runs already, or has run: create a new one")
	}
	if c.config.View != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-c.config.View.Synced():
		}
	}
	logger := klog.FromContext(ctx)
	regular := c.config.Clock.Now()
	failures := 0
	var outstanding map[Kind]int
	for {
		report, err := c.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		now := c.config.Clock.Now()
		for !regular.After(now) {
			regular = regular.Add(c.config.Interval)
		}
		var wait time.Duration
		if err != nil {
			wait = c.retryIn(regular.Sub(now), failures, err)
			failures++
			logger.Error(err, "The repair pass is incomplete; the next one takes it up", "in", wait)
		} else {
			wait = c.nextIn(regular.Sub(now), report.Next)
			failures = 0
			if !maps.Equal(outstanding, report.Outstanding) {
				outstanding = report.Outstanding
				logger.Info("Owners and IPAddresses that are not one to one", "byKind", outstanding)
			}
		}
		timer := c.config.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// nextIn is how long to wait after a pass that succeeded.
func (c *Controller) nextIn(regular, grace time.Duration) time.Duration {
	if grace > 0 {
		regular = min(regular, grace)
	}
	return max(regular, c.config.MinSpacing)
}

// retryIn is how long to wait after a pass that failed, and so many before it.
func (c *Controller) retryIn(regular time.Duration, failures int, err error) time.Duration {
	backoff := c.config.MinSpacing
	for range failures {
		if backoff = 2 * backoff; backoff >= c.config.Interval {
			backoff = c.config.Interval
			break
		}
	}
	wait := max(min(regular, backoff), c.config.MinSpacing)
	if pass, ok := errors.AsType[*PassError](err); ok {
		wait = max(wait, pass.RetryAfter)
	}
	return wait
}
