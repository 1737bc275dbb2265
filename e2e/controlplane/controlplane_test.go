// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestAFreshControlPlaneServesServiceCIDRsIPAddressesAndServices(t *testing.T) {
	t.Parallel()
	cp := ForTest(t, Config{})
	client, ctx := newClient(t, cp), t.Context()

	created, err := client.NetworkingV1().ServiceCIDRs().Create(ctx, newServiceCIDR("extra", "192.168.64.0/24"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, "extra", metav1.GetOptions{})
	if err != nil || read.UID != created.UID || !reflect.DeepEqual(read.Spec, created.Spec) {
		t.Errorf("ServiceCIDR read back: %+v, %v; want %+v", read, err, created)
	}

	address, err := client.NetworkingV1().IPAddresses().Create(ctx, newIPAddress("192.168.64.7"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gotAddress, err := client.NetworkingV1().IPAddresses().Get(ctx, "192.168.64.7", metav1.GetOptions{})
	if err != nil || gotAddress.UID != address.UID {
		t.Errorf("IPAddress read back: %+v, %v; want %+v", gotAddress, err, address)
	}

	dual := newService("dual")
	policy := corev1.IPFamilyPolicyRequireDualStack
	dual.Spec.IPFamilyPolicy = &policy
	service, err := client.CoreV1().Services("default").Create(ctx, dual, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	prefixes, err := Config{}.withDefaults().prefixes()
	if err != nil {
		t.Fatal(err)
	}
	if len(service.Spec.ClusterIPs) != len(prefixes) {
		t.Fatalf("the Service has the addresses %v; want one of each of %v", service.Spec.ClusterIPs, prefixes)
	}
	extra := netip.MustParsePrefix("192.168.64.0/24") // kube-apiserver may allocate from it by now
	for i, ip := range service.Spec.ClusterIPs {
		if addr, err := netip.ParseAddr(ip); err != nil || !prefixes[i].Contains(addr) && (i > 0 || !extra.Contains(addr)) {
			t.Errorf("address %q, %v; want one of %s", ip, err, prefixes[i])
		}
		if _, err := client.NetworkingV1().IPAddresses().Get(ctx, ip, metav1.GetOptions{}); err != nil {
			t.Errorf("the IPAddress of the Service: %v", err)
		}
	}
}

func TestTheKubeconfigIsCompleteAndOfTheAdmin(t *testing.T) {
	cp := ForTest(t, Config{})
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	want := cp.RESTConfig()
	if config.Host != want.Host || config.BearerToken != want.BearerToken || string(config.CAData) != string(want.CAData) {
		t.Errorf("the kubeconfig says %v; want %v", config, want)
	}
	info, err := os.Stat(cp.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the kubeconfig bears a token and has mode %v; want it readable by the owner alone", info.Mode())
	}

	want.CAData[0]++
	want.Host = "https://changed"
	if again := cp.RESTConfig(); again.Host == want.Host || again.CAData[0] == want.CAData[0] {
		t.Error("a change of one RESTConfig shows in the next")
	}
	if cp.RESTConfig().QPS >= 0 {
		t.Errorf("QPS %v; want no client-side limit, a negative number", cp.RESTConfig().QPS)
	}
	anonymous := rest.AnonymousClientConfig(cp.RESTConfig())
	client, err := rest.HTTPClientFor(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if err := get(t.Context(), client, cp.RESTConfig().Host+"/api/v1/namespaces/default", ""); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a client without the token got %v; want 403", err)
	}
}

func TestDataOutliveAKilledEtcd(t *testing.T) {
	t.Parallel()
	cp := ForTest(t, Config{})
	client, ctx := newClient(t, cp), t.Context()
	before, err := client.NetworkingV1().IPAddresses().Create(ctx, newIPAddress("10.96.9.9"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	old := cp.PID(Etcd)
	cp.KillEtcd()
	if alive(old) || cp.PID(Etcd) != 0 {
		t.Errorf("etcd still runs as %d, %d after KillEtcd", old, cp.PID(Etcd))
	}
	if err := cp.StartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := cp.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}

	after, err := client.NetworkingV1().IPAddresses().Get(ctx, "10.96.9.9", metav1.GetOptions{})
	if err != nil || after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("after the crash: %+v, %v; want %+v", after, err, before)
	}
	if err := cp.StartEtcd(ctx); !errors.Is(err, ErrRunning) {
		t.Errorf("a second start says %v; want ErrRunning", err)
	}

	// In order, too.
	if err := cp.RestartEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the IPAddress after an ordinary restart", func(ctx context.Context) error {
		_, err := client.NetworkingV1().IPAddresses().Get(ctx, "10.96.9.9", metav1.GetOptions{})
		return err
	})
}

func TestTheAPIServerRestartsWithAnotherRangeAndFlags(t *testing.T) {
	t.Parallel()
	cp := ForTest(t, Config{ServiceClusterIPRange: "10.112.0.0/24"})
	client, ctx := newClient(t, cp), t.Context()
	if got := defaultCIDRs(t, cp); !reflect.DeepEqual(got, []string{"10.112.0.0/24"}) {
		t.Fatalf("the default ServiceCIDR has %v", got)
	}

	// A watch that nobody ends, such as an informer's, does not keep it from ending in order.
	watch, err := client.CoreV1().Services("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	old := cp.apiServer.current()
	err = cp.RestartAPIServer(ctx, func(c *Config) {
		c.ServiceClusterIPRange = "10.112.0.0/24,fd00:112::/112"
		c.ExtraAPIServerArgs = append(c.ExtraAPIServerArgs, "--event-ttl=7m")
		c.Verbosity = 1 // kube-apiserver then logs its flags
	})
	if err != nil {
		t.Fatal(err)
	}

	if old.alive() || !old.state.Success() {
		t.Errorf("the old process: alive %v, %v; want it ended in order", old.alive(), old.state)
	}

	// The same client reaches it: the port and the CA are the same.
	eventually(t, "the second family in the default ServiceCIDR", func(ctx context.Context) error {
		c, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, defaultServiceCIDR, metav1.GetOptions{})
		if err == nil && len(c.Spec.CIDRs) != 2 {
			err = fmt.Errorf("it has %v", c.Spec.CIDRs)
		}
		return err
	})
	if lines := cp.GrepLogs(APIServer, regexp.MustCompile(`FLAG: --event-ttl="7m`)); len(lines) != 1 {
		t.Errorf("the log has %d lines about the new flag; want 1: %q", len(lines), lines)
	}

	// The certificate names the first address of the new range.
	conn, err := tls.Dial("tcp", cp.apiPort.String(), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // only its names are read
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"127.0.0.1", "localhost", "kubernetes.default.svc", "10.112.0.1", "fd00:112::1"} {
		if err := conn.ConnectionState().PeerCertificates[0].VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}

	// A change that is refused stops nothing.
	pid := cp.PID(APIServer)
	var refusal *ConfigError
	if err := cp.RestartAPIServer(ctx, func(c *Config) { c.ServiceClusterIPRange = "x" }); !errors.As(err, &refusal) || cp.PID(APIServer) != pid {
		t.Errorf("restart with an unusable range: %v, process %d; want a ConfigError and process %d", err, cp.PID(APIServer), pid)
	}

	// A start that fails is forgotten: the next one uses the config from before it.
	err = cp.RestartAPIServer(ctx, func(c *Config) { c.ExtraAPIServerArgs = []string{"--no-such-flag"} })
	var failure *ComponentError
	if !errors.As(err, &failure) {
		t.Fatalf("restart with an unknown flag: %v; want a ComponentError", err)
	}
	if strings.Contains(failure.LogTail, "event-ttl") {
		t.Errorf("the tail shows earlier runs:\n%s", failure.LogTail)
	}
	if err := cp.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if lines := cp.GrepLogs(APIServer, regexp.MustCompile(`FLAG: --event-ttl="7m`)); len(lines) != 2 {
		t.Errorf("the log has %d lines about the flag; want one more than before: %q", len(lines), lines)
	}

	cp.KillAPIServer()
	if err := cp.WaitReady(ctx); !errors.As(err, &failure) {
		t.Errorf("WaitReady on a killed API server says %v; want a ComponentError at once", err)
	}
}

func defaultCIDRs(t *testing.T, cp *ControlPlane) []string {
	t.Helper()
	c, err := newClient(t, cp).NetworkingV1().ServiceCIDRs().Get(t.Context(), defaultServiceCIDR, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.Spec.CIDRs
}

func TestTwoControlPlanesSideBySideAreIndependent(t *testing.T) {
	a := ForTest(t, Config{ServiceClusterIPRange: "10.1.0.0/24"})
	b := ForTest(t, Config{ServiceClusterIPRange: "10.1.0.0/24"})
	ctx := t.Context()
	service := newService("same")
	service.Spec.ClusterIP = "10.1.0.99"
	for _, cp := range []*ControlPlane{a, b} {
		if _, err := newClient(t, cp).CoreV1().Services("default").Create(ctx, service.DeepCopy(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := get(ctx, a.apiClient, a.apiPort.url()+"/version", b.token); err == nil {
		t.Error("one takes the other's token")
	}

	left := traceOf(a)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	left.mustBeGone(t)
	if err := b.WaitReady(ctx); err != nil {
		t.Errorf("the other suffers: %v", err)
	}
	if _, err := newClient(t, b).CoreV1().Services("default").Get(ctx, "same", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestAStoppedControlPlaneStaysStopped(t *testing.T) {
	cp := ForTest(t, Config{})
	left, ctx := traceOf(cp), t.Context()
	if !left.runs() || !exists(left.dir) {
		t.Fatal("the test does not see a running control plane")
	}
	if err := errors.Join(cp.Stop(), cp.Stop()); err != nil {
		t.Fatal(err)
	}
	left.mustBeGone(t)
	if err := cp.StartEtcd(ctx); !errors.Is(err, ErrStopped) {
		t.Errorf("StartEtcd says %v; want ErrStopped", err)
	}
	if err := cp.etcdPort.tryListen(); err != nil {
		t.Errorf("its port is not free: %v", err)
	}
}

func TestANamedFolderIsKeptAndUsedAgainButByOneAtATime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cp")
	first, err := Start(t.Context(), Config{Dir: dir, Fsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Stop()
	made, err := newClient(t, first).NetworkingV1().IPAddresses().Create(t.Context(), newIPAddress("10.96.4.4"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one on the same folder says %v; want ErrInUse", err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}

	second := ForTest(t, Config{Dir: dir})
	found, err := newClient(t, second).NetworkingV1().IPAddresses().Get(t.Context(), "10.96.4.4", metav1.GetOptions{})
	if err != nil || found.UID != made.UID {
		t.Errorf("the second one finds %+v, %v; want %+v", found, err, made)
	}
	if first.Logs(APIServer) == "" {
		t.Error("the log of the first is gone")
	}
}

func TestAnUnusableFlagIsReportedWithTheEndOfTheLog(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp) // no other test's Start removes what this one leaves
	_, err := Start(t.Context(), Config{ExtraAPIServerArgs: []string{"--no-such-flag=1"}})
	var failure *ComponentError
	if !errors.As(err, &failure) {
		t.Fatalf("got %v; want a ComponentError", err)
	}
	if failure.Component != APIServer || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") ||
		!strings.Contains(err.Error(), failure.LogPath) {
		t.Errorf("the error is\n%v\nwant the component, its log's path and what it says of the flag", err)
	}

	// The logs can be read, nothing else is left, and the next Start removes them, too.
	left := trace{dir: filepath.Dir(failure.LogPath)}
	if left.runs() {
		t.Error("a process still runs")
	}
	files, err := filepath.Glob(filepath.Join(left.dir, "*"))
	want := []string{"etcd.log", "kube-apiserver.log", ownerFile}
	if err != nil || len(files) != len(want) {
		t.Errorf("files %q, %v; want %q", files, err, want)
	}
	for _, name := range want {
		if !exists(filepath.Join(left.dir, name)) {
			t.Errorf("%s is gone", name)
		}
	}
	removeAbandoned(temp)
	left.mustBeGone(t)
}

func TestEndedTellsOfAComponentThatEndsByItself(t *testing.T) {
	t.Parallel()
	cp := ForTest(t, Config{})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cp.Ended(cancelled); err != nil {
		t.Errorf("while both run: %v; want nil at the end of the context", err)
	}
	cp.KillEtcd()
	var failure *ComponentError
	if err := cp.Ended(t.Context()); !errors.As(err, &failure) || failure.Component != Etcd {
		t.Errorf("got %v; want a ComponentError of etcd", err)
	}
}
