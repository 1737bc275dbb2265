// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/examples/apiserver/internal/allocation"
	generatedopenapi "github.com/metacidr/metacidr/examples/apiserver/internal/openapi"
	"github.com/metacidr/metacidr/examples/apiserver/internal/scheme"
	"github.com/metacidr/metacidr/examples/apiserver/internal/storage"
	"github.com/metacidr/metacidr/lifecycle/repair"
)

// Version is that of the Kubernetes API that is served.
const Version = "1.37"

// Server is an API server that is ready to run. Make it with New, Run it once.
type Server struct {
	options    *Options
	etcd       *Etcd // nil if it runs elsewhere
	etcdClient *clientv3.Client
	generic    *genericapiserver.GenericAPIServer
	control    *control
	running    sync.WaitGroup // the controllers

	// Address is where it listens, and Kubeconfig the path of the admin's.
	Address    string
	Kubeconfig string
}

// New prepares a server: it starts etcd, takes the port and writes the admin's kubeconfig. Nothing is served before Run.
// Errors: ErrInvalidOptions, or what could not be made.
func New(ctx context.Context, o *Options) (_ *Server, err error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return nil, err
	}
	o.DataDir = dir
	if err := os.MkdirAll(o.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made: %w: give another --data-dir", err)
	}
	s := &Server{options: o, Kubeconfig: o.file("admin.kubeconfig")}
	defer func() {
		if err != nil {
			s.closeEtcd()
		}
	}()
	servers := o.EtcdServers
	if len(servers) == 0 {
		if s.etcd, err = StartEtcd(ctx, o.file("etcd")); err != nil {
			return nil, err
		}
		servers = []string{s.etcd.Endpoint}
	}
	if s.etcdClient, err = etcdClient(o, servers); err != nil {
		return nil, err
	}
	if o.wrapKV != nil {
		s.etcdClient.KV = o.wrapKV(s.etcdClient.KV)
	}
	set := scheme.New()
	config := genericapiserver.NewConfig(set.Codecs)
	config.EffectiveVersion = newServedVersion()
	config.FeatureGate = utilfeature.DefaultFeatureGate
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(set.Scheme))
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(set.Scheme))
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "metacidr-apiserver", "metacidr-apiserver"
	config.EnableProfiling = false
	// A write that is given up after half of the grace period cannot meet the collection of what it has allocated.
	config.RequestTimeout = repair.DefaultLeakGrace / 2
	// Served below, together with ours.
	config.EnableMetrics = false
	if err := s.secure(config); err != nil {
		return nil, err
	}
	if err := store(config, o, servers, set); err != nil {
		return nil, err
	}
	if s.control, err = newControl(o, rest.CopyConfig(config.LoopbackClientConfig)); err != nil {
		return nil, err
	}
	if s.generic, err = config.Complete(nil).New("metacidr-apiserver", genericapiserver.NewEmptyDelegate()); err != nil {
		return nil, err
	}
	return s, s.install(set, config)
}

// secure sets TLS, authentication and authorization, and takes the port.
func (s *Server) secure(config *genericapiserver.Config) error {
	o := s.options
	cert, key, token, err := ownKeys(o)
	if err != nil {
		return fmt.Errorf("the server's keys: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(o.BindAddress.String(), strconv.Itoa(o.Port)))
	if err != nil {
		return fmt.Errorf("the port cannot be taken: %w: give another --secure-port or --bind-address", err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	s.Address = listener.Addr().String()
	serving := options.NewSecureServingOptions()
	serving.BindAddress, serving.BindPort, serving.Listener = o.BindAddress, port, listener
	if o.TLSCertFile != "" {
		serving.ServerCert.CertKey = options.CertKey{CertFile: o.TLSCertFile, KeyFile: o.TLSKeyFile}
	} else {
		provider, err := dynamiccertificates.NewStaticCertKeyContent("apiserver", cert, key)
		if err != nil {
			return err
		}
		serving.ServerCert.GeneratedCert = provider
	}
	if err := serving.WithLoopback().ApplyTo(&config.SecureServing, &config.LoopbackClientConfig); err != nil {
		return err
	}
	var clientCAs *x509.CertPool
	if o.ClientCAFile != "" {
		ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", o.ClientCAFile)
		if err != nil {
			return fmt.Errorf("--client-ca-file: %w", err)
		}
		config.SecureServing.ClientCA = ca
		verify, _ := ca.VerifyOptions()
		clientCAs = verify.Roots
	}
	if config.Authentication.Authenticator, err = authentication(o, token, clientCAs); err != nil {
		return err
	}
	if config.Authorization.Authorizer, err = authorization(); err != nil {
		return err
	}
	// The loopback client has a token of its own.
	genericapiserver.AuthorizeClientBearerToken(config.LoopbackClientConfig, &config.Authentication, &config.Authorization)
	return writeKubeconfig(s.Kubeconfig, o.BindAddress, port, cert, token)
}

// store has objects kept in etcd, as JSON of their v1 types.
func store(config *genericapiserver.Config, o *Options, servers []string, set scheme.Set) error {
	backend := storagebackend.NewDefaultConfig(o.EtcdPrefix, set.Codecs.LegacyCodec(scheme.Versions()...))
	backend.Transport.ServerList = servers
	backend.Transport.TrustedCAFile, backend.Transport.CertFile, backend.Transport.KeyFile = o.EtcdCAFile, o.EtcdCertFile, o.EtcdKeyFile
	if err := options.NewEtcdOptions(backend).ApplyTo(config); err != nil {
		return err
	}
	if o.decorate != nil {
		config.RESTOptionsGetter = o.decorate(config.RESTOptionsGetter)
	}
	return nil
}

// install adds what is served, and what runs inside.
func (s *Server) install(set scheme.Set, config *genericapiserver.Config) error {
	_, families, err := s.options.ranges()
	if err != nil {
		return err
	}
	seed, err := randomSource()
	if err != nil {
		return err
	}
	ports := allocation.NewPorts(s.etcdClient, s.options.EtcdPrefix+".nodeports", seed, clock.RealClock{})
	core, named, err := storage.Groups(set, config.RESTOptionsGetter, clock.RealClock{}, storage.Services{Addresses: s.control.addresses, Ports: ports, Families: families})
	if err != nil {
		return err
	}
	if err := s.generic.InstallLegacyAPIGroup(genericapiserver.DefaultLegacyAPIPrefix, core); err != nil {
		return err
	}
	if err := s.generic.InstallAPIGroups(named...); err != nil {
		return err
	}
	metrics.Register()
	registry := prometheus.NewRegistry()
	for _, c := range s.control.collectors() {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	s.generic.Handler.NonGoRestfulMux.Handle("/metrics", promhttp.HandlerFor(
		prometheus.Gatherers{legacyregistry.DefaultGatherer, registry}, promhttp.HandlerOpts{}))
	if err := s.generic.AddReadyzChecks(s.control.checks()...); err != nil {
		return err
	}
	return s.generic.AddPostStartHook("metacidr", func(hook genericapiserver.PostStartHookContext) error {
		s.running.Go(func() { s.control.run(hook.Context, ports) })
		return nil
	})
}

// Run serves until ctx is done, and then ends in order: requests in flight first, the controllers, etcd.
func (s *Server) Run(ctx context.Context) error {
	defer s.closeEtcd()
	err := s.generic.PrepareRun().RunWithContext(ctx)
	s.running.Wait()
	return err
}

func (s *Server) closeEtcd() {
	if s.etcdClient != nil {
		_ = s.etcdClient.Close()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
}

// randomSource is seeded by the system.
func randomSource() (mathrand.Source, error) {
	var seed [16]byte
	if _, err := rand.Read(seed[:]); err != nil {
		return nil, err
	}
	return mathrand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])), nil
}

var errNotYet = errors.New("not yet")

// check is a readiness check by a function.
func check(name string, ready func() error) healthz.HealthChecker {
	return healthz.NamedCheck(name, func(*http.Request) error { return ready() })
}
