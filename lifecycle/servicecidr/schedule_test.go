// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// turns runs a schedule in a bubble, and gives the time from one turn to the next.
func turns(t *testing.T, test func(s *schedule, next func() time.Duration)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(clock.RealClock{})
		defer s.open().ShutDown()
		last := time.Now()
		test(s, func() time.Duration {
			name, ok := s.next()
			if !ok || name != "a" {
				t.Fatalf("next is %q, %v", name, ok)
			}
			passed := time.Since(last)
			last = time.Now()
			return passed
		})
	})
}

func TestSchedule_ATurnASecondAtMost(t *testing.T) {
	turns(t, func(s *schedule, next func() time.Duration) {
		for i := range 5 {
			for range 100 {
				s.add("a")
			}
			want := minInterval
			if i == 0 {
				want = 0
			}
			if got := next(); got != want {
				t.Errorf("turn %d came after %v", i, got)
			}
			s.add("a") // while it is worked on
			s.succeeded("a", 0)
			s.done("a")
		}
	})
}

// A change of the object that was told while its sync was failing asks for a
// turn before the failure puts it off: the pause is kept all the same.
func TestSchedule_AFailurePutsOffWhatWasPlannedBefore(t *testing.T) {
	turns(t, func(s *schedule, next func() time.Duration) {
		s.add("a")
		next()
		s.add("a")
		if pause := s.failed("a", simapi.TooManyRequests(30)); pause != 30*time.Second {
			t.Errorf("pause %v", pause)
		}
		s.done("a")
		s.add("a")
		if got := next(); got != 30*time.Second {
			t.Errorf("the next turn came after %v", got)
		}
	})
}

func TestSchedule_PausesGrowAndEnd(t *testing.T) {
	turns(t, func(s *schedule, next func() time.Duration) {
		s.add("a")
		next()
		for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			s.failed("a", errors.New("no"))
			s.done("a")
			if got := next(); got != want*time.Second {
				t.Errorf("the next turn came after %v, want %d s", got, want)
			}
		}
		s.succeeded("a", 5*time.Second)
		s.done("a")
		if got := next(); got != 5*time.Second {
			t.Errorf("the turn that was asked for came after %v", got)
		}
		s.failed("a", errors.New("no"))
		s.done("a")
		if got := next(); got != time.Second {
			t.Errorf("after a success the pause is %v", got)
		}
	})
}
