// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// report stands between rapid and the test: rapid says how to run a failing case
// again, the property says what happened.
type report struct {
	testing.TB
	failure *Failure
	errors  []string
	failed  bool
}

func (r *report) Logf(string, ...any) {}
func (r *report) Log(...any)          {}
func (r *report) Errorf(f string, a ...any) {
	r.failed = true
	r.errors = append(r.errors, fmt.Sprintf(f, a...))
}
func (r *report) Error(a ...any)            { r.Errorf("%s", fmt.Sprint(a...)) }
func (r *report) Fail()                     { r.failed = true }
func (r *report) Failed() bool              { return r.failed }
func (r *report) FailNow()                  { r.failed = true; runtime.Goexit() }
func (r *report) Fatalf(f string, a ...any) { r.Errorf(f, a...); r.FailNow() }
func (r *report) Fatal(a ...any)            { r.Error(a...); r.FailNow() }

// hint is how rapid says that the case can be run again.
func (r *report) hint() string {
	again := regexp.MustCompile(`(?m)^To (?:try to )?reproduce.*$`)
	for _, e := range r.errors {
		if s := again.FindString(e); s != "" {
			return s
		}
	}
	return strings.Join(r.errors, "\n")
}

// watchdog ends a process whose bubble does not move. Time in a bubble passes only
// when every goroutine waits for time or for another of the bubble; one that waits
// for a mutex does neither.
func watchdog() *time.Timer {
	const patience = 2 * time.Minute
	return time.AfterFunc(patience, func() {
		buf := make([]byte, 1<<20)
		buf = buf[:runtime.Stack(buf, true)]
		panic("proptest: a case has not ended in " + patience.String() + ". Does the allocator hold a mutex across an API call, " +
			"and does another of its goroutines wait for that mutex? Then a slow call stops everything:\n\n" + string(buf))
	})
}
