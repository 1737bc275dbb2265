// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// A panic outside the test's goroutine, a test time-out, SIGKILL: the hardest of these
// stands for all, since none of them runs any code of the owner.
func TestAKilledOwnerLeavesNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ties a child's life to its parent's")
	}
	temp := t.TempDir()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), crashEnv+"=1", "TMPDIR="+temp)
	owner.Stderr = os.Stderr
	if _, err := owner.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	left := trace{pids: make([]int, 2)}
	_, err = fmt.Fscanln(stdout, &left.pids[0], &left.pids[1], &left.dir)
	if err == nil && !left.runs() {
		err = errors.New("its processes are not seen")
	}
	_ = owner.Process.Kill()
	_, _ = io.Copy(io.Discard, stdout)
	_ = owner.Wait()
	if err != nil {
		t.Fatalf("the owner did not start a control plane: %v", err)
	}

	eventually(t, "the kernel ends the components", func(context.Context) error {
		if left.runs() {
			return fmt.Errorf("processes %v", left.pids)
		}
		return nil
	})
	if !exists(left.dir) {
		t.Fatal("the folder is gone already: the test no longer tests its removal")
	}
	removeAbandoned(temp)
	left.mustBeGone(t)
}

// The thread that forks lives as long as the process: else the kernel would take the
// thread's end for the parent's.
func TestAProcessOutlivesTheGoroutineThatLaunchedIt(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	launched := make(chan *process)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		p, err := launch("/bin/cat", []string{"/dev/zero"}, mustOpen(t, os.DevNull), 0)
		if err != nil {
			t.Error(err)
		}
		launched <- p
	}()
	p := <-launched
	if p == nil {
		return
	}
	for range 100 { // threads come and go
		done := make(chan struct{})
		go func() { runtime.LockOSThread(); close(done) }()
		<-done
	}
	if !p.alive() {
		t.Errorf("it ended: %v", p.state)
	}
	p.kill()
	if p.alive() {
		t.Error("it survived SIGKILL")
	}
}

func mustOpen(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestTerminateKillsWhatDoesNotHeedSIGTERM(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	log, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := launch("/bin/sh", []string{"-c", `trap '' TERM; echo ready; while :; do sleep 0.05; done`}, log, 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shell ignores SIGTERM", func(context.Context) error {
		if readFrom(out, 0) == "" {
			return errors.New("it has not said so yet")
		}
		return nil
	})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	p.terminate(cancelled, patience)
	if p.alive() || p.state.Success() {
		t.Errorf("alive %v, state %v; want it killed", p.alive(), p.state)
	}
}
