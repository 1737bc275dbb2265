// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// kind is what a client did.
type kind string

const (
	creation kind = "create"
	change   kind = "change"
	deletion kind = "delete"
)

// tally counts. It is safe for concurrent use.
type tally struct {
	mu      sync.Mutex // guards both
	took    map[kind][]time.Duration
	retries map[string]int
}

func newTally() *tally { return &tally{took: map[kind][]time.Duration{}, retries: map[string]int{}} }

// done counts an operation, and how long the client waited for it, with all its tries.
func (t *tally) done(k kind, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.took[k] = append(t.took[k], took)
}

// retried counts a try that led to another.
func (t *tally) retried(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retries[reasonOf(err)]++
}

func (t *tally) operations() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, took := range t.took {
		n += len(took)
	}
	return n
}

// show prints the figures of a run that took so long.
func (t *tally) show(out io.Writer, run time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%-8s %9s %9s %10s %10s %10s\n", "", "done", "per s", "median", "p99", "longest")
	for _, k := range []kind{creation, change, deletion} {
		took := slices.Sorted(slices.Values(t.took[k]))
		if len(took) == 0 {
			continue
		}
		at := func(share float64) time.Duration {
			return took[min(len(took)-1, int(share*float64(len(took))))].Round(100 * time.Microsecond)
		}
		fmt.Fprintf(out, "%-8s %9d %9.0f %10s %10s %10s\n", k, len(took), float64(len(took))/run.Seconds(), at(0.5), at(0.99), at(1))
	}
	for _, reason := range slices.Sorted(maps.Keys(t.retries)) {
		fmt.Fprintf(out, "tried again after %q: %d times\n", reason, t.retries[reason])
	}
}

// reasonOf is a short name for an error, so that they can be counted.
func reasonOf(err error) string {
	var netErr net.Error
	switch {
	case apierrors.ReasonForError(err) != "":
		return string(apierrors.ReasonForError(err))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case errors.As(err, &netErr) && netErr.Timeout():
		return "no answer in time"
	}
	return "connection lost"
}
