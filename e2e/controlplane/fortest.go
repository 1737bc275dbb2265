// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "testing"

// failureTailLines is how much of each log a failed test shows.
const failureTailLines = 60

// ForTest starts a control plane for the time of a test, and fails the test at once if
// that is not possible. When the test has ended, and after all cleanups that it
// registers later, the control plane is stopped; if the test failed, the ends of both
// logs are shown first.
func ForTest(t testing.TB, config Config) *ControlPlane {
	t.Helper()
	cp, err := Start(t.Context(), config)
	if err != nil {
		t.Fatalf("start a control plane: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, c := range []Component{Etcd, APIServer} {
				t.Logf("the end of the log of %s:\n%s", c, tail(cp.LogPath(c), 0, failureTailLines))
			}
		}
		if err := cp.Stop(); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	return cp
}
