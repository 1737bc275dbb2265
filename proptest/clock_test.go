// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"testing"
	"testing/synctest"
	"time"
)

// A replica's clock has its own start and its own rate, in all that it measures.
func TestSkewedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		c := newSkewedClock(time.Hour, 0.8)
		if got := c.Now().Sub(begin); got != time.Hour {
			t.Errorf("it starts %v off", got)
		}
		mark := c.Now()
		time.Sleep(10 * time.Second)
		if got := c.Since(mark); got != 8*time.Second {
			t.Errorf("10 s are %v", got)
		}
		for name, wait := range map[string]func(){
			"Sleep":     func() { c.Sleep(8 * time.Second) },
			"After":     func() { <-c.After(8 * time.Second) },
			"Tick":      func() { <-c.Tick(8 * time.Second) },
			"NewTimer":  func() { <-c.NewTimer(8 * time.Second).C() },
			"NewTicker": func() { k := c.NewTicker(8 * time.Second); <-k.C(); k.Stop() },
			"Reset":     func() { k := c.NewTimer(time.Hour); k.Reset(8 * time.Second); <-k.C() },
			"AfterFunc": func() { ch := make(chan int); c.AfterFunc(8*time.Second, func() { close(ch) }); <-ch },
		} {
			begin := time.Now()
			if wait(); time.Since(begin) != 10*time.Second {
				t.Errorf("%s of 8 s took %v", name, time.Since(begin))
			}
		}
	})
}
