// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/metacidr/metacidr/e2e/controlplane"
)

const (
	// patience is far beyond what any wait here takes.
	patience     = 100 * time.Second
	pollInterval = 50 * time.Millisecond
)

// startServers starts both with the given service ranges. They end with the test.
func startServers(t *testing.T, ranges string) (kube, ours kubernetes.Interface) {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: ranges})
	cp2 := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: ranges})
	return clientFor(t, cp.RESTConfig()), clientFor(t, cp2.RESTConfig())
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
