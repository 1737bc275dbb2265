// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/informer"
)

// Errors of the package; errors.Is finds them.
var (
	// ErrInvalidConfig: New or Run was given something that cannot work.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrNotSynced: the view does not show the initial lists yet.
	ErrNotSynced = errors.New("the view is not complete yet: wait for its Synced")
	// ErrNotFound: there is no ServiceCIDR of that name.
	ErrNotFound = errors.New("ServiceCIDR not found")
)

// Defaults of Config.
const (
	// DefaultGracePeriod is that of Kubernetes' own controller (read in v1.37).
	DefaultGracePeriod = 10 * time.Second
	// DefaultWorkers bounds the ServiceCIDRs that are worked on at once.
	DefaultWorkers = 4
	// DefaultFieldManager is the name of Kubernetes' own controller, so that a
	// cluster that changes to this one has no second owner of Ready.
	DefaultFieldManager = "service-cidr-controller"
	// DefaultPageSize is how many IPAddresses one consistent list reads at once.
	DefaultPageSize = 2000
)

// Config is what a Controller works with. Client is required; the zero value of
// everything else is the default.
type Config struct {
	// Client reads and writes ServiceCIDRs and reads IPAddresses: a clientset's
	// NetworkingV1().
	Client informer.Client
	// View is one that somebody else runs, such as that of a MetaAllocator in the
	// same process. Without it the controller runs its own.
	View *informer.View
	// Managers are the managed-by labels of the addresses that block a deletion,
	// for a view of the controller's own; nil means informer.CoreManager and
	// informer.DefaultManager. With View, its own Managers hold.
	Managers []string

	// GracePeriod is the least time between a deletion and the finalizer's
	// removal; 0 means DefaultGracePeriod. It must be longer than the freshness
	// lease of every allocator in the cluster.
	GracePeriod time.Duration
	// FieldManager owns the Ready condition; empty means DefaultFieldManager.
	FieldManager string
	// PageSize is how many IPAddresses one consistent list reads at once; 0
	// means DefaultPageSize.
	PageSize int64
	// Workers is how many ServiceCIDRs are worked on at once; 0 means
	// DefaultWorkers.
	Workers int

	// Recorder gets the events; nil means none.
	Recorder events.EventRecorder
	// MetricsPrefix is put before the names of all metrics; empty means
	// DefaultMetricsPrefix.
	MetricsPrefix string
	// Clock is for the grace period and all pauses; nil means the real one.
	Clock clock.WithTicker
}

func (c *Config) complete() error {
	switch {
	case c.Client == nil:
		return fmt.Errorf("%w: Client is nil: give a clientset's NetworkingV1()", ErrInvalidConfig)
	case c.GracePeriod < 0:
		return fmt.Errorf("%w: GracePeriod %v is negative: leave it 0 for %v", ErrInvalidConfig, c.GracePeriod, DefaultGracePeriod)
	case c.PageSize < 0:
		return fmt.Errorf("%w: PageSize %d is negative: leave it 0 for %d", ErrInvalidConfig, c.PageSize, DefaultPageSize)
	case c.Workers < 0:
		return fmt.Errorf("%w: Workers %d is negative: leave it 0 for %d", ErrInvalidConfig, c.Workers, DefaultWorkers)
	case c.View != nil && c.Managers != nil:
		return fmt.Errorf("%w: Managers beside View: the view's own Managers hold", ErrInvalidConfig)
	}
	if c.GracePeriod == 0 {
		c.GracePeriod = DefaultGracePeriod
	}
	if c.FieldManager == "" {
		c.FieldManager = DefaultFieldManager
	}
	if c.PageSize == 0 {
		c.PageSize = DefaultPageSize
	}
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if c.MetricsPrefix == "" {
		c.MetricsPrefix = DefaultMetricsPrefix
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}
