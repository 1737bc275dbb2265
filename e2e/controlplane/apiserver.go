// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
)

// StartAPIServer starts kube-apiserver on its old port, and returns when it is ready in
// the sense of [ControlPlane.WaitReady].
//
// Each change edits the Config that the latest successful start used. Heeded are
// ServiceClusterIPRange, ExtraAPIServerArgs and Verbosity. The changes are forgotten if
// the start fails. Errors: [ErrRunning], [ErrStopped], [*ConfigError],
// [*ComponentError]; a kube-apiserver that runs but is not ready is left running.
func (cp *ControlPlane) StartAPIServer(ctx context.Context, changes ...func(*Config)) error {
	config, err := cp.changed(changes)
	if err != nil {
		return err
	}
	return cp.startAPIServer(ctx, config)
}

func (cp *ControlPlane) startAPIServer(ctx context.Context, config Config) error {
	if err := cp.issueServingCert(config); err != nil {
		return err
	}
	p, err := cp.apiServer.start(cp.apiServerArgs(config))
	if err != nil {
		return err
	}
	if err := cp.apiServer.await(ctx, p, cp.ready); err != nil {
		return err
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.config = config
	return nil
}

// StopAPIServer lets kube-apiserver end in order, kills it after ten seconds or at the
// end of ctx, and returns when it has ended. It does nothing if it does not run.
func (cp *ControlPlane) StopAPIServer(ctx context.Context) { cp.apiServer.stop(ctx) }

// KillAPIServer ends kube-apiserver with SIGKILL and returns when it has ended. It does
// nothing if it does not run.
func (cp *ControlPlane) KillAPIServer() { cp.apiServer.kill() }

// RestartAPIServer is StopAPIServer followed by StartAPIServer, but changes that yield a
// [*ConfigError] stop nothing.
func (cp *ControlPlane) RestartAPIServer(ctx context.Context, changes ...func(*Config)) error {
	config, err := cp.changed(changes)
	if err != nil {
		return err
	}
	cp.StopAPIServer(ctx)
	return cp.startAPIServer(ctx, config)
}

// changed returns the config of the latest successful start with the changes made.
func (cp *ControlPlane) changed(changes []func(*Config)) (Config, error) {
	cp.mu.Lock()
	config := cp.config.withDefaults() // a copy
	cp.mu.Unlock()
	for _, change := range changes {
		change(&config)
	}
	config = config.withDefaults()
	return config, config.validate()
}

// WaitReady waits until kube-apiserver answers /readyz with ok, which it does only
// if etcd answers it, and the namespace default and the default ServiceCIDR
// kubernetes exist, so that a Service can be made. Errors: [*ComponentError] if it has
// ended, or is not ready at the end of ctx or after two minutes.
func (cp *ControlPlane) WaitReady(ctx context.Context) error {
	p := cp.apiServer.current()
	if p == nil {
		return fmt.Errorf("%s was never started", APIServer)
	}
	return cp.apiServer.await(ctx, p, cp.ready)
}

func (cp *ControlPlane) ready(ctx context.Context) error {
	return cp.exist(ctx,
		"/readyz",
		"/apis/networking.k8s.io/v1/servicecidrs/"+defaultServiceCIDR,
		"/api/v1/namespaces/default")
}

// settled waits for the last thing that a fresh kube-apiserver makes by itself: its own
// Service. From then on only the user of the control plane takes addresses. It is no
// part of WaitReady: a renumbering deletes that Service on purpose.
func (cp *ControlPlane) settled(ctx context.Context) error {
	return cp.apiServer.await(ctx, cp.apiServer.current(), func(ctx context.Context) error {
		return cp.exist(ctx, "/api/v1/namespaces/default/services/kubernetes")
	})
}

// exist checks that a GET of each path succeeds.
func (cp *ControlPlane) exist(ctx context.Context, paths ...string) error {
	for _, path := range paths {
		if err := get(ctx, cp.apiClient, cp.apiPort.url()+path, cp.token); err != nil {
			return err
		}
	}
	return nil
}

func (cp *ControlPlane) apiServerArgs(config Config) []string {
	pki := func(name string) string { return cp.dir.join("pki", name) }
	base := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(cp.apiPort.number),
		"--permit-port-sharing=true",
		"--endpoint-reconciler-type=none", // an Endpoints object refuses loopback addresses
		// Without it the server waits up to a minute for watches that nobody ends.
		"--shutdown-watch-termination-grace-period=1s",
		"--tls-cert-file=" + pki("kube-apiserver.crt"),
		"--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--cert-dir=" + cp.dir.join("pki"),

		"--etcd-servers=" + cp.etcdPort.url(),
		"--etcd-cafile=" + pki("ca.crt"),
		"--etcd-certfile=" + pki("etcd-client.crt"),
		"--etcd-keyfile=" + pki("etcd-client.key"),

		"--token-auth-file=" + pki("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + pki("service-account.key"),
		"--service-account-signing-key-file=" + pki("service-account.key"),
		"--disable-admission-plugins=ServiceAccount", // no controller makes them here

		"--service-cluster-ip-range=" + config.ServiceClusterIPRange,
		"--v=" + strconv.Itoa(config.Verbosity),
	}
	return override(base, config.ExtraAPIServerArgs)
}

// issueServingCert writes a serving certificate that names the first address of each
// service range: the one of the Service kubernetes.
func (cp *ControlPlane) issueServingCert(config Config) error {
	prefixes, err := config.prefixes()
	if err != nil {
		return err
	}
	var first []netip.Addr
	for _, p := range prefixes {
		if addr := p.Addr().Next(); p.Contains(addr) {
			first = append(first, addr)
		}
	}
	names := []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	cert, err := cp.ca.issue(string(APIServer), names, first)
	if err != nil {
		return err
	}
	if err := cert.write(cp.dir.join("pki", string(APIServer))); err != nil {
		return fmt.Errorf("store the certificate of %s: %w", APIServer, err)
	}
	return nil
}
