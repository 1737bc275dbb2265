// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/metacidr/metacidr/e2e/controlplane"
)

const (
	// patience is far beyond what any wait here takes.
	patience     = 100 * time.Second
	pollInterval = 50 * time.Millisecond
	// module is that of the example server.
	module = "../../examples/apiserver"
)

// startServers starts both with the given service ranges. They end with the test.
func startServers(t *testing.T, ours, ranges string) (kubeClient, ourClient kubernetes.Interface) {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: ranges})
	return clientFor(t, cp.RESTConfig()), startOurs(t, ours, ranges)
}

// buildOurs builds metacidr-apiserver of this checkout, and returns its path.
func buildOurs(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "metacidr-apiserver")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/metacidr-apiserver")
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func startOurs(t *testing.T, path, ranges string) (client kubernetes.Interface) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"--data-dir=" + dir, "--bind-address=127.0.0.1", "--secure-port=0", "--service-cluster-ip-range=" + ranges}
	controlplane.ProgramForTest(t, path, args, func(ctx context.Context) error {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
		if err != nil {
			return err
		}
		client = clientFor(t, config)
		return client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return client
}

// clientFor makes a client without a limit of its own.
func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
