// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// count is how many Services there are; METACIDR_SERVICES changes it, make e2e-renumber to 2,000.
func count(t *testing.T, otherwise int) int {
	text := os.Getenv("METACIDR_SERVICES")
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Services of every class move from one range to another, to the end: the API server
// is restarted with the new flag, verify is clean, the old ServiceCIDR is gone, and
// every Service is its original but for its address.
func TestS33_WholeClusterToAnotherRange(t *testing.T) {
	c := startCluster(t, "10.96.0.0/16,fd00:10:96::/108")
	n := count(t, 500)
	c.populate(t, "web", n, true)
	c.hardCoded(t)
	bare := c.bareMoves(t, 320)
	originals := c.services(t)
	plan := c.plan(t, renumber.Request{Playbook: renumber.Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: true})
	journal := c.journal(t, plan)
	var moving time.Duration
	begun := time.Time{}
	watch := func(cfg *renumber.Config) {
		cfg.MaxInFlight = 16
		observe := cfg.Observe
		cfg.Observe = func(e renumber.Event) {
			if e.Entry != nil && e.Step.Kind == renumber.MoveServices {
				switch e.Entry.Type {
				case renumber.StepBegun:
					begun = time.Now()
				case renumber.StepDone:
					moving = time.Since(begun)
				}
			}
			observe(e)
		}
	}
	if err := c.run(t, plan, journal, nil, watch); err != nil {
		t.Fatal(err)
	}
	c.same(t, originals, renumber.InPlace, true)
	c.only(t, "10.112.0.0/16", "fd00:10:96::/108")
	entries, err := journal.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status := renumber.ReadStatus(plan, entries)
	if status.State != renumber.RunFinished || len(status.OnTheWay) > 0 || len(status.Left) > 0 || len(status.Told) > 0 {
		t.Errorf("status %+v", status)
	}
	rate := float64(status.Moved) / moving.Seconds()
	t.Logf("in-place, 16 in flight: %d Services moved in %s, %.1f/s; the same updates without journal, events and checks: %.1f/s; %.0f %%",
		status.Moved, moving.Round(time.Millisecond), rate, bare, 100*rate/bare)
}

// hardCoded makes a Service whose manifest names its address.
func (c *cluster) hardCoded(t *testing.T) {
	t.Helper()
	_, err := c.client.CoreV1().Services("web").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hard-coded"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.7.7", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// bareMoves is how many Services 16 clients turn ExternalName and back, with a third update after that, in a second:
// what the runner does to them, and nothing else. The Services are gone afterwards.
func (c *cluster) bareMoves(t *testing.T, n int) float64 {
	t.Helper()
	const clients = 16
	services := c.client.CoreV1().Services(metav1.NamespaceDefault)
	update := func(svc *corev1.Service) *corev1.Service {
		next, err := services.Update(t.Context(), svc, metav1.UpdateOptions{})
		if err != nil {
			t.Error(err)
			return svc
		}
		return next
	}
	var workers sync.WaitGroup
	begin := time.Now()
	for w := range clients {
		workers.Go(func() {
			svc, err := services.Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bare-%d", w)}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range n / clients {
				svc = swing(svc, update)
				svc.Labels = map[string]string{"i": strconv.Itoa(i)}
				svc = update(svc)
			}
			if err := services.Delete(t.Context(), svc.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return float64(n) / time.Since(begin).Seconds()
}

// swing turns a Service ExternalName and back.
func swing(svc *corev1.Service, update func(*corev1.Service) *corev1.Service) *corev1.Service {
	svc = svc.DeepCopy()
	svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeExternalName, "bare.invalid"
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy, svc.Spec.InternalTrafficPolicy = "", nil, nil, nil, nil
	svc = update(svc).DeepCopy()
	svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeClusterIP, ""
	return update(svc)
}

// How long a Service has no address, in round trips of the API, one at a time.
func TestGap(t *testing.T) {
	c := startQuick(t)
	plain, allocating, worst := c.roundTrips(t, 150)
	for i, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		namespace := "gap-" + string(strategy)
		a := c.newArena(t, namespace, strategy, [2]string{fmt.Sprintf("10.200.%d.0/24", i), fmt.Sprintf("10.201.%d.0/24", i)})
		for n := range 150 {
			svc := classes(false)[0].service(namespace, fmt.Sprintf("more-%d", n), 0)
			svc.Spec.ClusterIP = fmt.Sprintf("10.200.%d.%d", i, 60+n)
			if err := c.create(t.Context(), svc, false); err != nil {
				t.Fatal(err)
			}
		}
		plan := c.plan(t, renumber.Request{Playbook: renumber.Replace, From: namespace, To: a.ranges[1:], Strategy: strategy, Mapping: renumber.MapRandom, LoadBalancers: true})
		journal := c.journal(t, plan)
		if err := c.run(t, plan, journal, nil, func(cfg *renumber.Config) { cfg.MaxInFlight = 1 }); err != nil {
			t.Fatal(err)
		}
		entries, err := journal.Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := renumber.ReadStatus(plan, entries)
		t.Logf("%s: %d Services, one at a time: gap p50 %s, p99 %s; in plain updates of p50 %s: %.2f, %.2f; in updates that allocate, of p50 %s: %.2f, %.2f, and of p99 %s: %.2f, %.2f",
			strategy, s.Moved, s.GapMedian, s.Gap99, plain, ratio(s.GapMedian, plain), ratio(s.Gap99, plain), allocating, ratio(s.GapMedian, allocating), ratio(s.Gap99, allocating),
			worst, ratio(s.GapMedian, worst), ratio(s.Gap99, worst))
		if s.Moved < 150 || s.Gap99 == 0 {
			t.Errorf("%d moved, gap %s", s.Moved, s.Gap99)
		}
	}
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// roundTrips are the medians of n updates, one that changes a label and one that allocates, and the 99th percentile of
// the latter.
func (c *cluster) roundTrips(t *testing.T, n int) (plain, allocating, worst time.Duration) {
	t.Helper()
	services := c.client.CoreV1().Services(metav1.NamespaceDefault)
	svc, err := services.Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "trip"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var took time.Duration
	update := func(svc *corev1.Service) *corev1.Service {
		begin := time.Now()
		next, err := services.Update(t.Context(), svc, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		took = time.Since(begin)
		return next
	}
	var plains, allocatings []time.Duration
	for i := range n {
		svc.Labels = map[string]string{"i": strconv.Itoa(i)}
		svc = update(svc)
		plains = append(plains, took)
		svc = swing(svc, update)
		allocatings = append(allocatings, took)
	}
	if err := services.Delete(t.Context(), "trip", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(plains)
	slices.Sort(allocatings)
	return plains[n/2], allocatings[n/2], allocatings[n*99/100]
}

// KEP-1880's own demonstration.
func TestKEP1880_ItsOwnRanges(t *testing.T) {
	for _, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			c := startCluster(t, "10.96.0.0/28")
			c.namespace(t, "web")
			ctx := context.Background()
			for i := range 12 {
				class := classes(false)[0]
				if err := c.create(ctx, class.service("web", fmt.Sprintf("web-%d", i), 0), false); err != nil {
					t.Fatal(err)
				}
			}
			originals := c.services(t)
			plan := c.plan(t, renumber.Request{Playbook: renumber.Replace, To: []string{"192.168.7.0/24"}, Strategy: strategy})
			if err := c.run(t, plan, c.journal(t, plan), nil); err != nil {
				t.Fatal(err)
			}
			c.same(t, originals, strategy, true)
			c.only(t, "192.168.7.0/24")
		})
	}
}
