// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"time"

	"k8s.io/utils/clock"
)

// skewedClock is a replica's own clock: it started from another time and runs at
// another rate than the world's. Only rates may be trusted between replicas.
type skewedClock struct {
	clock.RealClock
	start time.Time // of the world
	skew  time.Duration
	rate  float64 // seconds of this clock in one of the world's
}

func newSkewedClock(skew time.Duration, rate float64) *skewedClock {
	return &skewedClock{start: time.Now(), skew: skew, rate: rate}
}

// world turns a duration of this clock into one of the world's.
func (c *skewedClock) world(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.rate)
}

func (c *skewedClock) Now() time.Time {
	return c.start.Add(c.skew + time.Duration(float64(time.Since(c.start))*c.rate))
}
func (c *skewedClock) Since(t time.Time) time.Duration        { return c.Now().Sub(t) }
func (c *skewedClock) Sleep(d time.Duration)                  { time.Sleep(c.world(d)) }
func (c *skewedClock) After(d time.Duration) <-chan time.Time { return time.After(c.world(d)) }
func (c *skewedClock) Tick(d time.Duration) <-chan time.Time  { return time.Tick(c.world(d)) }
func (c *skewedClock) NewTicker(d time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(max(1, c.world(d)))
}
func (c *skewedClock) NewTimer(d time.Duration) clock.Timer {
	return skewedTimer{c.RealClock.NewTimer(c.world(d)), c}
}
func (c *skewedClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return skewedTimer{c.RealClock.AfterFunc(c.world(d), f), c}
}

type skewedTimer struct {
	clock.Timer
	clock *skewedClock
}

func (t skewedTimer) Reset(d time.Duration) bool { return t.Timer.Reset(t.clock.world(d)) }
