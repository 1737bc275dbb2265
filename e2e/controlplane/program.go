// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"path/filepath"
	"testing"
)

// ProgramForTest runs another program beside the control plane for the time of a test, with
// the care that the components get: its output goes to a log whose end a failed test shows,
// it is asked to end before it is killed, and it does not outlive this process. It returns
// when ready returns nil, and fails the test at once if that does not happen.
func ProgramForTest(t testing.TB, path string, args []string, ready func(context.Context) error) {
	t.Helper()
	c := &component{name: Component(filepath.Base(path)), binary: path, logPath: filepath.Join(t.TempDir(), "log")}
	p, err := c.start(args)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", c.name, tail(c.logPath, 0, failureTailLines))
		}
		c.close(stopGrace)
	})
	if err := c.await(t.Context(), p, ready); err != nil {
		t.Fatal(err)
	}
}
