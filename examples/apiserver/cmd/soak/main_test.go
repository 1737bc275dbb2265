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
)

// A short run against the server as it is built from this checkout: two replicas, killed three times.
func TestSoak(t *testing.T) {
	server := filepath.Join(t.TempDir(), "metacidr-apiserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", server, "../metacidr-apiserver")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	err := run(t.Context(), []string{"--server=" + server, "--server-args=--leak-grace=2s", "--replicas=2", "--clients=16", "--keep=4",
		"--duration=6s", "--kill-every=2s", "--collection=1m", "--service-cluster-ip-range=10.96.0.0/24,fd00:96::/112"}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"was killed", "0 duplicates", "No duplicate, no leak, no orphan."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
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
	if err := run(t.Context(), []string{"--clients=0", "--server=none"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "more than 0") {
		t.Errorf("no clients: %v", err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if err := run(t.Context(), []string{"--server=" + missing, "--dir=" + t.TempDir()}, &bytes.Buffer{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("no server: %v", err)
	}
}
