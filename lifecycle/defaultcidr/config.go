// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

const (
	// DefaultName is that of the ServiceCIDR that kube-apiserver makes of its flags.
	DefaultName = "kubernetes"
	// DefaultFlag is the kube-apiserver flag that holds the ranges.
	DefaultFlag = "--service-cluster-ip-range"
	// DefaultInterval is the time between two looks at the ServiceCIDR.
	DefaultInterval = 10 * time.Second
)

// Config is what a Controller works with. Client and Ranges are required; the
// zero value of everything else is the default.
type Config struct {
	// Client reads, creates and updates ServiceCIDRs: a clientset's NetworkingV1().
	Client networkingv1client.ServiceCIDRsGetter
	// Ranges are those of the default ServiceCIDR: one, or two of different
	// families, the preferred family first. Each in its canonical spelling
	// (see cidr.Parse), and with at least one usable address.
	Ranges []string
	// Name is the ServiceCIDR's; empty means DefaultName.
	Name string
	// Flag is what an operator sets to change Ranges, as remedies name it; empty
	// means DefaultFlag.
	Flag string
	// OmitFinalizer creates the ServiceCIDR without informer.Finalizer. With it,
	// the default, a deletion waits for the addresses from the first moment on.
	// Omit it only where no ServiceCIDR controller runs: nothing would remove it.
	OmitFinalizer bool

	// Interval is the time between two looks, and the longest pause after a
	// failure, unless the API server asks for more; 0 means DefaultInterval.
	Interval time.Duration

	// Recorder gets an Event when a finding changes to one that is not as
	// configured; nil means no events.
	Recorder events.EventRecorder
	// MetricsPrefix is put before the names of all metrics; empty means
	// DefaultMetricsPrefix.
	MetricsPrefix string
	// Clock is for the pauses of Run and the times of Status; nil means the real one.
	Clock clock.WithTicker
}

// complete fills the defaults in, and returns the ranges as values.
func (c *Config) complete() ([]cidr.Range, error) {
	invalid := func(format string, args ...any) ([]cidr.Range, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrInvalidConfig}, args...)...)
	}
	if c.Client == nil {
		return invalid("Client is nil: give a clientset's NetworkingV1()")
	}
	if c.Name == "" {
		c.Name = DefaultName
	}
	if problems := validation.IsDNS1123Subdomain(c.Name); len(problems) > 0 {
		return invalid("Name %q is no name for a ServiceCIDR: %s", c.Name, strings.Join(problems, ", "))
	}
	if c.Interval < 0 {
		return invalid("Interval %v is negative; 0 means %v", c.Interval, DefaultInterval)
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	if c.Flag == "" {
		c.Flag = DefaultFlag
	}
	if c.MetricsPrefix == "" {
		c.MetricsPrefix = DefaultMetricsPrefix
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	ranges, err := parseRanges(c.Ranges)
	if err != nil {
		return invalid("Ranges: %w", err)
	}
	return ranges, nil
}

// parseRanges reads one range, or two of different families.
func parseRanges(texts []string) ([]cidr.Range, error) {
	switch {
	case len(texts) == 0:
		return nil, fmt.Errorf("there is none: give one, or one of each family")
	case len(texts) > 2:
		return nil, fmt.Errorf("%d are too many (%s): give one, or one of each family; more go into ServiceCIDRs of their own",
			len(texts), strings.Join(texts, ","))
	}
	ranges := make([]cidr.Range, len(texts))
	for i, s := range texts {
		r, err := cidr.Parse(s)
		if err != nil {
			return nil, err
		}
		if r.Size().IsZero() {
			return nil, fmt.Errorf("%s has no usable address: give a shorter prefix, /30 or less for IPv4, /127 or less for IPv6", r)
		}
		ranges[i] = r
	}
	if len(ranges) == 2 && ranges[0].Family() == ranges[1].Family() {
		return nil, fmt.Errorf("%s and %s are both %s: give one of each family, or put the second into a ServiceCIDR of its own",
			ranges[0], ranges[1], ranges[0].Family())
	}
	return ranges, nil
}

// finalizers are those that the ServiceCIDR is created with.
func (c *Config) finalizers() []string {
	if c.OmitFinalizer {
		return nil
	}
	return []string{informer.Finalizer}
}
