// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/weighting"
)

// Verification says how an address is confirmed after its IPAddress was created.
//
// A ServiceCIDR controller removes the finalizer of a deleted ServiceCIDR only
// after it has seen, in a consistent list, that no address depends on it. An
// address is safe if its create came before the deletion, so the allocator
// looks at the ServiceCIDR after the create: no deletionTimestamp then means
// none before.
//
// What "depends on it" means is the controller's decision. Kubernetes' own (read
// in v1.37.2) counts only addresses that bear informer.CoreManager, which are
// those of core Services: it lets a ServiceCIDR go while addresses of other
// owners are in it.
type Verification int

const (
	// VerifyStale, the default, skips that read while the freshness lease
	// holds: a consistent list of all ServiceCIDRs, made in the background,
	// that is younger than the lease. The lease must be shorter than the
	// controller's grace period, so only the rates of clocks are trusted.
	VerifyStale Verification = iota
	// VerifyAlways reads a covering ServiceCIDR after every create.
	VerifyAlways
	// VerifyNever trusts the view: an address may be left without a
	// ServiceCIDR if its CIDR is deleted at that moment.
	VerifyNever
)

// String is the name of the mode.
func (v Verification) String() string {
	switch v {
	case VerifyStale:
		return "stale"
	case VerifyAlways:
		return "always"
	case VerifyNever:
		return "never"
	}
	return fmt.Sprintf("Verification(%d)", int(v))
}

// DefaultLease is how long a consistent list vouches for its ServiceCIDRs. The
// grace period of ServiceCIDR controllers is 10 s.
const DefaultLease = 5 * time.Second

// Config is what a MetaAllocator works with. Client is required; the zero value
// of everything else is the default.
type Config struct {
	// Client reads and writes ServiceCIDRs and IPAddresses: a clientset's
	// NetworkingV1(). It should not be throttled on the client's side.
	Client informer.Client

	// ServiceCIDRs and IPAddresses are shared informers that somebody else
	// runs. Without them the allocator runs its own.
	ServiceCIDRs cache.SharedIndexInformer
	IPAddresses  cache.SharedIndexInformer

	// Manager is the managed-by label of addresses whose owner is not a core
	// Service; empty means informer.DefaultManager.
	Manager string
	// ServiceManager is the one for core Services; empty means
	// informer.CoreManager. Change it only where core's repair loop does not run.
	ServiceManager string

	// Strategy weighs the CIDRs; nil means weighting.ByFree.
	Strategy weighting.Strategy

	// Verification is how addresses are confirmed.
	Verification Verification
	// Lease is how long a consistent list of ServiceCIDRs vouches for them
	// under VerifyStale; 0 means DefaultLease. Keep it below the grace period
	// of the cluster's ServiceCIDR controller.
	Lease time.Duration
	// AllowWithoutFinalizer also allocates from ServiceCIDRs that bear no
	// finalizer yet. Their deletion waits for nobody, so an address can be
	// left without a ServiceCIDR. Meant for control planes without a
	// ServiceCIDR controller.
	AllowWithoutFinalizer bool

	// ReuseDelay is how long a freed address rests unless nothing else is
	// free; 0 means allocator.DefaultReuseDelay, less than 0 none.
	ReuseDelay time.Duration
	// HoldTimeout is how long an address stays reserved after its call when
	// the watch shows nothing of it; 0 means allocator.DefaultHoldTimeout.
	HoldTimeout time.Duration

	// MetricsPrefix is put before the names of all metrics; empty means
	// DefaultMetricsPrefix.
	MetricsPrefix string

	// Random is the source of all draws; nil means a generator with a seed of
	// the operating system's. Do not use it elsewhere.
	Random rand.Source
	// Clock is for leases, rests and durations; nil means the real one.
	Clock clock.WithTicker
}

func (c *Config) complete() error {
	if c.Client == nil {
		return fmt.Errorf("%w: Client is nil: give a clientset's NetworkingV1()", ErrInvalidConfig)
	}
	if c.Verification < VerifyStale || c.Verification > VerifyNever {
		return fmt.Errorf("%w: unknown Verification %d", ErrInvalidConfig, c.Verification)
	}
	if c.Lease < 0 {
		return fmt.Errorf("%w: Lease %v is negative; to read after every create use VerifyAlways", ErrInvalidConfig, c.Lease)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Manager == "" {
		c.Manager = informer.DefaultManager
	}
	if c.ServiceManager == "" {
		c.ServiceManager = informer.CoreManager
	}
	if c.Strategy == nil {
		c.Strategy = weighting.ByFree()
	}
	if c.MetricsPrefix == "" {
		c.MetricsPrefix = DefaultMetricsPrefix
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	return nil
}
