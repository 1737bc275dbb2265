// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// other is the field manager of the other client.
const other = "another-client"

// moment is a call of the runner on a Service.
type moment struct {
	method string
	nth    int
	// before has the other client act before the call is made, and not when the server
	// has answered it and the runner does not know yet.
	before bool
}

// What the runner does with a Service, in order.
var (
	beforeParking  = moment{method: http.MethodPut, nth: 1, before: true}
	whileParked    = moment{method: http.MethodPut, nth: 1}
	whenBack       = moment{method: http.MethodPut, nth: 2}
	beforeDeletion = moment{method: http.MethodDelete, nth: 1, before: true}
	whileDeleted   = moment{method: http.MethodDelete, nth: 1}
	whenMadeAgain  = moment{method: http.MethodPut, nth: 1, before: true}
)

// intrusion is what another client does to a Service at a moment of its move.
type intrusion struct {
	name     string
	strategy renumber.Strategy
	at       moment
	change   func(*corev1.ServiceSpec) // of the Service, before all
	act      func(ctx context.Context, services corev1client.ServiceInterface, name string) error
	// want changes a copy of the original into what is to be there; nil if nothing is.
	want func(*corev1.Service)
	// theirs: the Service is the other client's own.
	theirs bool
	// said is a part of what status tells; "" means that there is nothing to tell.
	said string
}

func patch(kind types.PatchType, text string) func(context.Context, corev1client.ServiceInterface, string) error {
	return func(ctx context.Context, services corev1client.ServiceInterface, name string) error {
		_, err := services.Patch(ctx, name, kind, []byte(text), metav1.PatchOptions{FieldManager: other})
		return err
	}
}

func remove(ctx context.Context, services corev1client.ServiceInterface, name string) error {
	return services.Delete(ctx, name, metav1.DeleteOptions{})
}

// replace makes another Service of the same name.
func replace(ctx context.Context, services corev1client.ServiceInterface, name string) error {
	if err := remove(ctx, services, name); err != nil {
		return err
	}
	return makeAnother(ctx, services, name)
}

func makeAnother(ctx context.Context, services corev1client.ServiceInterface, name string) error {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"version": "2"}}}
	anotherSpec(svc)
	_, err := services.Create(ctx, svc, metav1.CreateOptions{FieldManager: other})
	return err
}

func anotherSpec(s *corev1.Service) {
	s.Labels, s.Annotations = map[string]string{"version": "2"}, nil
	s.Spec.Selector = map[string]string{"app": "another"}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 8080}}
}

// makeSame is what a deployment tool does that sees the Service missing.
func makeSame(ctx context.Context, services corev1client.ServiceInterface, name string) error {
	_, err := services.Create(ctx, plain(name, nil), metav1.CreateOptions{FieldManager: other})
	return err
}

func plain(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := classes(false)[0].service("web", name, 0)
	if change != nil {
		change(&s.Spec)
	}
	return s
}

func nodePort(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }

func intrusions() []intrusion {
	label := patch(types.MergePatchType, `{"metadata":{"labels":{"tier":"gold"}}}`)
	labelled := func(s *corev1.Service) { s.Labels["tier"] = "gold" }
	selector := patch(types.MergePatchType, `{"spec":{"selector":{"app":"canary"}}}`)
	selected := func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "canary"} }
	// By index: the ports of an ExternalName have no node ports, and the patch is the same.
	port := patch(types.JSONPatchType, `[{"op":"replace","path":"/spec/ports/0/targetPort","value":9090},{"op":"add","path":"/spec/ports/-","value":{"name":"metrics","port":9100}}]`)
	ported := func(s *corev1.Service) {
		s.Spec.Ports[0].TargetPort.IntVal = 9090
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9100})
	}
	external := patch(types.MergePatchType, `{"spec":{"type":"ExternalName","externalName":"example.org","clusterIP":null,"clusterIPs":null,"ipFamilies":null,"ipFamilyPolicy":null}}`)
	var all []intrusion
	for _, at := range []struct {
		name     string
		strategy renumber.Strategy
		moment
	}{
		{"before-parking", renumber.InPlace, beforeParking}, {"while-parked", renumber.InPlace, whileParked}, {"when-back", renumber.InPlace, whenBack},
		{"before-deletion", renumber.Recreate, beforeDeletion}, {"when-made-again", renumber.Recreate, whenMadeAgain},
	} {
		add := func(i intrusion) {
			i.name, i.strategy, i.at = i.name+"-"+at.name, at.strategy, at.moment
			all = append(all, i)
		}
		add(intrusion{name: "label", act: label, want: labelled})
		add(intrusion{name: "selector", act: selector, want: selected})
		add(intrusion{name: "ports", act: port, want: ported})
		add(intrusion{name: "node-ports", change: nodePort, act: port, want: ported})
		add(intrusion{name: "delete", act: remove, said: "deleted"})
		add(intrusion{name: "replace", act: replace, want: anotherSpec, theirs: true, said: "made again by another"})
		add(intrusion{name: "external", act: external, said: "ExternalName", want: func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
		}})
	}
	return append(all,
		intrusion{name: "type-while-parked", strategy: renumber.InPlace, at: whileParked, said: "spec.type",
			act:  patch(types.MergePatchType, `{"spec":{"type":"NodePort","externalName":null}}`),
			want: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }},
		intrusion{name: "back-while-parked", strategy: renumber.InPlace, at: whileParked, change: nodePort,
			act: patch(types.MergePatchType, `{"spec":{"type":"ClusterIP","externalName":null}}`), said: "spec.type",
			want: func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }},
		intrusion{name: "another-while-deleted", strategy: renumber.Recreate, at: whileDeleted, act: makeAnother, want: anotherSpec, theirs: true, said: "made again by another"},
		intrusion{name: "same-while-deleted", strategy: renumber.Recreate, at: whileDeleted, act: makeSame, want: func(*corev1.Service) {}},
	)
}

// intruder acts as another client at the moments of its intrusions.
type intruder struct {
	next     http.RoundTripper
	services corev1client.ServiceInterface
	by       map[string]intrusion

	mu    sync.Mutex
	seen  map[string]int
	acted map[string]error
}

// RoundTrip is one call of the runner.
func (i *intruder) RoundTrip(r *http.Request) (*http.Response, error) {
	_, name, found := strings.Cut(r.URL.Path, "/namespaces/web/services/")
	intrusion, ours := i.by[name]
	if !found || !ours || r.Method != intrusion.at.method {
		return i.next.RoundTrip(r)
	}
	i.mu.Lock()
	i.seen[name]++
	now := i.seen[name] == intrusion.at.nth
	i.mu.Unlock()
	act := func() {
		err := intrusion.act(r.Context(), i.services, name)
		i.mu.Lock()
		i.acted[name] = err
		i.mu.Unlock()
	}
	if now && intrusion.at.before {
		act()
	}
	response, err := i.next.RoundTrip(r)
	if now && !intrusion.at.before {
		act()
	}
	return response, err
}

// sideRange makes a ServiceCIDR beside the default one; what is in it moves without a hand-over.
func (c *cluster) sideRange(t *testing.T, name, prefix string) {
	t.Helper()
	_, err := c.client.NetworkingV1().ServiceCIDRs().Create(t.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{prefix}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.eventually(t, "the ServiceCIDR is ready", func(ctx context.Context) error {
		s, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		if err == nil && !apimeta.IsStatusConditionTrue(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
			err = errors.New("not ready")
		}
		return err
	})
}

// drained wants what a plan of the side range wants.
func (c *cluster) drained(t *testing.T, from string, strategy renumber.Strategy) *renumber.Plan {
	t.Helper()
	return c.plan(t, renumber.Request{Playbook: renumber.Drain, From: from, Strategy: strategy})
}

// Another client edits, deletes and makes Services again at every moment of their
// move: none of its edits is lost, and what does not go together is told.
func TestI12_AnotherClientMeanwhile(t *testing.T) {
	c := startQuick(t)
	c.namespace(t, "web")
	for n, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			side := fmt.Sprintf("side-%d", n)
			c.sideRange(t, side, fmt.Sprintf("10.200.%d.0/24", n))
			services := c.client.CoreV1().Services("web")
			by, originals := map[string]intrusion{}, map[string]*corev1.Service{}
			at := cidr.MustParse(fmt.Sprintf("10.200.%d.0/24", n)).Dynamic().First
			for _, i := range intrusions() {
				if i.strategy != strategy {
					continue
				}
				by[i.name] = i
				svc := plain(i.name, i.change)
				svc.Spec.ClusterIP = at.String()
				at = at.Next()
				c.eventually(t, "creating "+svc.Name, func(ctx context.Context) (err error) {
					originals[i.name], err = services.Create(ctx, svc, metav1.CreateOptions{FieldManager: "kubectl-create"})
					return err
				})
			}
			plan := c.drained(t, side, strategy)
			config := rest.CopyConfig(c.RESTConfig())
			config.QPS = -1
			in := &intruder{services: services, by: by, seen: map[string]int{}, acted: map[string]error{}}
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { in.next = next; return in })
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			journal := c.journal(t, plan)
			if err := c.run(t, plan, journal, nil, func(cfg *renumber.Config) { cfg.API = renumber.NewAPI(client) }); err != nil {
				t.Fatal(err)
			}
			entries, err := journal.Entries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			status := renumber.ReadStatus(plan, entries)
			now := c.services(t)
			for name, i := range by {
				if err, acted := in.acted[name]; !acted || err != nil {
					t.Errorf("%s: the other client could not do it: acted %v, %v", name, acted, err)
					continue
				}
				said := status.Left["web/"+name] + strings.Join(slices.DeleteFunc(slices.Clone(status.Told), func(s string) bool { return !strings.Contains(s, "web/"+name+":") }), "; ")
				if i.said == "" && said != "" || !strings.Contains(said, i.said) {
					t.Errorf("%s: told %q, and it should be about %q", name, said, i.said)
				}
				i.check(t, now["web/"+name], originals[name])
			}
			left, err := renumber.FindLeftovers(t.Context(), renumber.NewAPI(c.client), &renumber.Target{Leave: []string{fmt.Sprintf("10.200.%d.0/24", n)}})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range left {
				t.Errorf("left: %s", l)
			}
		})
	}
}

// check compares what is there with what should be.
func (i intrusion) check(t *testing.T, got, original *corev1.Service) {
	t.Helper()
	switch {
	case i.want == nil && got != nil:
		t.Errorf("%s: the other client has deleted it, and it is there", i.name)
		return
	case i.want == nil:
		return
	case got == nil:
		t.Errorf("%s: it is gone", i.name)
		return
	}
	want := original.DeepCopy()
	i.want(want)
	want.ManagedFields = got.ManagedFields
	external := got.Spec.Type == corev1.ServiceTypeExternalName
	if external {
		// The API server takes what an ExternalName cannot have.
		want.Spec.InternalTrafficPolicy = got.Spec.InternalTrafficPolicy
	}
	for p := range want.Spec.Ports {
		port := &want.Spec.Ports[p]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort.IntVal == 0 {
			port.TargetPort.IntVal = port.Port
		}
		if (got.Spec.Type == corev1.ServiceTypeNodePort) != (original.Spec.Type == corev1.ServiceTypeNodePort) || port.NodePort == 0 && p < len(got.Spec.Ports) {
			port.NodePort = got.Spec.Ports[p].NodePort // drawn
		}
	}
	if got.Spec.Type == corev1.ServiceTypeNodePort {
		want.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	} else {
		want.Spec.ExternalTrafficPolicy = ""
	}
	if d := renumber.SameService(got, want, got.UID != original.UID, !external); len(d) > 0 {
		t.Errorf("%s: %s", i.name, strings.Join(d, "; "))
	}
	if i.strategy == renumber.InPlace && (got.UID != original.UID) != i.theirs {
		t.Errorf("%s: another object: %v", i.name, got.UID != original.UID)
	}
	managers := map[string]bool{}
	for _, m := range got.ManagedFields {
		managers[m.Manager] = true
	}
	if managers[renumber.FieldManager] || !managers[other] {
		t.Errorf("%s: fields are owned by %v", i.name, managers)
	}
}

// A client that edits without end does not keep the run from an end that says so.
func TestAnotherClientThatNeverStops(t *testing.T) {
	c := startQuick(t)
	c.namespace(t, "web")
	c.sideRange(t, "side", "10.200.0.0/24")
	services := c.client.CoreV1().Services("web")
	c.eventually(t, "creating it", func(ctx context.Context) error {
		svc := plain("busy", nil)
		svc.Spec.ClusterIP = "10.200.0.77"
		_, err := services.Create(ctx, svc, metav1.CreateOptions{})
		return err
	})
	plan := c.drained(t, "side", renumber.InPlace)
	config := rest.CopyConfig(c.RESTConfig())
	config.QPS = -1
	edits := 0
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/services/busy") {
				edits++
				if err := patch(types.MergePatchType, fmt.Sprintf(`{"metadata":{"labels":{"edit":"%d"}}}`, edits))(r.Context(), services, "busy"); err != nil {
					return nil, err
				}
			}
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	journal := c.journal(t, plan)
	err = c.run(t, plan, journal, nil, func(cfg *renumber.Config) { cfg.API = renumber.NewAPI(client) })
	if err == nil || !strings.Contains(err.Error(), "web/busy was changed by another") {
		t.Errorf("it should say who is in the way: %v", err)
	}
	// When the other stops, resume ends it.
	if err := c.run(t, plan, journal, nil, func(cfg *renumber.Config) { cfg.CallTimeout = 10 * time.Second }); err != nil {
		t.Fatal(err)
	}
	got, err := services.Get(t.Context(), "busy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Labels["edit"] != fmt.Sprint(edits) || got.Spec.Type != corev1.ServiceTypeClusterIP || strings.HasPrefix(got.Spec.ClusterIP, "10.200.") {
		t.Errorf("%d edits, and it is %v %s %s", edits, got.Labels, got.Spec.Type, got.Spec.ClusterIP)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls it.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
