// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server that has stopped has let go of its port, its data and its goroutines: the same again runs in its place.
func TestServer_StopsInOrder(t *testing.T) {
	o := testOptions(t)
	run := func() {
		t.Helper()
		r := startReplica(t, o)
		svc := port80("")
		svc.GenerateName = "web-"
		if _, err := r.client.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		// The test's own connections.
		r.close()
	}
	// The first server starts what the libraries keep for the whole process, such as the flush of healthz's log.
	run()
	before := goleak.IgnoreCurrent()
	run()
	err := goleak.Find(before,
		// Ends by itself, 3 s after a read that had to wait for the watch cache.
		goleak.IgnoreTopFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"))
	if err != nil {
		t.Error(err)
	}
}
