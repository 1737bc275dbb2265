// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onReady calls ready once the command has said all that it says when it is up.
type onReady struct {
	bytes.Buffer
	ready func()
}

func (w *onReady) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(string(p), "kubectl get") {
		w.ready()
	}
	return n, err
}

func TestItRunsUntilInterruptedAndCleansUp(t *testing.T) {
	target := filepath.Join(t.TempDir(), "kubeconfig")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout onReady
	var dir string
	stdout.ready = func() {
		defer interrupt()
		if !strings.Contains(stdout.String(), target) {
			t.Errorf("the kubeconfig's path is not told:\n%s", stdout.String())
		}
		for field := range strings.FieldsSeq(stdout.String()) {
			if strings.HasSuffix(field, "etcd.log") {
				dir = filepath.Dir(field)
			}
		}
		config, err := clientcmd.BuildConfigFromFlags("", target)
		if err != nil {
			t.Error(err)
			return
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Error(err)
			return
		}
		cidr, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil || len(cidr.Spec.CIDRs) != 1 || cidr.Spec.CIDRs[0] != "10.112.0.0/24" {
			t.Errorf("the default ServiceCIDR is %v, %v; want the flag's range", cidr, err)
		}
	}
	cmd := newCommand()
	cmd.SetArgs([]string{"--service-cluster-ip-range=10.112.0.0/24", "--kubeconfig=" + target})
	cmd.SetOut(&stdout)
	cmd.SetErr(os.Stderr)
	if err := cmd.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{target, dir} {
		if _, err := os.Stat(path); path == "" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q is still there: %v", path, err)
		}
	}
}

func TestAForeignFileIsNotOverwritten(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "config")
	const content = "apiVersion: v1\nkind: Config\nclusters: [{name: production, cluster: {server: https://example.com}}]\n"
	if err := os.WriteFile(foreign, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), options{kubeconfig: foreign}, io.Discard, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("got %v; want a refusal that names the file", err)
	}
	if now, err := os.ReadFile(foreign); err != nil || string(now) != content {
		t.Errorf("the file now holds %q, %v", now, err)
	}
	for _, path := range []string{"", filepath.Join(t.TempDir(), "none")} {
		if err := checkTarget(path); err != nil {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestAnUnknownFlagPointsToTheHelp(t *testing.T) {
	cmd := newCommand()
	cmd.SetArgs([]string{"--nope"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "--help") {
		t.Errorf("got %v", err)
	}
}
