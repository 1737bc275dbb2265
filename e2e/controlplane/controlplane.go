// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"k8s.io/client-go/rest"
)

const (
	defaultServiceCIDR = "kubernetes" // the name under which kube-apiserver stores its flags' ranges
	adminUser          = "admin"
	adminGroup         = "system:masters"
)

// ControlPlane is a running etcd and kube-apiserver. Make one with [Start] or
// [ForTest]. Its methods may be called from several goroutines, and while a component
// is down; those that start and stop one component are best called from one goroutine
// at a time, as the order decides.
type ControlPlane struct {
	dir        *folder
	kubeconfig string
	fsync      bool

	ca    *authority
	token string // of the admin

	etcdPort, peerPort, apiPort port
	etcdClient, apiClient       *http.Client // for readiness checks
	etcd, apiServer             *component

	mu     sync.Mutex // guards what follows
	config Config     // of the latest successful start of kube-apiserver

	stop    sync.Once
	stopErr error
}

// Start builds the components if the cache lacks them, starts both, and returns when
// the control plane is ready in the sense of [ControlPlane.WaitReady] and has made its
// own Service kubernetes. ctx bounds that wait alone: the control plane lives until
// [ControlPlane.Stop]. If Start fails, nothing is left running; of a temporary folder
// the logs stay until the next Start on the machine.
//
// Errors: [*ConfigError], [*BuildError], [*ComponentError], [ErrInUse].
func Start(ctx context.Context, config Config) (*ControlPlane, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	binaries, err := Build(ctx, config.Log)
	if err != nil {
		return nil, err
	}
	cp, err := prepare(config, binaries)
	if err != nil {
		return nil, err
	}
	if err := cp.startAll(ctx); err != nil {
		cp.dir.keepLogs = true
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) startAll(ctx context.Context) error {
	if err := cp.StartEtcd(ctx); err != nil {
		return err
	}
	if err := cp.StartAPIServer(ctx); err != nil {
		return err
	}
	return cp.settled(ctx)
}

// prepare makes the folder, the keys and the ports. It starts no process.
func prepare(config Config, binaries Binaries) (_ *ControlPlane, err error) {
	cp := &ControlPlane{config: config, fsync: config.Fsync, token: rand.Text()}
	if cp.dir, err = openFolder(config.Dir); err != nil {
		return nil, err
	}
	reserved := []*port{&cp.etcdPort, &cp.peerPort, &cp.apiPort}
	for i, p := range reserved {
		if *p, err = reservePort(); err != nil {
			for _, q := range reserved[:i] {
				q.release()
			}
			return nil, errors.Join(err, cp.dir.close())
		}
	}
	cp.kubeconfig = cp.dir.join("kubeconfig")
	cp.etcd = &component{name: Etcd, binary: binaries.Etcd, logPath: cp.dir.join(string(Etcd) + ".log")}
	cp.apiServer = &component{name: APIServer, binary: binaries.APIServer, logPath: cp.dir.join(string(APIServer) + ".log")}
	if err := cp.writeFiles(); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	return cp, nil
}

// writeFiles stores keys, tokens and the kubeconfig, new at each start.
func (cp *ControlPlane) writeFiles() error {
	if err := os.MkdirAll(cp.dir.join("pki"), 0o700); err != nil {
		return fmt.Errorf("store keys: %w", err)
	}
	var err error
	if cp.ca, err = newAuthority(); err != nil {
		return err
	}
	etcd, err := cp.ca.issue("etcd", nil, nil)
	if err != nil {
		return err
	}
	client, err := cp.ca.issue("etcd-client", nil, nil)
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	serviceAccounts, err := encodeKey(key)
	if err != nil {
		return err
	}
	tokens := fmt.Sprintf("%s,%s,%s,%s\n", cp.token, adminUser, adminUser, adminGroup)
	err = errors.Join(
		os.WriteFile(cp.dir.join("pki", "ca.crt"), cp.ca.pem, 0o600),
		etcd.write(cp.dir.join("pki", "etcd")),
		client.write(cp.dir.join("pki", "etcd-client")),
		os.WriteFile(cp.dir.join("pki", "service-account.key"), serviceAccounts, 0o600),
		os.WriteFile(cp.dir.join("pki", "tokens.csv"), []byte(tokens), 0o600),
	)
	if err != nil {
		return fmt.Errorf("store keys: %w", err)
	}
	if cp.etcdClient, err = cp.httpClient(&client); err != nil {
		return err
	}
	if cp.apiClient, err = cp.httpClient(nil); err != nil {
		return err
	}
	return writeKubeconfig(cp.kubeconfig, cp.RESTConfig())
}

// httpClient returns a client that keeps no connection: a check that follows a restart
// must not meet the old process's, and nothing may linger after Stop.
func (cp *ControlPlane) httpClient(p *pair) (*http.Client, error) {
	config, err := cp.ca.clientTLS(p)
	if err != nil {
		return nil, err
	}
	return newHTTPClient(config), nil
}

func newHTTPClient(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
}

// RESTConfig returns a new configuration for clients of the admin, without client-side
// rate limits.
func (cp *ControlPlane) RESTConfig() *rest.Config {
	return &rest.Config{
		Host:            cp.apiPort.url(),
		BearerToken:     cp.token,
		TLSClientConfig: rest.TLSClientConfig{CAData: append([]byte(nil), cp.ca.pem...)},
		QPS:             -1,
	}
}

// Kubeconfig returns the path of a kubeconfig of the admin, complete in itself.
func (cp *ControlPlane) Kubeconfig() string { return cp.kubeconfig }

// Dir returns the folder that holds data, keys, logs and the kubeconfig.
func (cp *ControlPlane) Dir() string { return cp.dir.path }

// PID returns the process id of the component, 0 while it does not run.
func (cp *ControlPlane) PID(c Component) int {
	if p := cp.component(c).current(); p != nil && p.alive() {
		return p.handle.Pid
	}
	return 0
}

// Ended waits until ctx ends, and returns nil, or until a component ends by itself, and
// returns a [*ComponentError]. It is for those who do not restart components.
func (cp *ControlPlane) Ended(ctx context.Context) error {
	etcd, apiServer := cp.etcd.current(), cp.apiServer.current()
	select {
	case <-ctx.Done():
		return nil
	case <-etcd.done:
		return cp.etcd.failure(etcd, fmt.Errorf("ended by itself (%v)", etcd.state))
	case <-apiServer.done:
		return cp.apiServer.failure(apiServer, fmt.Errorf("ended by itself (%v)", apiServer.state))
	}
}

// Stop ends both components, kube-apiserver first, each with SIGTERM and after ten
// seconds, or two if the folder is a temporary one, SIGKILL; waits for them, releases
// the ports and removes a temporary folder. Only the first call does anything; all
// return its error.
func (cp *ControlPlane) Stop() error {
	cp.stop.Do(func() {
		grace := stopGrace
		if cp.dir.temp {
			grace = discardGrace
		}
		cp.apiServer.close(grace)
		cp.etcd.close(grace)
		for _, p := range []port{cp.etcdPort, cp.peerPort, cp.apiPort} {
			p.release()
		}
		if err := cp.dir.close(); err != nil {
			cp.stopErr = fmt.Errorf("stop the control plane: remove its folder: %w", err)
		}
	})
	return cp.stopErr
}

func (cp *ControlPlane) component(c Component) *component {
	switch c {
	case Etcd:
		return cp.etcd
	case APIServer:
		return cp.apiServer
	}
	panic(fmt.Sprintf("controlplane: no component %q, only %q and %q", c, Etcd, APIServer))
}

// get checks that a GET of url is answered with 200.
func get(ctx context.Context, client *http.Client, url, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
}
