// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one run of a component. It is reaped as soon as it ends.
type process struct {
	handle    *os.Process
	logOffset int64 // where its output begins in the component's log

	done  chan struct{}    // closed once it was reaped
	state *os.ProcessState // how it ended; to be read after done
}

// launch starts path with its output appended to log.
//
// The kernel ties the parent-death signal to the thread that forked, not to the
// whole parent: were that thread to end, the child would be killed. So one
// goroutine, locked to its thread, forks and then waits until the child has ended.
func launch(path string, args []string, log *os.File, logOffset int64) (*process, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr()

	p := &process{logOffset: logOffset, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		p.handle = cmd.Process
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // what it says is in ProcessState, too
		p.state = cmd.ProcessState
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// alive tells whether the process has not been reaped yet.
func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// terminate asks the process to end and kills it if it has not by the end of the
// grace time or of ctx, whichever comes first. It returns when it is reaped.
func (p *process) terminate(ctx context.Context, grace time.Duration) {
	_ = p.handle.Signal(syscall.SIGTERM) // fails only if it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	p.kill()
}

// kill ends the process at once and returns when it is reaped.
func (p *process) kill() {
	_ = p.handle.Signal(syscall.SIGKILL) // fails only if it has ended
	<-p.done
}
