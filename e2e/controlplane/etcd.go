// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "context"

// etcdQuota is in bytes; etcd's default of 2 GiB is too small for a million objects.
const etcdQuota = "8589934592"

// StartEtcd starts etcd on its old data and port, and returns when it is ready to
// serve. kube-apiserver, if it runs, then needs a moment to reconnect: see
// [ControlPlane.WaitReady]. Errors: [ErrRunning], [ErrStopped], [*ComponentError].
func (cp *ControlPlane) StartEtcd(ctx context.Context) error {
	p, err := cp.etcd.start(cp.etcdArgs())
	if err != nil {
		return err
	}
	return cp.etcd.await(ctx, p, func(ctx context.Context) error {
		return get(ctx, cp.etcdClient, cp.etcdPort.url()+"/readyz", "")
	})
}

// StopEtcd lets etcd end in order, kills it after ten seconds or at the end of ctx, and
// returns when it has ended. It does nothing if etcd does not run.
func (cp *ControlPlane) StopEtcd(ctx context.Context) { cp.etcd.stop(ctx) }

// KillEtcd ends etcd with SIGKILL and returns when it has ended. It does nothing if etcd
// does not run.
func (cp *ControlPlane) KillEtcd() { cp.etcd.kill() }

// RestartEtcd is StopEtcd followed by StartEtcd.
func (cp *ControlPlane) RestartEtcd(ctx context.Context) error {
	cp.StopEtcd(ctx)
	return cp.StartEtcd(ctx)
}

func (cp *ControlPlane) etcdArgs() []string {
	cert, key, ca := cp.dir.join("pki", "etcd.crt"), cp.dir.join("pki", "etcd.key"), cp.dir.join("pki", "ca.crt")
	args := []string{
		"--name=metacidr",
		"--data-dir=" + cp.dir.join("etcd"),
		"--listen-client-urls=" + cp.etcdPort.url(),
		"--advertise-client-urls=" + cp.etcdPort.url(),
		"--listen-peer-urls=" + cp.peerPort.url(),
		"--initial-advertise-peer-urls=" + cp.peerPort.url(),
		"--initial-cluster=metacidr=" + cp.peerPort.url(),
		"--socket-reuse-port=true",
		"--client-cert-auth=true", "--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + ca,
		"--peer-client-cert-auth=true", "--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca,
		"--quota-backend-bytes=" + etcdQuota,
		"--log-outputs=stderr",
		"--log-level=info",
	}
	if !cp.fsync {
		args = append(args, "--unsafe-no-fsync=true")
	}
	return args
}
