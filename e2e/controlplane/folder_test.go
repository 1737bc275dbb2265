// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyAbandonedFoldersAreRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)

	living, err := openFolder("")
	if err != nil {
		t.Fatal(err)
	}
	defer living.close()
	dead, err := openFolder("")
	if err != nil {
		t.Fatal(err)
	}
	dead.lock.Close() // as the kernel does for a process that has ended
	foreign := filepath.Join(temp, "another-program")
	unowned := filepath.Join(temp, "metacidr-controlplane-being-made")
	for _, dir := range []string{foreign, unowned} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}

	removeAbandoned(temp)
	for path, want := range map[string]bool{living.path: true, dead.path: false, foreign: true, unowned: true} {
		if got := exists(path); got != want {
			t.Errorf("%s is there: %v; want %v", path, got, want)
		}
	}
}

func TestAFolderHasOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second owner gets %v; want ErrInUse", err)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	second, err := openFolder(dir)
	if err != nil {
		t.Fatalf("after the first gave it up: %v", err)
	}
	if err := second.close(); err != nil || !exists(dir) {
		t.Errorf("close: %v, there: %v; a named folder is kept", err, exists(dir))
	}
}
