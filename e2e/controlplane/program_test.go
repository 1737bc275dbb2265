// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The program runs until the test ends, and no longer.
func TestProgramForTest(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	ended := filepath.Join(t.TempDir(), "ended")
	t.Run("inner", func(t *testing.T) {
		script := `trap 'touch "$2"; exit 0' TERM; touch "$1"; while :; do sleep 0.05; done`
		ProgramForTest(t, "/bin/sh", []string{"-c", script, "sh", mark, ended}, func(context.Context) error {
			_, err := os.Stat(mark)
			return err
		})
		if _, err := os.Stat(ended); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("it has ended, or: %v", err)
		}
	})
	if _, err := os.Stat(ended); err != nil {
		t.Errorf("it did not end in order: %v", err)
	}
}
