// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script starts a shell script and returns when it has written "up".
func script(t *testing.T, text string) (*Process, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := Start("/bin/sh", log, "-c", text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	for {
		data, err := os.ReadFile(path)
		if err != nil || t.Context().Err() != nil {
			t.Fatal(err, t.Context().Err())
		}
		if strings.Contains(string(data), "up") {
			return p, path
		}
		if p.State() != nil {
			t.Fatalf("it ended with %s: %s", p.State(), data)
		}
	}
}

func TestEnd_Asks(t *testing.T) {
	p, _ := script(t, "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done")
	if p.State() != nil {
		t.Error("it has ended already")
	}
	if err := p.End(time.Minute); err != nil {
		t.Error(err)
	}
	if !p.State().Success() {
		t.Errorf("it ended with %s", p.State())
	}
}

func TestEnd_TellsOfAFailure(t *testing.T) {
	p, _ := script(t, "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done")
	if err := p.End(time.Minute); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v, want exit status 3", err)
	}
}

func TestEnd_KillsAfterGrace(t *testing.T) {
	p, _ := script(t, "trap '' TERM; echo up; while :; do sleep 0.01; done")
	if err := p.End(time.Nanosecond); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("got %v, want that it was killed", err)
	}
	<-p.Done()
}

func TestStart_NoSuchProgram(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Start(missing, os.Stderr); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}
