// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

const (
	// minInterval is the least time between two syncs of one ServiceCIDR: a
	// thousand addresses that go in a second cost one.
	minInterval = time.Second
	// maxBackoff bounds the pause after failures.
	maxBackoff = time.Minute
)

// schedule says which ServiceCIDR is due. Whoever asks for one, and however
// often, it comes no sooner than minInterval after its last turn began, and no
// sooner than its backoff after it failed.
type schedule struct {
	clock   clock.WithTicker
	backoff workqueue.TypedRateLimiter[string]

	mu        sync.Mutex // guards what follows
	queue     workqueue.TypedDelayingInterface[string]
	notBefore map[string]time.Time
	addresses bool // a ServiceCIDR is terminating: addresses matter
}

func newSchedule(c clock.WithTicker) *schedule {
	return &schedule{
		clock:     c,
		backoff:   workqueue.NewTypedItemExponentialFailureRateLimiter[string](minInterval, maxBackoff),
		notBefore: make(map[string]time.Time),
	}
}

// open starts the queue; its owner shuts it down.
func (s *schedule) open() workqueue.TypedDelayingInterface[string] {
	q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: s.clock})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = q
	return q
}

// add plans a turn as early as may be.
func (s *schedule) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.AddAfter(name, s.notBefore[name].Sub(s.clock.Now()))
}

// next waits for a turn and begins it.
func (s *schedule) next() (name string, ok bool) {
	for {
		name, shutdown := s.queue.Get()
		if shutdown {
			return "", false
		}
		if s.begin(name) {
			return name, true
		}
		s.queue.Done(name)
	}
}

// begin begins a turn unless it was planned before a failure put it off.
func (s *schedule) begin(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if early := s.notBefore[name].Sub(now); early > 0 {
		s.queue.AddAfter(name, early)
		return false
	}
	s.notBefore[name] = now.Add(minInterval)
	return true
}

// done ends a turn.
func (s *schedule) done(name string) { s.queue.Done(name) }

// succeeded plans the turn that a sync asked for, if any.
func (s *schedule) succeeded(name string, after time.Duration) {
	s.backoff.Forget(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if after > 0 {
		s.queue.AddAfter(name, max(after, s.notBefore[name].Sub(s.clock.Now())))
	}
}

// failed plans another turn, and returns the pause before it: at least what the
// API server asks for.
func (s *schedule) failed(name string, err error) time.Duration {
	pause := s.backoff.When(name)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBefore[name] = s.clock.Now().Add(pause)
	s.queue.AddAfter(name, pause)
	return pause
}

// forget drops what is remembered of a name that is gone.
func (s *schedule) forget(name string) {
	s.backoff.Forget(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.notBefore, name)
}

// watchAddresses says whether changes of addresses matter at all.
func (s *schedule) watchAddresses(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = yes
}

func (s *schedule) watchesAddresses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addresses
}
