// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole walk, against the server as it is built from this checkout. Each step asserts what it says.
func TestDemo(t *testing.T) {
	server := filepath.Join(t.TempDir(), "metacidr-apiserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../metacidr-apiserver")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), []string{"--server=" + server}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"range is full", "┃", "Nothing is orphaned."} {
		if !strings.Contains(strings.ToLower(out.String()), strings.ToLower(want)) {
			t.Errorf("it does not show %q:\n%s", want, &out)
		}
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestRun_Refuses(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	if err := run(t.Context(), []string{"now"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "now") {
		t.Errorf("an argument: %v", err)
	}
	if err := run(t.Context(), []string{"--help"}, &bytes.Buffer{}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if err := run(t.Context(), []string{"--server=" + missing}, &bytes.Buffer{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("no server: %v", err)
	}
}
