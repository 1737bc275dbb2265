// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real Kubernetes control plane, etcd and
// kube-apiserver, as child processes of a test or of a command. Both are built
// from their Go modules at the versions that e2e/go.mod names; nothing is
// downloaded as a binary and nothing needs to be installed.
//
//	Start ──► Build (cached) ──► folder, keys, ports ──► etcd ──► kube-apiserver ──► ready
//	                                                      ▲            ▲
//	 test ── Kill/Stop/Start/RestartEtcd ─────────────────┘            │
//	      ── Kill/Stop/Start/RestartAPIServer (new range, new flags) ──┘
//	      ── RESTConfig, Kubeconfig, Logs, GrepLogs
//	      ── RunServiceCIDRController (upstream's, in this process)
//	 Stop ──► SIGTERM, then SIGKILL ──► wait ──► folder removed
//
// In a test:
//
//	cp := controlplane.ForTest(t, controlplane.Config{})
//	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
//
// # Rules
//
//   - Everything listens on 127.0.0.1, with TLS, certificates of a CA made for
//     this one control plane and an admin token of the group system:masters.
//   - A control plane keeps its ports for as long as it lives, also while a
//     component is down: the ports are bound here, without listening, and the
//     components share them (SO_REUSEPORT). So there is no race for a port, and
//     existing clients reconnect after a restart.
//   - A component never outlives this process. On Linux the kernel kills it with
//     the process, whatever ends it (a panic, SIGKILL, a test time-out); elsewhere
//     only Stop does. The folder that such an end leaves is removed by the next
//     Start of the same user on the machine.
//   - Only processes that were started here are ever signalled.
//   - The context given to a Start or Restart method bounds the wait for
//     readiness, not the life of what was started.
//
// The package needs a Unix system and the go command.
package controlplane
