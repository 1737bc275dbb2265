// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// patience is far beyond what any wait here takes; it ends a test that hangs.
const patience = 3 * time.Minute

// cluster is a control plane, upstream's ServiceCIDR controller, and a client.
type cluster struct {
	*controlplane.ControlPlane
	client *kubernetes.Clientset
}

func startCluster(t *testing.T, ranges string) *cluster {
	t.Helper()
	cp := controlplane.ForTest(t, controlplane.Config{ServiceClusterIPRange: ranges})
	config := cp.RESTConfig()
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := controlplane.RunServiceCIDRController(quiet(), cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	c := &cluster{cp, client}
	c.eventually(t, "the default ServiceCIDR is ready", func(ctx context.Context) error {
		s, err := client.NetworkingV1().ServiceCIDRs().Get(ctx, renumber.DefaultServiceCIDR, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Finalizers) == 0 {
			return errors.New("no finalizer yet")
		}
		_, err = client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
	return c
}

func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// eventually looks until there is no error.
func (c *cluster) eventually(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// restart is what the operator does at a hand-over.
func (c *cluster) restart(t *testing.T, ranges []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := c.RestartAPIServer(ctx, func(config *controlplane.Config) { config.ServiceClusterIPRange = strings.Join(ranges, ",") })
	if err != nil {
		t.Errorf("restarting kube-apiserver: %v", err)
	}
}

// plan makes one.
func (c *cluster) plan(t *testing.T, req renumber.Request) *renumber.Plan {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	world, err := renumber.ReadWorld(ctx, c.client)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := renumber.Make(world, req, renumber.MakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range plan.Blockers() {
		t.Errorf("%s %s: %s (%s)", f.Code, f.Object, f.Message, f.Remedy)
	}
	return plan
}

// journal is a local and a cluster one of the plan.
func (c *cluster) journal(t *testing.T, plan *renumber.Plan) renumber.Both {
	t.Helper()
	local := renumber.NewFileJournal(t.TempDir())
	t.Cleanup(func() {
		if err := local.Close(); err != nil {
			t.Error(err)
		}
	})
	return renumber.Both{Local: local, Cluster: renumber.NewClusterJournal(c.client.CoreV1(), metav1.NamespaceSystem, plan.Name)}
}

// run carries a plan out; the test restarts the API server when that is asked for.
func (c *cluster) run(t *testing.T, plan *renumber.Plan, journal, undone renumber.Journal, change ...func(*renumber.Config)) error {
	t.Helper()
	var restarts sync.WaitGroup
	defer restarts.Wait()
	var once sync.Map
	cfg := renumber.Config{
		API: renumber.NewAPI(c.client), Plan: plan, Journal: journal, Undone: undone,
		MaxInFlight: 8, BatchSize: 50, HandOverTimeout: patience, Poll: 200 * time.Millisecond,
		Observe: func(e renumber.Event) {
			if e.Entry != nil && (e.Entry.Type == renumber.StepBegun || e.Entry.Type == renumber.Told || e.Entry.Type == renumber.Left) {
				t.Logf("%s step %d: %s", time.Now().Format(time.TimeOnly), e.Step.ID, e.Message)
			}
			if e.Entry == nil || e.Entry.Type != renumber.StepBegun || e.Step.Kind != renumber.HandOver {
				return
			}
			if _, done := once.LoadOrStore(e.Step.ID, true); !done {
				restarts.Go(func() { c.restart(t, e.Step.Ranges) })
			}
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	r, err := renumber.NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(quiet(), 10*time.Minute)
	defer cancel()
	return r.Run(ctx)
}

// services are all but the API server's own.
func (c *cluster) services(t *testing.T) map[string]*corev1.Service {
	t.Helper()
	list, err := c.client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*corev1.Service{}
	for i := range list.Items {
		if s := &list.Items[i]; s.Name != "kubernetes" {
			all[s.Namespace+"/"+s.Name] = s
		}
	}
	return all
}

// same compares every Service with its original.
func (c *cluster) same(t *testing.T, originals map[string]*corev1.Service, strategy renumber.Strategy, families bool) {
	t.Helper()
	now := c.services(t)
	wrong := 0
	for _, k := range slices.Sorted(maps.Keys(originals)) {
		if wrong > 10 {
			t.Fatal("and more")
		}
		got, o := now[k], originals[k]
		if got == nil {
			wrong++
			t.Errorf("Service %s is gone", k)
			continue
		}
		recreated := got.UID != o.UID
		if recreated && strategy == renumber.InPlace {
			wrong++
			t.Errorf("Service %s is another object", k)
		}
		if d := renumber.SameService(got, o, recreated, families); len(d) > 0 {
			wrong++
			t.Errorf("Service %s differs: %s", k, strings.Join(d, "; "))
		}
	}
	if len(now) != len(originals) {
		t.Errorf("%d Services, and there were %d", len(now), len(originals))
	}
}

// only checks that the default ServiceCIDR has these ranges, that there is no other, and that
// no address is outside of them.
func (c *cluster) only(t *testing.T, ranges ...string) {
	t.Helper()
	c.eventually(t, "only the default ServiceCIDR is left", func(ctx context.Context) error {
		list, err := c.client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 || !slices.Equal(list.Items[0].Spec.CIDRs, ranges) {
			return fmt.Errorf("ServiceCIDRs %v", list.Items)
		}
		return nil
	})
	left, err := renumber.FindLeftovers(t.Context(), renumber.NewAPI(c.client), &renumber.Target{Leave: []string{"0.0.0.0/0", "::/0"}, Stay: ranges})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		t.Errorf("outside of %v: %s", ranges, l)
	}
}

// namespace makes one.
func (c *cluster) namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// populate makes n Services of every class in turn, all optional fields set, in a
// namespace of their own.
func (c *cluster) populate(t *testing.T, namespace string, n int, dual bool) {
	t.Helper()
	c.namespace(t, namespace)
	classes := classes(dual)
	work := make(chan int)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for i := range work {
				class := classes[i%len(classes)]
				svc := class.service(namespace, fmt.Sprintf("%s-%d", class.name, i), int32(i))
				if err := c.create(t.Context(), svc, class.balanced); err != nil {
					t.Errorf("%s: %v", svc.Name, err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (c *cluster) create(ctx context.Context, svc *corev1.Service, balanced bool) error {
	made, err := c.client.CoreV1().Services(svc.Namespace).Create(ctx, svc, metav1.CreateOptions{FieldManager: "kubectl-create"})
	if err != nil || !balanced {
		return err
	}
	made.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.7", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	_, err = c.client.CoreV1().Services(svc.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{FieldManager: "service-controller"})
	return err
}

type class struct {
	name     string
	balanced bool
	service  func(namespace, name string, i int32) *corev1.Service
}

// classes are all that a cluster may have.
func classes(dual bool) []class {
	base := func(change func(s *corev1.Service, i int32)) func(string, string, int32) *corev1.Service {
		return func(namespace, name string, i int32) *corev1.Service {
			s := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"example.com/note": "a note on " + name}},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{
					{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP, AppProtocol: ptr.To("http")},
					{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
				}},
			}
			if change != nil {
				change(s, i)
			}
			return s
		}
	}
	all := []class{
		{name: "cluster-ip", service: base(nil)},
		{name: "node-port", service: base(func(s *corev1.Service, _ int32) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
		})},
		{name: "headless", service: base(func(s *corev1.Service, _ int32) { s.Spec.ClusterIP = corev1.ClusterIPNone })},
		{name: "external", service: base(func(s *corev1.Service, _ int32) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
		})},
		{name: "balanced", balanced: true, service: base(func(s *corev1.Service, _ int32) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
			s.Spec.LoadBalancerClass, s.Spec.LoadBalancerSourceRanges = ptr.To("example.com/lb"), []string{"192.0.2.0/24"}
		})},
		{name: "no-node-ports", balanced: true, service: base(func(s *corev1.Service, _ int32) {
			s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, ptr.To(false)
			s.Spec.Ports = s.Spec.Ports[:1]
		})},
		{name: "finalized", service: base(func(s *corev1.Service, _ int32) { s.Finalizers = []string{"example.com/hold"} })},
		{name: "owned", service: base(func(s *corev1.Service, _ int32) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "42", BlockOwnerDeletion: ptr.To(true)}}
		})},
		{name: "no-selector", service: base(func(s *corev1.Service, _ int32) { s.Spec.Selector = nil })},
		{name: "affine", service: base(func(s *corev1.Service, _ int32) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](77)}}
			s.Spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
			s.Spec.PublishNotReadyAddresses, s.Spec.ExternalIPs = true, []string{"192.0.2.9"}
			s.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
		})},
	}
	if dual {
		all = append(all,
			class{name: "dual", service: base(func(s *corev1.Service, _ int32) {
				s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
			})},
			class{name: "six", service: base(func(s *corev1.Service, _ int32) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })},
		)
	}
	return all
}
