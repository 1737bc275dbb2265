// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// patience is far beyond what anything here takes; it ends a test that hangs.
const patience = time.Minute

func newClient(t *testing.T, cp *ControlPlane) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// eventually waits for the condition; what it returned last is shown if it never held.
func eventually(t *testing.T, what string, condition func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = condition(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("%s: %v; the last look said: %v", what, err, last)
	}
}

func newIPAddress(address string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: address},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Group: "example.com", Resource: "gateways", Namespace: "default", Name: "g",
		}},
	}
}

func newServiceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

func newService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// trace is what a control plane could leave behind.
type trace struct {
	pids []int
	dir  string
}

func traceOf(cp *ControlPlane) trace {
	return trace{pids: []int{cp.PID(Etcd), cp.PID(APIServer)}, dir: cp.Dir()}
}

// runs tells whether one of the processes, or on Linux any other that names the folder in
// its command line, still runs.
func (tr trace) runs() bool {
	for _, pid := range tr.pids {
		if alive(pid) {
			return true
		}
	}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		if cmdline, err := os.ReadFile(path); err == nil && bytes.Contains(cmdline, []byte(tr.dir)) {
			return true
		}
	}
	return false
}

// alive tells whether the process exists and is more than a zombie, which a killed
// process whose new parent has not reaped it yet may be for good in a container.
func alive(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) || !exists("/proc/self")
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func (tr trace) mustBeGone(t *testing.T) {
	t.Helper()
	if tr.runs() {
		t.Errorf("a process of %v, or one that names %s, still runs", tr.pids, tr.dir)
	}
	if exists(tr.dir) {
		t.Errorf("folder %s is still there", tr.dir)
	}
}
