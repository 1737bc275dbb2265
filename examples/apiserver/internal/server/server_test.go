// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
	"github.com/metacidr/metacidr/informer"
)

func web(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}}}
	for _, f := range change {
		f(svc)
	}
	return svc
}

// One server for what needs no other.
func TestServer(t *testing.T) {
	o := testOptions(t)
	o.GracePeriod = 100 * time.Millisecond
	o.TokenFile = filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(o.TokenFile, []byte("viewer-token,eve,eve,\"metacidr:viewers\"\nnobody-token,bob,bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, o)
	r.ready(t, "kubernetes")
	ctx := t.Context()

	t.Run("a ServiceCIDR has its finalizer from the first moment, and a namespace takes its Services along", func(t *testing.T) {
		cidr, err := r.client.NetworkingV1().ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "extra"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.97.0.0/24"}},
		}, metav1.CreateOptions{})
		if err != nil || !slices.Contains(cidr.Finalizers, informer.Finalizer) {
			t.Fatalf("%+v, %v", cidr, err)
		}
		r.ready(t, "extra")
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = r.client.CoreV1().Services("shop").Create(ctx, web("till", func(s *corev1.Service) { s.Spec.ClusterIP = "10.97.0.9" }), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.client.NetworkingV1().ServiceCIDRs().Delete(ctx, "extra", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the condition names the Service", func(ctx context.Context) error {
			s, err := r.client.NetworkingV1().ServiceCIDRs().Get(ctx, "extra", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(s.Status.Conditions) == 0 || !strings.Contains(s.Status.Conditions[0].Message, "shop/till") {
				return fmt.Errorf("%+v", s.Status)
			}
			return nil
		})
		if err := r.client.CoreV1().Namespaces().Delete(ctx, "shop", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the ServiceCIDR goes", func(ctx context.Context) error {
			_, err := r.client.NetworkingV1().ServiceCIDRs().Get(ctx, "extra", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(err, errors.New("still there"))
		})
		if _, err := r.client.CoreV1().Services("nowhere").Create(ctx, web("web"), metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a Service in no namespace: %v", err)
		}
	})
	t.Run("events are there to describe", func(t *testing.T) {
		eventually(t, "an event about the default ServiceCIDR or one that went", func(ctx context.Context) error {
			list, err := r.client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=ServiceCIDR"})
			if err == nil && len(list.Items) == 0 {
				err = errors.New("none")
			}
			return err
		})
	})
	t.Run("who may what", func(t *testing.T) {
		as := func(token string) kubernetes.Interface {
			config := rest.AnonymousClientConfig(r.config)
			config.BearerToken = token
			return kubernetes.NewForConfigOrDie(config)
		}
		for _, c := range []struct {
			token       string
			reads, writ func(error) bool
		}{
			{"", apierrors.IsUnauthorized, apierrors.IsUnauthorized},
			{"wrong", apierrors.IsUnauthorized, apierrors.IsUnauthorized},
			{"nobody-token", apierrors.IsForbidden, apierrors.IsForbidden},
			{"viewer-token", func(err error) bool { return err == nil }, apierrors.IsForbidden},
		} {
			client := as(c.token)
			if _, err := client.CoreV1().Services("").List(ctx, metav1.ListOptions{}); !c.reads(err) {
				t.Errorf("%q reads: %v", c.token, err)
			}
			if _, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, web("x"), metav1.CreateOptions{}); !c.writ(err) {
				t.Errorf("%q writes: %v", c.token, err)
			}
			if err := client.CoreV1().RESTClient().Get().AbsPath("/livez").Do(ctx).Error(); err != nil && c.token != "wrong" {
				t.Errorf("%q, /livez: %v", c.token, err)
			}
		}
		if err := as("nobody-token").CoreV1().RESTClient().Get().AbsPath("/metrics").Do(ctx).Error(); !apierrors.IsForbidden(err) {
			t.Errorf("metrics: %v", err)
		}
	})
	if faults, err := audit.Now(ctx, r.client); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

// Data, keys and the admin's token survive a restart.
func TestServer_SurvivesARestart(t *testing.T) {
	o := testOptions(t)
	r := startReplica(t, o)
	r.ready(t, "kubernetes")
	made, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), web("web"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, ca := r.config.BearerToken, string(r.config.CAData)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	again := startReplica(t, o)
	svc, err := again.client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || svc.UID != made.UID || svc.Spec.ClusterIP != made.Spec.ClusterIP {
		t.Errorf("%+v, %v", svc, err)
	}
	if again.config.BearerToken != token || string(again.config.CAData) != ca {
		t.Error("other keys than before")
	}
	for _, f := range []string{"admin.kubeconfig", "admin.token", "apiserver.pem"} {
		info, err := os.Stat(filepath.Join(o.DataDir, f))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
}

// A client with a certificate is known by its common name and organizations; one of another CA is not taken.
func TestServer_ClientCertificates(t *testing.T) {
	o := testOptions(t)
	ca := newAuthority(t)
	o.ClientCAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(o.ClientCAFile, ca.pem, 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, o)
	as := func(a authority, groups ...string) kubernetes.Interface {
		config := rest.AnonymousClientConfig(r.config)
		config.CertData, config.KeyData = a.sign(t, "eve", groups)
		return kubernetes.NewForConfigOrDie(config)
	}
	reads := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
		return err
	}
	writes := func(client kubernetes.Interface) error {
		_, err := client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), web("x"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	if err := reads(as(ca)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "\"eve\"") {
		t.Errorf("without a group: %v, want Forbidden, and the name", err)
	}
	if viewer := as(ca, ViewersGroup); reads(viewer) != nil || !apierrors.IsForbidden(writes(viewer)) {
		t.Errorf("a viewer: reads %v, writes %v", reads(viewer), writes(viewer))
	}
	if err := writes(as(ca, user.SystemPrivilegedGroup)); err != nil {
		t.Errorf("an admin: %v", err)
	}
	if err := reads(as(newAuthority(t), user.SystemPrivilegedGroup)); !apierrors.IsUnauthorized(err) {
		t.Errorf("of another CA: %v, want Unauthorized", err)
	}
	if err := writes(r.client); err != nil {
		t.Errorf("the admin's token: %v", err)
	}
}

// authority signs client certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	cert := must[*x509.Certificate](t)(certutil.NewSelfSignedCACert(certutil.Config{CommonName: "ca"}, key))
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: cert.Raw})}
}

func (a authority) sign(t *testing.T, name string, groups []string) (cert, key []byte) {
	t.Helper()
	private := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: groups}, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key))
	der := must[[]byte](t)(x509.MarshalECPrivateKey(private))
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: raw}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// Three replicas on one etcd never give one address twice, into a range that is full in the end.
func TestI1_ThreeReplicas(t *testing.T) {
	etcd, err := StartEtcd(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	var replicas []*replica
	for range 3 {
		o := testOptions(t)
		o.EtcdServers, o.ServiceClusterIPRange = []string{etcd.Endpoint}, "10.96.0.0/25"
		replicas = append(replicas, startReplica(t, o))
	}
	for _, r := range replicas {
		r.ready(t, "kubernetes")
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	made, full := 0, 0
	for w := range 12 {
		clients.Go(func() {
			for i := range 14 {
				_, err := replicas[w%3].client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), web(fmt.Sprintf("web-%d-%d", w, i)), metav1.CreateOptions{})
				mu.Lock()
				switch {
				case err == nil:
					made++
				case strings.Contains(err.Error(), "full"):
					full++
				default:
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	// The Service kubernetes has one of the 126.
	if made != 125 || full != 12*14-125 {
		t.Errorf("%d made, %d refused since the range is full", made, full)
	}
	if faults, err := audit.Now(t.Context(), replicas[0].client); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}
