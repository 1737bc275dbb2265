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

// count is how many Services there are; METACIDR_SERVICES changes it.
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
	n := count(t, 2000)
	c.populate(t, "web", n, true)
	c.hardCoded(t)
	originals := c.services(t)
	plan := c.plan(t, renumber.Request{Playbook: renumber.Replace, To: []string{"10.112.0.0/16"}, LoadBalancers: true})
	journal := c.journal(t, plan)
	bare := c.bareUpdates(t, 600)
	trip := c.roundTrip(t)
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
	// Three updates each, and a fourth for the status of those that have one.
	updates := 3 * status.Moved
	rate := float64(updates) / moving.Seconds()
	t.Logf("in-place, 16 in flight: %d Services moved in %s; %.0f updates/s, %.0f %% of %.0f/s bare; gap p50 %.2f, p99 %.2f round trips of %s under the same load",
		status.Moved, moving.Round(time.Millisecond), rate, 100*rate/bare, bare, ratio(status.GapMedian, trip), ratio(status.Gap99, trip), trip)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

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

// bareUpdates is how many updates of Services 16 clients make in a second, doing nothing else.
func (c *cluster) bareUpdates(t *testing.T, n int) float64 {
	t.Helper()
	list, err := c.client.CoreV1().Services("web").List(t.Context(), metav1.ListOptions{Limit: 64})
	if err != nil {
		t.Fatal(err)
	}
	queue := make(chan *corev1.Service, len(list.Items))
	for i := range list.Items {
		queue <- list.Items[i].DeepCopy()
	}
	work := make(chan int)
	var workers sync.WaitGroup
	begin := time.Now()
	for range 16 {
		workers.Go(func() {
			for i := range work {
				svc := <-queue
				svc.Annotations["bare"] = strconv.Itoa(i)
				next, err := c.client.CoreV1().Services("web").Update(t.Context(), svc, metav1.UpdateOptions{})
				if err != nil {
					t.Error(err)
					next = svc
				}
				queue <- next
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
	rate := float64(n) / time.Since(begin).Seconds()
	// As they were.
	for range list.Items {
		svc := <-queue
		i := slices.IndexFunc(list.Items, func(s corev1.Service) bool { return s.UID == svc.UID })
		svc.Annotations, svc.ManagedFields = list.Items[i].Annotations, list.Items[i].ManagedFields
		if _, err := c.client.CoreV1().Services("web").Update(t.Context(), svc, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
	}
	return rate
}

// roundTrip is the median time of an update under the load of 16 clients, in which the Services move.
func (c *cluster) roundTrip(t *testing.T) time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var workers sync.WaitGroup
	for w := range 16 {
		workers.Go(func() {
			name := fmt.Sprintf("trip-%d", w)
			svc, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 20 {
				svc.Labels = map[string]string{"i": strconv.Itoa(i)}
				begin := time.Now()
				if svc, err = c.client.CoreV1().Services(metav1.NamespaceDefault).Update(t.Context(), svc, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, time.Since(begin))
				mu.Unlock()
			}
			if err := c.client.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if len(all) == 0 {
		t.FailNow()
	}
	slices.Sort(all)
	return all[len(all)/2]
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
