// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
)

const (
	// callTimeout bounds one call, so that a connection that died unnoticed does
	// not end the watch over the ServiceCIDR.
	callTimeout = 10 * time.Second
	// firstPause is the pause after a first failure. It doubles with each.
	firstPause = 100 * time.Millisecond
)

// Controller keeps the default ServiceCIDR of one API server's configuration.
// Make one with New. It is safe for concurrent use, and a prometheus.Collector.
type Controller struct {
	config  Config
	ranges  []cidr.Range
	want    string // ranges as a flag takes them
	metrics *metrics
	running atomic.Bool

	// mu guards what follows. It is never held across a call.
	mu        sync.Mutex
	begun     uint64 // looks
	newest    uint64 // of the looks that ended, the one that began last
	status    Status
	announced Finding       // the latest that was told of, without its remedy
	changed   chan struct{} // closed when status changes
}

// Status is what a Controller knows.
type Status struct {
	// Finding is the latest. It stays when the ServiceCIDR cannot be read.
	Finding Finding
	// Looked is when the latest look ended, the zero time before the first.
	Looked time.Time
	// Err is why the latest look could not read the ServiceCIDR, or not make it
	// as configured; nil if it could, or if the finding says why it must not.
	Err error
}

// New checks the configuration. Errors wrap ErrInvalidConfig.
func New(config Config) (*Controller, error) {
	ranges, err := config.complete()
	if err != nil {
		return nil, err
	}
	return &Controller{
		config:  config,
		ranges:  ranges,
		want:    strings.Join(texts(ranges), ","),
		metrics: newMetrics(config.MetricsPrefix),
		changed: make(chan struct{}),
	}, nil
}

// Run looks at the ServiceCIDR at once and then every Interval, sooner after a
// failure, until ctx is done. It blocks, may be called once, starts no
// goroutine, and returns nil when ctx is done. The context's logger is used.
func (c *Controller) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("the controller of the default ServiceCIDR runs already, or has run: create a new one")
	}
	pause := retry{first: firstPause, most: c.config.Interval}
	for {
		_, err := c.Sync(ctx)
		if ctx.Err() != nil {
			return nil
		}
		next := c.config.Interval
		if err != nil {
			next = pause.after(err)
			klog.FromContext(ctx).Error(err, "The default ServiceCIDR could not be ensured; trying again", "name", c.config.Name, "pause", next)
		} else {
			pause.reset()
		}
		timer := c.config.Clock.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Sync is one look: it reads the ServiceCIDR, creates or extends it if that is
// called for, and reports. It makes up to four calls and does not wait. The
// error, the API server's, says that a write failed, or that the ServiceCIDR could
// not be read or ctx was done: then the finding is the one before. A finding that
// must not be cured by a write is no error.
func (c *Controller) Sync(ctx context.Context) (Finding, error) {
	c.mu.Lock()
	c.begun++
	look := c.begun
	c.mu.Unlock()

	f, obj, err := c.look(ctx)
	if err != nil && ctx.Err() != nil {
		return c.Status().Finding, err // the end of the caller says nothing of the ServiceCIDR
	}
	return c.report(ctx, look, f, obj, err), err
}

// Status is what the latest look found.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// WaitConsistent waits until a look finds the ServiceCIDR as configured, for API
// servers that gate their readiness on it; Run or Sync do the looking. It
// returns nil at once if the latest finding is that. The condition Ready of the
// ServiceCIDR is not waited for. The error, when ctx is done first, wraps
// ErrNotConsistent and the context's cause, and has the last finding and its remedy.
func (c *Controller) WaitConsistent(ctx context.Context) error {
	for {
		c.mu.Lock()
		s, changed := c.status, c.changed
		c.mu.Unlock()
		if s.Finding.Kind.AsConfigured() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			err := fmt.Errorf("%w: %w: %s", ErrNotConsistent, context.Cause(ctx), s.Finding)
			if s.Err != nil {
				err = fmt.Errorf("%w: %w", err, s.Err)
			}
			return err
		}
	}
}

// look reads and, if that is called for, writes. The finding is Unknown if the
// ServiceCIDR could not be read.
func (c *Controller) look(ctx context.Context) (Finding, *networkingv1.ServiceCIDR, error) {
	obj, err := c.get(ctx)
	if apierrors.IsNotFound(err) {
		obj, err = c.create(ctx)
		switch {
		case err == nil:
			f := c.judge(obj) // admission may have changed it
			if f.Kind == Consistent {
				f.Kind = Created
			}
			return f, obj, nil
		case !apierrors.IsAlreadyExists(err):
			return c.absent(err), nil, fmt.Errorf("creating ServiceCIDR %q with %s: %w", c.config.Name, c.want, err)
		}
		obj, err = c.get(ctx) // another replica was faster
	}
	if err != nil {
		return Finding{}, nil, fmt.Errorf("reading ServiceCIDR %q: %w", c.config.Name, err)
	}
	f := c.judge(obj)
	if f.Kind != FamilyMissing {
		return f, obj, nil
	}
	extended, err := c.extend(ctx, obj)
	if err != nil {
		f.Remedy = c.remedy(err, "update")
		return f, obj, fmt.Errorf("adding %s to ServiceCIDR %q: %w", c.ranges[1], c.config.Name, err)
	}
	f = c.judge(extended)
	if f.Kind == Consistent {
		f.Kind = Extended
	}
	return f, extended, nil
}

// get is a consistent read: without a resourceVersion the answer is not older
// than the request.
func (c *Controller) get(ctx context.Context) (obj *networkingv1.ServiceCIDR, err error) {
	c.metrics.call(ctx, verbGet, func(ctx context.Context) error {
		obj, err = c.config.Client.ServiceCIDRs().Get(ctx, c.config.Name, metav1.GetOptions{})
		return err
	})
	return obj, err
}

// create makes the ServiceCIDR. An answer that is lost is found by the next look.
func (c *Controller) create(ctx context.Context) (obj *networkingv1.ServiceCIDR, err error) {
	wanted := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: texts(c.ranges)}}
	wanted.Name, wanted.Finalizers = c.config.Name, c.config.finalizers()
	c.metrics.call(ctx, verbCreate, func(ctx context.Context) error {
		obj, err = c.config.Client.ServiceCIDRs().Create(ctx, wanted, metav1.CreateOptions{})
		return err
	})
	return obj, err
}

// extend appends the second range to the object that was read, and to no other
// version of it: its UID and resourceVersion go with the update. The first range
// keeps its spelling, which the server does not let change.
func (c *Controller) extend(ctx context.Context, read *networkingv1.ServiceCIDR) (obj *networkingv1.ServiceCIDR, err error) {
	wanted := read.DeepCopy()
	wanted.Spec.CIDRs = append(wanted.Spec.CIDRs, c.ranges[1].String())
	c.metrics.call(ctx, verbUpdate, func(ctx context.Context) error {
		obj, err = c.config.Client.ServiceCIDRs().Update(ctx, wanted, metav1.UpdateOptions{})
		return err
	})
	return obj, err
}
