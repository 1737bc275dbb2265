// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a child. It is safe for concurrent use.
type Process struct {
	handle *os.Process
	done   chan struct{}
	state  *os.ProcessState // to be read after done
}

// Start starts a program that writes both its outputs to log.
func Start(path string, log *os.File, args ...string) (*Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr()
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	// The kernel watches over the thread that starts a child, so that goroutine keeps it until the child has ended.
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
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the number of the process.
func (p *Process) Pid() int { return p.handle.Pid }

// State tells how the process ended; nil while it runs.
func (p *Process) State() *os.ProcessState {
	select {
	case <-p.done:
		return p.state
	default:
		return nil
	}
}

// End asks the process to end, and kills it after grace. An end that was not in order is an error.
func (p *Process) End(grace time.Duration) error {
	_ = p.handle.Signal(syscall.SIGTERM) // fails only if it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
		return fmt.Errorf("it did not end within %s and was killed", grace)
	}
	if !p.state.Success() {
		return fmt.Errorf("it ended with %s", p.state)
	}
	return nil
}

// Kill ends the process with SIGKILL, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.handle.Kill() // fails only if it has ended
	<-p.done
}
