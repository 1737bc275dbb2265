// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
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
	services := r.client.CoreV1().Services(metav1.NamespaceDefault)
	ctx := t.Context()

	t.Run("a Service is created, listed, watched, patched and deleted", func(t *testing.T) {
		watch, err := services.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=web"})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		made, err := services.Create(ctx, web("web"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if made.Spec.ClusterIP == "" || made.Spec.Type != corev1.ServiceTypeClusterIP || made.Spec.Ports[0].TargetPort.IntVal != 80 {
			t.Errorf("made %+v", made.Spec)
		}
		if e := <-watch.ResultChan(); e.Object.(*corev1.Service).UID != made.UID {
			t.Errorf("watched %v", e)
		}
		ip, err := r.client.NetworkingV1().IPAddresses().Get(ctx, made.Spec.ClusterIP, metav1.GetOptions{})
		if err != nil || ip.Spec.ParentRef.Name != "web" || ip.Labels[networkingv1.LabelManagedBy] != informer.CoreManager {
			t.Errorf("IPAddress %+v, %v", ip, err)
		}
		patched, err := services.Patch(ctx, "web", types.StrategicMergePatchType, []byte(`{"spec":{"ports":[{"port":81,"name":"alt"}]}}`), metav1.PatchOptions{})
		if err != nil || len(patched.Spec.Ports) != 2 || patched.Spec.ClusterIP != made.Spec.ClusterIP {
			t.Errorf("patched %+v, %v", patched, err)
		}
		if err := services.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.client.NetworkingV1().IPAddresses().Get(ctx, made.Spec.ClusterIP, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the address is still there: %v", err)
		}
	})
	t.Run("a dry run takes nothing", func(t *testing.T) {
		before := r.count(t)
		out, err := services.Create(ctx, web("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || out.Spec.ClusterIP == "" {
			t.Errorf("%+v, %v", out, err)
		}
		if after := r.count(t); after != before {
			t.Errorf("%d addresses, before %d", after, before)
		}
	})
	t.Run("two managers apply: each owns its fields, and a third conflicts", func(t *testing.T) {
		apply := func(manager string, port int32, label string) error {
			config := corev1apply.Service("applied", metav1.NamespaceDefault).WithLabels(map[string]string{label: manager})
			if port > 0 {
				config = config.WithSpec(corev1apply.ServiceSpec().WithSelector(map[string]string{"app": manager}).
					WithPorts(corev1apply.ServicePort().WithPort(port).WithProtocol(corev1.ProtocolTCP).WithName("http")))
			}
			_, err := services.Apply(ctx, config, metav1.ApplyOptions{FieldManager: manager})
			return err
		}
		for _, err := range []error{apply("one", 80, "a"), apply("two", 0, "b"), apply("one", 80, "a")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := apply("three", 80, "a"); !apierrors.IsConflict(err) {
			t.Errorf("%v: want a conflict on the selector and the label", err)
		}
	})
	t.Run("kubectl apply, by three ways, changes nothing the second time", func(t *testing.T) {
		manifest := web("three-way")
		manifest.APIVersion, manifest.Kind = "v1", "Service"
		raw, err := json.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		manifest.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(raw)}
		live, err := services.Create(ctx, manifest, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		if err != nil {
			t.Fatal(err)
		}
		modified, _ := json.Marshal(manifest)
		current, _ := json.Marshal(live)
		meta, err := strategicpatch.NewPatchMetaFromStruct(corev1.Service{})
		if err != nil {
			t.Fatal(err)
		}
		patch, err := strategicpatch.CreateThreeWayMergePatch(raw, modified, current, meta, true)
		if err != nil {
			t.Fatal(err)
		}
		again, err := services.Patch(ctx, "three-way", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil || again.ResourceVersion != live.ResourceVersion {
			t.Errorf("patch %s: %v, resourceVersion %s and then %s", patch, err, live.ResourceVersion, again.ResourceVersion)
		}
	})
	t.Run("the status is written by itself", func(t *testing.T) {
		svc, err := services.Create(ctx, web("balanced", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		svc.Spec.Ports[0].Port = 9999
		svc, err = services.UpdateStatus(ctx, svc, metav1.UpdateOptions{})
		if err != nil || len(svc.Status.LoadBalancer.Ingress) != 1 || svc.Spec.Ports[0].Port != 80 || svc.Spec.Ports[0].NodePort < FirstNodePort {
			t.Errorf("%+v, %v", svc, err)
		}
	})
	t.Run("a finalizer holds a Service, and its address", func(t *testing.T) {
		svc, err := services.Create(ctx, web("held", func(s *corev1.Service) { s.Finalizers = []string{"example.com/hold"} }), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := services.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.client.NetworkingV1().IPAddresses().Get(ctx, svc.Spec.ClusterIP, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := services.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.client.NetworkingV1().IPAddresses().Get(ctx, svc.Spec.ClusterIP, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the address is still there: %v", err)
		}
	})
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
	t.Run("what is served can be discovered and explained", func(t *testing.T) {
		lists, err := r.client.Discovery().ServerPreferredResources()
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, l := range lists {
			for _, res := range l.APIResources {
				names[res.Name] = true
			}
		}
		for _, want := range []string{"services", "namespaces", "events", "servicecidrs", "ipaddresses", "leases"} {
			if !names[want] {
				t.Errorf("%s is not discovered: %v", want, names)
			}
		}
		for _, path := range []string{"/openapi/v2", "/openapi/v3", "/openapi/v3/apis/networking.k8s.io/v1"} {
			raw, err := r.client.CoreV1().RESTClient().Get().AbsPath(path).DoRaw(ctx)
			if err != nil || len(raw) == 0 {
				t.Errorf("%s: %v", path, err)
			}
		}
		raw, err := r.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range []string{`kube_apiserver_clusterip_allocator_allocated_ips{cidr="10.96.0.0/24"}`, "metacidr_default_service_cidr_", "apiserver_request_total"} {
			if !strings.Contains(string(raw), metric) {
				t.Errorf("no metric %s", metric)
			}
		}
	})
	if faults, err := audit.Now(ctx, r.client); err != nil || len(faults) > 0 {
		t.Errorf("%v, %v", faults, err)
	}
}

// FirstNodePort is the first of kube-apiserver's default range.
const FirstNodePort = 30000

func (r *replica) count(t *testing.T) int {
	t.Helper()
	list, err := r.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
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

// A client with a certificate is known by its name and groups.
func TestServer_ClientCertificates(t *testing.T) {
	o := testOptions(t)
	ca, caKey, err := certutil.GenerateSelfSignedCertKey("ca", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = caKey
	o.ClientCAFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(o.ClientCAFile, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	r := startReplica(t, o)
	// A certificate of another CA is not taken; the admin's token still is.
	other, otherKey, err := certutil.GenerateSelfSignedCertKey("eve", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(r.config)
	config.CertData, config.KeyData = other, otherKey
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a certificate of another CA is taken")
	}
	if _, err := r.client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
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
