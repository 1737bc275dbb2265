// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Etcd is an etcd in this process. Stop it.
type Etcd struct {
	etcd    *embed.Etcd
	sockets string
	// Endpoint is its URL.
	Endpoint string
}

// StartEtcd starts one with its data in dir, and waits until it serves.
func StartEtcd(ctx context.Context, dir string) (_ *Etcd, err error) {
	// The name of a Unix socket has room for about 100 bytes: a temporary folder is short, and only its owner may enter.
	sockets, err := os.MkdirTemp("", "metacidr")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(sockets)
		}
	}()
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer")}
	config := embed.NewConfig()
	config.Name, config.Dir = "metacidr", dir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls = []url.URL{peer}
	// The peers' URL is stored, and another one at the next start is an error: one that nobody listens on will do for
	// a single member.
	config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "metacidr.invalid:2380"}}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.AutoCompactionMode, config.AutoCompactionRetention = "periodic", "5m"
	e, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("the embedded etcd does not start with its data in %s: %w", dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		e.Close()
		return nil, fmt.Errorf("the embedded etcd ended: %w", err)
	case <-ctx.Done():
		e.Close()
		return nil, ctx.Err()
	}
	return &Etcd{etcd: e, sockets: sockets, Endpoint: client.String()}, nil
}

// Stop stops it, and waits.
func (e *Etcd) Stop() {
	e.etcd.Close()
	_ = os.RemoveAll(e.sockets)
}

// etcdClient is for what is no object: node ports.
func etcdClient(o *Options, servers []string) (*clientv3.Client, error) {
	config := clientv3.Config{Endpoints: servers, Logger: zap.NewNop()}
	if o.EtcdCAFile != "" || o.EtcdCertFile != "" {
		tls, err := transport.TLSInfo{TrustedCAFile: o.EtcdCAFile, CertFile: o.EtcdCertFile, KeyFile: o.EtcdKeyFile}.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("the keys for etcd cannot be used: %w", err)
		}
		config.TLS = tls
	}
	return clientv3.New(config)
}
