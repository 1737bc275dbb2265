// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/transport"

	"github.com/metacidr/metacidr/cidr"
)

// Options are the flags.
type Options struct {
	// DataDir has etcd's data, the keys, the tokens and the admin's kubeconfig.
	DataDir string
	// BindAddress and Port are where the server listens; port 0 is any free one.
	BindAddress net.IP
	Port        int
	// ServiceClusterIPRange is one range, or two of different families, the preferred first.
	ServiceClusterIPRange string
	// EtcdServers are those of an etcd that runs elsewhere; none means the one inside.
	EtcdServers                           []string
	EtcdPrefix                            string
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// TLSCertFile and TLSKeyFile are the server's; without them it makes its own.
	TLSCertFile, TLSKeyFile string
	// ClientCAFile signs client certificates; TokenFile has lines token,user,uid,"group1,group2".
	ClientCAFile, TokenFile string

	// LeakGrace and GracePeriod are those of the controllers; 0 means their defaults.
	LeakGrace, GracePeriod time.Duration

	// decorate and wrapKV are between the server and etcd, for tests that let calls fail.
	decorate func(generic.RESTOptionsGetter) generic.RESTOptionsGetter
	wrapKV   func(clientv3.KV) clientv3.KV
	// wrapLoopback is between the allocator and the server that it is in, likewise.
	wrapLoopback transport.WrapperFunc
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{DataDir: "metacidr-data", BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443, ServiceClusterIPRange: "10.96.0.0/16", EtcdPrefix: "/metacidr"}
}

// AddFlags adds them.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.DataDir, "data-dir", o.DataDir, "folder of etcd's data, keys, tokens and the admin's kubeconfig (admin.kubeconfig)")
	flags.IPVar(&o.BindAddress, "bind-address", o.BindAddress, "address to listen on")
	flags.IntVar(&o.Port, "secure-port", o.Port, "port to listen on; 0 for any free one")
	flags.StringVar(&o.ServiceClusterIPRange, "service-cluster-ip-range", o.ServiceClusterIPRange, "range of the default ServiceCIDR, or two of different families, the preferred first, separated by a comma")
	flags.StringSliceVar(&o.EtcdServers, "etcd-servers", nil, "URLs of an etcd that runs elsewhere (default: one inside this process)")
	flags.StringVar(&o.EtcdPrefix, "etcd-prefix", o.EtcdPrefix, "prefix of all keys in etcd")
	flags.StringVar(&o.EtcdCAFile, "etcd-cafile", "", "CA of the etcd servers")
	flags.StringVar(&o.EtcdCertFile, "etcd-certfile", "", "client certificate for the etcd servers")
	flags.StringVar(&o.EtcdKeyFile, "etcd-keyfile", "", "key of the client certificate for the etcd servers")
	flags.StringVar(&o.TLSCertFile, "tls-cert-file", "", "certificate of the server (default: one of its own making, in the data folder)")
	flags.StringVar(&o.TLSKeyFile, "tls-private-key-file", "", "key of the certificate of the server")
	flags.StringVar(&o.ClientCAFile, "client-ca-file", "", "CA of client certificates; common name is the user, organizations are the groups")
	flags.StringVar(&o.TokenFile, "token-auth-file", "", "file with lines token,user,uid,\"group1,group2\", beside the admin's token that the server makes")
	flags.DurationVar(&o.LeakGrace, "leak-grace", 0, "for how long an IPAddress must have been seen unclaimed before it is collected (default 1m)")
	flags.DurationVar(&o.GracePeriod, "servicecidr-grace-period", 0, "least time between the deletion of a ServiceCIDR and its end (default 10s)")
}

// ErrInvalidOptions: a flag cannot be right. The message names it, and the remedy.
var ErrInvalidOptions = errors.New("invalid options")

// ranges parses the range flag.
func (o *Options) ranges() ([]cidr.Range, []corev1.IPFamily, error) {
	var all []cidr.Range
	var families []corev1.IPFamily
	for _, s := range strings.Split(o.ServiceClusterIPRange, ",") {
		r, err := cidr.Parse(strings.TrimSpace(s))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: --service-cluster-ip-range: %w", ErrInvalidOptions, err)
		}
		if r.Size().IsZero() {
			return nil, nil, fmt.Errorf("%w: --service-cluster-ip-range: %s has no usable address: give a larger range", ErrInvalidOptions, r)
		}
		all, families = append(all, r), append(families, corev1.IPFamily(r.Family().String()))
	}
	if len(all) > 2 || len(all) == 2 && all[0].Family() == all[1].Family() {
		return nil, nil, fmt.Errorf("%w: --service-cluster-ip-range=%s: give one range, or two of different families", ErrInvalidOptions, o.ServiceClusterIPRange)
	}
	return all, families, nil
}

func (o *Options) validate() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, fmt.Errorf("%w: --data-dir is empty: name a folder", ErrInvalidOptions))
	}
	if o.Port < 0 || o.Port > 65535 {
		errs = append(errs, fmt.Errorf("%w: --secure-port=%d: give 1 to 65535, or 0 for any free one", ErrInvalidOptions, o.Port))
	}
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, fmt.Errorf("%w: --tls-cert-file and --tls-private-key-file go together: give both or neither", ErrInvalidOptions))
	}
	if _, _, err := o.ranges(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (o *Options) file(name string) string { return filepath.Join(o.DataDir, name) }
