// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/informer"
)

// Defaults of Config.
const (
	// DefaultInterval is the time between the begins of two regular passes.
	DefaultInterval = 3 * time.Minute
	// DefaultMinSpacing is the least time from the end of a pass to the next.
	DefaultMinSpacing = 10 * time.Second
	// DefaultLeakGrace is the one that Kubernetes' own repair loop grants.
	DefaultLeakGrace = time.Minute
	// DefaultMismatchGrace is the one that Kubernetes' own repair loop grants.
	DefaultMismatchGrace = 5 * time.Second
	// DefaultCallTimeout bounds one API call.
	DefaultCallTimeout = 30 * time.Second
	// DefaultMetricsPrefix is put before the names of the metrics.
	DefaultMetricsPrefix = "metacidr_repair_"
)

// Config is what a Controller works with. Client and Owners are required; the
// zero value of everything else is the default.
type Config struct {
	// Client reads ServiceCIDRs, and reads and writes IPAddresses: a clientset's
	// NetworkingV1().
	Client informer.Client
	// Owners are the resources whose addresses are kept, each once.
	Owners []Registration

	// View, if not nil, is where a pass looks for what may be wrong with
	// IPAddresses and ServiceCIDRs, in place of lists of its own: cheap, and
	// harmless if stale. Somebody else runs it. A View does not show the
	// ip-family label, so a wrong one is then found only on an object that is
	// read for another reason.
	View *informer.View

	// DryRun reports and writes nothing: no object and no event.
	DryRun bool

	// Interval is the time between regular passes; 0 means DefaultInterval.
	Interval time.Duration
	// MinSpacing is the least time from the end of a pass to the next one, such
	// as after a failure or when a grace period ends; 0 means DefaultMinSpacing.
	MinSpacing time.Duration
	// LeakGrace is for how long the owner of an IPAddress must have been seen
	// not to claim it, before it is deleted; 0 means DefaultLeakGrace. It must
	// exceed the time that a client may take from the allocation of an address
	// to the owner that claims it.
	LeakGrace time.Duration
	// MismatchGrace is the same where another owner claims the address and has
	// no IPAddress; 0 means DefaultMismatchGrace.
	MismatchGrace time.Duration
	// CallTimeout bounds one API call, and one list of Owners; 0 means
	// DefaultCallTimeout.
	CallTimeout time.Duration

	// Recorder takes events; nil means none.
	Recorder events.EventRecorder
	// Clock measures grace periods and passes; nil means the real one.
	Clock clock.WithTicker
	// MetricsPrefix is put before the names of all metrics; empty means
	// DefaultMetricsPrefix.
	MetricsPrefix string
	// CoreMetrics adds the two metrics of kube-apiserver's own repair loop, by
	// their names. Leave it off in a process that runs that loop too.
	CoreMetrics bool
}

func (c *Config) complete() error {
	if c.Client == nil {
		return fmt.Errorf("%w: Client is nil: give a clientset's NetworkingV1()", ErrInvalidConfig)
	}
	if len(c.Owners) == 0 {
		return fmt.Errorf("%w: Owners is empty: register at least one resource, such as repair.Services(client)", ErrInvalidConfig)
	}
	c.Owners = slices.Clone(c.Owners)
	for i := range c.Owners {
		if err := c.Owners[i].complete(i); err != nil {
			return err
		}
		if problems := content.IsLabelValue(c.Owners[i].Manager); len(problems) > 0 {
			return fmt.Errorf("%w: Owners[%d].Manager %q is no label value: %s", ErrInvalidConfig, i, c.Owners[i].Manager, problems[0])
		}
		for j := range i {
			if resource := c.Owners[i].Owners.Resource(); resource == c.Owners[j].Owners.Resource() {
				return fmt.Errorf("%w: Owners[%d] and Owners[%d] are both for %s: register a resource once", ErrInvalidConfig, j, i, resource)
			}
		}
	}
	for _, d := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"Interval", &c.Interval, DefaultInterval},
		{"MinSpacing", &c.MinSpacing, DefaultMinSpacing},
		{"LeakGrace", &c.LeakGrace, DefaultLeakGrace},
		{"MismatchGrace", &c.MismatchGrace, DefaultMismatchGrace},
		{"CallTimeout", &c.CallTimeout, DefaultCallTimeout},
	} {
		if *d.value < 0 {
			return fmt.Errorf("%w: %s %v is negative; leave it 0 for %v", ErrInvalidConfig, d.name, *d.value, d.standard)
		}
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.MinSpacing > c.Interval {
		return fmt.Errorf("%w: MinSpacing %v is longer than Interval %v: lower it", ErrInvalidConfig, c.MinSpacing, c.Interval)
	}
	if c.MismatchGrace > c.LeakGrace {
		return fmt.Errorf("%w: MismatchGrace %v is longer than LeakGrace %v: lower it", ErrInvalidConfig, c.MismatchGrace, c.LeakGrace)
	}
	if c.MetricsPrefix == "" {
		c.MetricsPrefix = DefaultMetricsPrefix
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}
