// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Component names one of the two processes.
type Component string

// The components of a control plane.
const (
	Etcd      Component = "etcd"
	APIServer Component = "kube-apiserver"
)

const (
	pollInterval = 50 * time.Millisecond // between two readiness checks
	readyTimeout = 2 * time.Minute       // for a component to become ready, whatever the context allows
	stopGrace    = 10 * time.Second      // between SIGTERM and SIGKILL
	discardGrace = 2 * time.Second       // the same, where the data are thrown away anyhow
	tailLines    = 20                    // of a log, in an error
)

// component starts and stops one process, again and again. Its methods may be
// called from several goroutines.
type component struct {
	name    Component
	binary  string
	logPath string

	mu     sync.Mutex // guards what follows
	proc   *process   // the latest run; nil before the first
	closed bool       // no further run
}

// start forks a new run. It does not wait for readiness.
func (c *component) start(args []string) (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, fmt.Errorf("start %s: %w", c.name, ErrStopped)
	case c.proc != nil && c.proc.alive():
		return nil, fmt.Errorf("start %s: %w", c.name, ErrRunning)
	}
	log, err := os.OpenFile(c.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log: %w", c.name, err)
	}
	defer log.Close() // the child has its own
	info, err := log.Stat()
	if err != nil {
		return nil, fmt.Errorf("start %s: read its log's size: %w", c.name, err)
	}
	p, err := launch(c.binary, args, log, info.Size())
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	c.proc = p
	return p, nil
}

// current returns the latest run, nil if there was none.
func (c *component) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proc
}

// stop ends the current run, if any, gently first.
func (c *component) stop(ctx context.Context) {
	if p := c.current(); p != nil {
		p.terminate(ctx, stopGrace)
	}
}

// kill ends the current run, if any, at once.
func (c *component) kill() {
	if p := c.current(); p != nil {
		p.kill()
	}
}

// close ends the current run, if any, and forbids another.
func (c *component) close(grace time.Duration) {
	c.mu.Lock()
	c.closed = true
	p := c.proc
	c.mu.Unlock()
	if p != nil {
		p.terminate(context.Background(), grace)
	}
}

// await polls check until it passes, the process ends, or time is up.
func (c *component) await(ctx context.Context, p *process, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		if !p.alive() {
			return false, fmt.Errorf("ended before it was ready (%v)", p.state)
		}
		err := check(ctx)
		if err != nil && ctx.Err() == nil {
			last = err // more telling than the check that the end of the context cut
		}
		return err == nil, nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		if last != nil {
			err = fmt.Errorf("is not ready: %w; the last check said: %w", err, last)
		} else {
			err = fmt.Errorf("is not ready: %w", err)
		}
	}
	return c.failure(p, err)
}

// failure tells of err with the end of the log of the run p.
func (c *component) failure(p *process, err error) error {
	return &ComponentError{Component: c.name, LogPath: c.logPath, LogTail: tail(c.logPath, p.logOffset, tailLines), Err: err}
}
