// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"sync/atomic"
	"time"
)

// Option changes what the properties expect of the world around the allocator.
type Option func(*settings)

type settings struct {
	factory    Factory
	controller ControllerFactory
	lease      time.Duration
	cleanup    time.Duration
	actions    *atomic.Int64 // that were taken
}

// DefaultLease is for how long an allocator may trust a read of a ServiceCIDR.
const DefaultLease = 5 * time.Second

// DefaultCleanup is how long an allocator has to remove what failed calls left.
const DefaultCleanup = 3 * time.Minute

// WithController has the given ServiceCIDR controller act in place of
// ReferenceController: FinalizerSafety then tests both together.
func WithController(c ControllerFactory) Option { return func(s *settings) { s.controller = c } }

// WithLease sets for how long, by its own clock, the allocator may trust a read of a
// ServiceCIDR; 0 means not at all. It must be well below the grace period of the
// controller: see DefaultGrace. Without it DefaultLease.
func WithLease(d time.Duration) Option { return func(s *settings) { s.lease = d } }

// WithCleanup sets how long the allocator has to remove what failed calls left.
// Without it DefaultCleanup.
func WithCleanup(d time.Duration) Option { return func(s *settings) { s.cleanup = d } }

func newSettings(factory Factory, options []Option) settings {
	s := settings{factory: factory, controller: ReferenceController, lease: DefaultLease, cleanup: DefaultCleanup, actions: new(atomic.Int64)}
	for _, o := range options {
		o(&s)
	}
	return s
}

// slowestLease is the lease in the world's time, by the slowest clock.
func (s settings) slowestLease() time.Duration {
	return time.Duration(float64(s.lease)/slowest) + time.Millisecond
}
