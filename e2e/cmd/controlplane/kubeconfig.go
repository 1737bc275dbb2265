// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/metacidr/metacidr/e2e/controlplane"
)

// checkTarget refuses a file that holds anything but a kubeconfig that an earlier run of
// this command left behind, so that nobody's own one is lost.
func checkTarget(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	config, err := clientcmd.LoadFromFile(path)
	if err == nil && len(config.Clusters) == 1 && config.Clusters[controlplane.KubeconfigName] != nil &&
		len(config.Contexts) == 1 && len(config.AuthInfos) == 1 {
		return nil
	}
	return fmt.Errorf("--kubeconfig=%s: the file is there and was not written by this command: name another one", path)
}

// publish copies the kubeconfig to where the user wants it, readable by the user alone.
func publish(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("--kubeconfig=%s: %w", to, err)
	}
	return nil
}
