// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

const serviceCIDRFinalizer = "networking.k8s.io/service-cidr-finalizer"

// cluster is the simulated API server, and what a real one and its controllers do
// besides: it gives Services addresses and node ports, makes the default ServiceCIDR
// and Service kubernetes, and lets a terminating ServiceCIDR go when nothing is in it.
// It does the latter whenever a ServiceCIDR is read.
type cluster struct {
	*simapi.Client // the runner's
	admin          *simapi.Client
	server         *simapi.Server
	secrets        corev1client.SecretsGetter

	mu sync.Mutex
	// flags are --service-cluster-ip-range; next are those after the restart, which
	// the operator makes as soon as a runner asks.
	flags, next []string
	taken       map[string]string // address -> namespace/name

	// cut, counted down by every call and every write of the journal, ends the runner.
	cut     int
	dead    context.CancelFunc
	points  int
	lastCut string
	// onUpdate acts as another client, before the runner's n-th update.
	onUpdate func(n int)
	updates  int
}

var errDead = errors.New("the runner is dead")

func newCluster(t testing.TB, flags ...string) *cluster {
	server := simapi.New(simapi.WithClock(clock.RealClock{}))
	t.Cleanup(server.Close)
	c := &cluster{Client: server.Client(FieldManager), admin: server.Client("kubectl"), server: server, flags: flags,
		secrets: fake.NewClientset().CoreV1(), taken: map[string]string{}}
	c.reconcile()
	return c
}

// point is one place at which the runner may be killed.
func (c *cluster) point(ctx context.Context, what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		return errors.Join(errDead, ctx.Err())
	}
	c.points++
	if c.cut > 0 {
		if c.cut--; c.cut == 0 {
			c.lastCut = what
			c.dead()
			return errDead
		}
	}
	return nil
}

// call has a point before and one after.
func call[T any](ctx context.Context, c *cluster, what string, do func() (T, error)) (T, error) {
	var zero T
	if err := c.point(ctx, "before "+what); err != nil {
		return zero, err
	}
	out, err := do()
	if killed := c.point(ctx, "after "+what); killed != nil {
		return zero, killed
	}
	return out, err
}

func (c *cluster) Secrets(namespace string) corev1client.SecretInterface {
	return c.secrets.Secrets(namespace)
}

func (c *cluster) ServerRanges(context.Context) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.flags
	if c.next != nil {
		c.flags, c.next = c.next, nil
	}
	return was, nil
}

func (c *cluster) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return serviceCIDRs{c.Client.ServiceCIDRs(), c}
}

func (c *cluster) Services(namespace string) corev1client.ServiceInterface {
	return services{c.Client.Services(namespace), c, namespace}
}

type serviceCIDRs struct {
	networkingv1client.ServiceCIDRInterface
	c *cluster
}

func (s serviceCIDRs) Get(ctx context.Context, name string, opts metav1.GetOptions) (*networkingv1.ServiceCIDR, error) {
	s.c.reconcile()
	return call(ctx, s.c, "get servicecidr", func() (*networkingv1.ServiceCIDR, error) {
		return s.ServiceCIDRInterface.Get(ctx, name, opts)
	})
}

func (s serviceCIDRs) Create(ctx context.Context, obj *networkingv1.ServiceCIDR, opts metav1.CreateOptions) (*networkingv1.ServiceCIDR, error) {
	return call(ctx, s.c, "create servicecidr", func() (*networkingv1.ServiceCIDR, error) {
		obj = obj.DeepCopy()
		obj.Finalizers = []string{serviceCIDRFinalizer}
		return s.ServiceCIDRInterface.Create(ctx, obj, opts)
	})
}

func (s serviceCIDRs) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := call(ctx, s.c, "delete servicecidr", func() (any, error) {
		return nil, s.ServiceCIDRInterface.Delete(ctx, name, opts)
	})
	return err
}

// reconcile is what controllers do.
func (c *cluster) reconcile() {
	ctx := context.Background()
	for {
		again := false
		all := c.server.TrueServiceCIDRs()
		c.mu.Lock()
		addresses := make([]string, 0, len(c.taken))
		for a := range c.taken {
			addresses = append(addresses, a)
		}
		flags := c.flags
		c.mu.Unlock()
		covers := func(s networkingv1.ServiceCIDR, a string) bool {
			return slices.ContainsFunc(s.Spec.CIDRs, func(r string) bool { return cidr.MustParse(r).Contains(netip.MustParseAddr(a)) })
		}
		def := false
		for _, s := range all {
			def = def || s.Name == DefaultServiceCIDR
			switch {
			case s.DeletionTimestamp == nil:
				if !isReady(&s) {
					c.server.SetReady(s.Name, metav1.ConditionTrue)
				}
			default:
				if isReadyCondition(&s) {
					c.server.SetReady(s.Name, metav1.ConditionFalse)
				}
				held := slices.ContainsFunc(addresses, func(a string) bool {
					return covers(s, a) && !slices.ContainsFunc(all, func(o networkingv1.ServiceCIDR) bool {
						return o.UID != s.UID && o.DeletionTimestamp == nil && covers(o, a)
					})
				})
				if !held {
					c.server.RemoveFinalizer(s.Name, serviceCIDRFinalizer)
					again = true
				}
			}
		}
		if !def && !again {
			_, err := c.admin.ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: DefaultServiceCIDR, Finalizers: []string{serviceCIDRFinalizer}},
				Spec:       networkingv1.ServiceCIDRSpec{CIDRs: flags},
			}, metav1.CreateOptions{})
			again = err == nil
		}
		for _, s := range all {
			if s.Name == DefaultServiceCIDR && len(s.Spec.CIDRs) == 1 && len(flags) == 2 && s.Spec.CIDRs[0] == flags[0] && s.DeletionTimestamp == nil {
				s.Spec.CIDRs = flags
				_, err := c.admin.ServiceCIDRs().Update(ctx, &s, metav1.UpdateOptions{})
				again = again || err == nil
			}
		}
		if _, err := c.admin.Services(metav1.NamespaceDefault).Get(ctx, kubernetesService, metav1.GetOptions{}); apierrors.IsNotFound(err) && !again {
			first := cidr.MustParse(flags[0])
			_, err := c.create(ctx, c.admin, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: kubernetesService},
				Spec: corev1.ServiceSpec{ClusterIP: first.First().String(), IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
					Ports: []corev1.ServicePort{{Port: 443}}},
			})
			again = err == nil
		}
		if !again {
			return
		}
	}
}

type services struct {
	corev1client.ServiceInterface
	c         *cluster
	namespace string
}

func (s services) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Service, error) {
	s.c.reconcile()
	return call(ctx, s.c, "get service", func() (*corev1.Service, error) { return s.ServiceInterface.Get(ctx, name, opts) })
}

func (s services) List(ctx context.Context, opts metav1.ListOptions) (*corev1.ServiceList, error) {
	return call(ctx, s.c, "list services", func() (*corev1.ServiceList, error) { return s.ServiceInterface.List(ctx, opts) })
}

func (s services) Create(ctx context.Context, obj *corev1.Service, opts metav1.CreateOptions) (*corev1.Service, error) {
	return call(ctx, s.c, "create service "+obj.Name, func() (*corev1.Service, error) { return s.c.create(ctx, s.c.Client, obj) })
}

func (s services) Update(ctx context.Context, obj *corev1.Service, opts metav1.UpdateOptions) (*corev1.Service, error) {
	s.c.mu.Lock()
	s.c.updates++
	n, other := s.c.updates, s.c.onUpdate
	s.c.mu.Unlock()
	if other != nil {
		other(n)
	}
	return call(ctx, s.c, "update service "+obj.Name, func() (*corev1.Service, error) { return s.c.update(ctx, s.c.Client, obj) })
}

func (s services) UpdateStatus(ctx context.Context, obj *corev1.Service, opts metav1.UpdateOptions) (*corev1.Service, error) {
	return call(ctx, s.c, "update status "+obj.Name, func() (*corev1.Service, error) { return s.ServiceInterface.UpdateStatus(ctx, obj, opts) })
}

func (s services) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	_, err := call(ctx, s.c, "delete service "+name, func() (any, error) {
		err := s.ServiceInterface.Delete(ctx, name, opts)
		if err == nil {
			s.c.collect()
		}
		return nil, err
	})
	return err
}

// create gives a Service what it needs, as the API server does.
func (c *cluster) create(ctx context.Context, as *simapi.Client, obj *corev1.Service) (*corev1.Service, error) {
	obj = obj.DeepCopy()
	if err := c.allocate(obj, nil); err != nil {
		return nil, err
	}
	out, err := as.Services(obj.Namespace).Create(ctx, obj, metav1.CreateOptions{FieldManager: as.Replica()})
	c.collect()
	return out, err
}

func (c *cluster) update(ctx context.Context, as *simapi.Client, obj *corev1.Service) (*corev1.Service, error) {
	obj = obj.DeepCopy()
	old, err := as.Services(obj.Namespace).Get(ctx, obj.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if err := c.allocate(obj, old); err != nil {
		return nil, err
	}
	out, err := as.Services(obj.Namespace).Update(ctx, obj, metav1.UpdateOptions{FieldManager: as.Replica()})
	c.collect()
	return out, err
}

// allocate fills in families, addresses and node ports.
func (c *cluster) allocate(obj, old *corev1.Service) error {
	spec := &obj.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	refuse := func(path, value, why string) error {
		return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), obj.Name,
			field.ErrorList{field.Invalid(field.NewPath("spec", path), value, why)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var configured []corev1.IPFamily
	for _, f := range c.flags {
		configured = append(configured, corev1.IPFamily(cidr.MustParse(f).Family().String()))
	}
	if len(spec.IPFamilies) == 0 {
		if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
			spec.IPFamilies = []corev1.IPFamily{familyOf(spec.ClusterIP)}
		} else {
			spec.IPFamilies = configured[:1]
		}
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && len(configured) == 2 {
		spec.IPFamilies = append(slices.Clone(spec.IPFamilies), other(spec.IPFamilies[0]))
	}
	for _, f := range spec.IPFamilies {
		if !slices.Contains(configured, f) && (old == nil || !slices.Contains(old.Spec.IPFamilies, f)) {
			return refuse("ipFamilies", string(f), "not configured on this cluster")
		}
	}
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
		return nil
	}
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if old != nil && old.Spec.Type != corev1.ServiceTypeExternalName && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = old.Spec.ClusterIPs
	}
	had := []string{}
	if old != nil {
		had = old.Spec.ClusterIPs
	}
	var ready []cidr.Range
	for _, s := range c.server.TrueServiceCIDRs() {
		if isReady(&s) {
			ready = append(ready, parseAll(s.Spec.CIDRs)...)
		}
	}
	ips := slices.Clone(spec.ClusterIPs[:min(len(spec.ClusterIPs), len(spec.IPFamilies))])
	for i, a := range ips {
		switch owner := c.taken[a]; {
		case owner != "" && owner != key(obj):
			return refuse("clusterIPs", a, "provided IP is already allocated")
		case !slices.Contains(had, a) && !slices.ContainsFunc(ready, func(r cidr.Range) bool { return r.Contains(netip.MustParseAddr(a)) }):
			return refuse("clusterIPs", a, "the provided IP is not in a ready range")
		case familyOf(a) != spec.IPFamilies[i]:
			return refuse("clusterIPs", a, "is not of the family")
		}
	}
	for len(ips) < len(spec.IPFamilies) {
		drawn := ""
		for _, r := range ready {
			if r.Family().String() != string(spec.IPFamilies[len(ips)]) || drawn != "" {
				continue
			}
			for a, n := r.Dynamic().First, 0; n < 4096 && r.Contains(a); a, n = a.Next(), n+1 {
				if c.taken[a.String()] == "" {
					drawn = a.String()
					break
				}
			}
		}
		if drawn == "" {
			return refuse("clusterIPs", "", "range is full")
		}
		ips = append(ips, drawn)
	}
	for _, a := range ips {
		c.taken[a] = key(obj)
	}
	spec.ClusterIP, spec.ClusterIPs = ips[0], ips
	if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer {
		for i := range spec.Ports {
			if spec.Ports[i].NodePort == 0 {
				spec.Ports[i].NodePort = 30000 + spec.Ports[i].Port
			}
		}
	}
	return nil
}

// collect frees what no Service has.
func (c *cluster) collect() {
	has := map[string]string{}
	for _, s := range c.server.TrueServices() {
		for _, a := range s.Spec.ClusterIPs {
			has[a] = key(&s)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for a, owner := range c.taken {
		if has[a] != owner {
			delete(c.taken, a)
		}
	}
}

func (c *cluster) state() (all []ServiceCIDR, kubernetes []string) {
	for _, s := range c.server.TrueServiceCIDRs() {
		all = append(all, ServiceCIDR{Name: s.Name, UID: s.UID, CIDRs: s.Spec.CIDRs, Ready: isReady(&s), Terminating: s.DeletionTimestamp != nil})
	}
	svc, err := c.admin.Services(metav1.NamespaceDefault).Get(context.Background(), kubernetesService, metav1.GetOptions{})
	if err == nil {
		kubernetes = svc.Spec.ClusterIPs
	}
	return all, kubernetes
}

// plan makes one with the steps of a playbook; rows are not needed where the API server draws.
func (c *cluster) plan(t testing.TB, req Request) *Plan {
	t.Helper()
	all, kubernetes := c.state()
	if req.Strategy == "" {
		req.Strategy = InPlace
	}
	req.LoadBalancers = true
	steps, err := makeSteps("plan-1", req, all, kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	return &Plan{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Name: "plan-1", Cluster: ClusterID{UID: "uid"}, Request: req, ServiceCIDRs: all, Steps: steps}
}

// pointed is a journal at whose writes the runner may be killed.
type pointed struct {
	Journal
	c *cluster
}

func (p pointed) Append(ctx context.Context, entries ...Entry) error {
	_, err := call(ctx, p.c, "journal "+string(entries[0].Type), func() (any, error) { return nil, p.Journal.Append(ctx, entries...) })
	return err
}

// run runs a plan until it ends, or until the cut-th point.
func (c *cluster) run(t testing.TB, plan *Plan, journal, undone Journal, cut int, change ...func(*Config)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.mu.Lock()
	c.cut, c.dead, c.points = cut, cancel, 0
	c.mu.Unlock()
	cfg := Config{API: c, Plan: plan, Journal: pointed{journal, c}, Undone: undone, MaxInFlight: 1, BatchSize: 7, HandOverTimeout: time.Minute}
	for _, f := range change {
		f(&cfg)
	}
	r, err := NewRunner(cfg)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Run(ctx)
	c.mu.Lock()
	c.cut = 0
	c.mu.Unlock()
	return err
}

// memory is a journal that outlives runners.
type memory struct {
	mu      sync.Mutex
	plan    *Plan
	entries []Entry
}

func (m *memory) Plan(context.Context) (*Plan, error) {
	if m.plan == nil {
		return nil, ErrNoJournal
	}
	return m.plan, nil
}

func (m *memory) Begin(_ context.Context, p *Plan) error { m.plan = p; return nil }

func (m *memory) Append(_ context.Context, entries ...Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, entries...)
	return nil
}

func (m *memory) Entries(context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries), nil
}

// byKey are all Services but the API server's own.
func (c *cluster) byKey() map[string]*corev1.Service {
	all := map[string]*corev1.Service{}
	for _, s := range c.server.TrueServices() {
		if s.Name != kubernetesService {
			all[key(&s)] = &s
		}
	}
	return all
}

// populate makes Services of every class.
func (c *cluster) populate(t testing.TB, dual bool) {
	t.Helper()
	ctx := context.Background()
	port := func(n int32) []corev1.ServicePort {
		return []corev1.ServicePort{{Name: "a", Port: n, Protocol: corev1.ProtocolTCP}, {Name: "b", Port: n + 1, Protocol: corev1.ProtocolUDP}}
	}
	make := func(name string, spec corev1.ServiceSpec, change ...func(*corev1.Service)) {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{"note": name}}, Spec: spec}
		for _, f := range change {
			f(svc)
		}
		if _, err := c.create(ctx, c.admin, svc); err != nil {
			t.Fatal(name, err)
		}
	}
	selector := map[string]string{"app": "web"}
	make("cluster-ip", corev1.ServiceSpec{Ports: port(80), Selector: selector})
	make("affine", corev1.ServiceSpec{Ports: port(80), Selector: selector, SessionAffinity: corev1.ServiceAffinityClientIP,
		SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To[int32](60)}}, PublishNotReadyAddresses: true,
		InternalTrafficPolicy: ptr.To(corev1.ServiceInternalTrafficPolicyLocal)})
	make("node-port", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: port(90), Selector: selector, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal})
	make("headless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: port(80), Selector: selector})
	make("external", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"})
	make("manual", corev1.ServiceSpec{Ports: port(80)})
	make("finalized", corev1.ServiceSpec{Ports: port(80), Selector: selector}, func(s *corev1.Service) { s.Finalizers = []string{"example.com/hold"} })
	make("owned", corev1.ServiceSpec{Ports: port(80), Selector: selector}, func(s *corev1.Service) {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "42"}}
	})
	make("balanced", corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: port(100), Selector: selector, LoadBalancerClass: ptr.To("example.com/lb"),
		AllocateLoadBalancerNodePorts: ptr.To(true), LoadBalancerSourceRanges: []string{"192.0.2.0/24"}})
	svc, err := c.admin.Services("web").Get(ctx, "balanced", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.7"}}
	if _, err := c.admin.Services("web").UpdateStatus(ctx, svc, metav1.UpdateOptions{FieldManager: "lb"}); err != nil {
		t.Fatal(err)
	}
	if dual {
		both := ptr.To(corev1.IPFamilyPolicyRequireDualStack)
		make("dual", corev1.ServiceSpec{Ports: port(80), Selector: selector, IPFamilyPolicy: both})
		make("dual-headless", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: port(80), Selector: selector, IPFamilyPolicy: both})
	}
}

// check compares every Service with its original.
func (c *cluster) check(t testing.TB, originals map[string]*corev1.Service, strategy Strategy, families bool) {
	t.Helper()
	now := c.byKey()
	for k, o := range originals {
		got := now[k]
		if got == nil {
			t.Errorf("Service %s is gone", k)
			continue
		}
		recreated := got.UID != o.UID
		if recreated && (strategy == InPlace || len(o.Finalizers) > 0) {
			t.Errorf("Service %s is another object", k)
		}
		if differences := SameService(got, o, recreated, families); len(differences) > 0 {
			t.Errorf("Service %s differs: %s", k, strings.Join(differences, "; "))
		}
	}
	if len(now) != len(originals) {
		t.Errorf("%d Services, and there were %d", len(now), len(originals))
	}
}

// isIn tells whether all addresses of a family are in a range.
func (c *cluster) allIn(t testing.TB, ranges ...string) {
	t.Helper()
	rs := parseAll(ranges)
	for _, s := range c.server.TrueServices() {
		for _, a := range addressesOf(&s) {
			if a != "" && !slices.ContainsFunc(rs, func(r cidr.Range) bool { return r.Contains(netip.MustParseAddr(a)) }) {
				t.Errorf("Service %s has %s, outside of %v", key(&s), a, ranges)
			}
		}
	}
	c.reconcile()
	all := c.server.TrueServiceCIDRs()
	if len(all) != 1 || all[0].Name != DefaultServiceCIDR || !slices.Equal(all[0].Spec.CIDRs, ranges) || !isReady(&all[0]) {
		t.Errorf("ServiceCIDRs: %s", show(names(all)))
	}
}

func names(all []networkingv1.ServiceCIDR) []string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s %v terminating=%v", s.Name, s.Spec.CIDRs, s.DeletionTimestamp != nil))
	}
	return out
}
