// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestWhatTheCacheHoldsIsNotBuiltAgain(t *testing.T) {
	if _, err := Build(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	binaries, err := Build(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	if log.String() != "" {
		t.Errorf("the second call says %q; want it to find everything", log.String())
	}
	if filepath.Dir(binaries.Etcd) != filepath.Dir(binaries.APIServer) || !exists(binaries.Etcd) || !exists(binaries.APIServer) {
		t.Errorf("binaries %+v", binaries)
	}
}

func TestTheKeyDependsOnModuleToolchainAndFlags(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module a\n")
	write("go.sum", "")
	b := &builder{module: dir, flags: []string{"-trimpath"}}
	seen := map[string]string{}
	add := func(what string) {
		t.Helper()
		key, err := b.key(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", what, other)
		}
		seen[key] = what
	}
	add("the first")
	write("go.mod", "module b\n")
	add("another go.mod")
	write("go.sum", "x y z\n")
	add("another go.sum")
	b.flags = []string{"-trimpath", "-race"}
	add("other flags")
	t.Setenv("GOFLAGS", "-tags=x")
	add("another environment")
}

func TestTheKeyDoesNotDependOnTheOrderOfRequirements(t *testing.T) {
	before := requirements("module m\n\nrequire a.io/a v1.0.0\n\nrequire (\n\ta.io/b v1.0.0 // indirect\n\ta.io/c v1.0.0 // indirect\n)\n")
	after := requirements("module m\n\nrequire a.io/a v1.0.0\n\nrequire (\n\ta.io/c v1.0.0\n)\nrequire (\n\ta.io/b v1.0.0 // indirect\n)\n")
	if before != after {
		t.Errorf("%q and %q; want the same", before, after)
	}
	if other := requirements("module m\n\nrequire a.io/a v1.0.1\n"); other == requirements("module m\n\nrequire a.io/a v1.0.0\n") {
		t.Error("another version goes unnoticed")
	}
}

func TestBuildsOfOneKeyWaitForEachOtherAndCanBeCutShort(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	b, err := newBuilder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	unlock, err := b.lock(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error)
	go func() {
		_, err := Build(ctx, &log)
		result <- err
	}()
	eventually(t, "the second build waits", func(context.Context) error {
		if !strings.Contains(log.String(), "another process is building") {
			return errors.New(log.String())
		}
		return nil
	})
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("cut short it says %v; want context.Canceled", err)
	}
	if exists(filepath.Join(b.cache, string(Etcd))) {
		t.Error("a binary is there that nobody built")
	}
}

func TestAFailedBuildSaysWhyAndLeavesNothing(t *testing.T) {
	t.Setenv(CacheEnv, t.TempDir())
	b, err := newBuilder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	target := filepath.Join(t.TempDir(), "no-such-command")
	err = b.build(t.Context(), &log, moduleName+"/no-such-command", target)
	var failure *BuildError
	if !errors.As(err, &failure) || !strings.Contains(failure.Output, "no-such-command") {
		t.Errorf("got %v; want a BuildError with the go command's words", err)
	}
	if exists(target) || exists(target+".tmp") {
		t.Error("it leaves a file")
	}
}
