// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// TestLibraryAsAUserWouldImportIt is the smallest program that uses the library, line by line, on a cluster with
// one ServiceCIDR of 14 usable addresses, of which Service kubernetes has one.
func TestLibraryAsAUserWouldImportIt(t *testing.T) {
	c := startCluster(t, "10.96.0.0/28")
	clientset, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}

	m, err := meta.New(meta.Config{Client: clientset.NetworkingV1()})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.Collector())
	running, stop := context.WithCancel(quiet())
	var done sync.WaitGroup
	done.Go(func() {
		if err := m.Run(running); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	defer done.Wait()
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := m.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	any4 := func(name string) meta.Request {
		return meta.Request{Owner: widget(name), Families: []cidr.Family{cidr.IPv4}}
	}

	// No ServiceCIDR controller has given the ServiceCIDR its finalizer yet: nothing would keep it while addresses
	// are in use.
	_, err = m.Allocate(ctx, any4("early"))
	mustBe(t, err, meta.ErrNotReady, "10.96.0.0/28", "does a ServiceCIDR controller run?")
	c.runController(t)
	eventually(t, "the ServiceCIDR is ready", func(context.Context) error {
		status := m.Status()
		if !status.Synced || len(status.CIDRs) != 1 || !status.CIDRs[0].Ready || !status.CIDRs[0].Maximal {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})

	allocations, err := m.Allocate(ctx, any4("first"))
	if err != nil {
		t.Fatal(err)
	}
	first := allocations[0]
	obj, err := clientset.NetworkingV1().IPAddresses().Get(ctx, first.Address.String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if obj.UID != first.UID || obj.ResourceVersion != first.ResourceVersion || informer.OwnerOf(obj.Spec.ParentRef) != widget("first") {
		t.Errorf("allocation %+v, IPAddress %+v", first, obj)
	}
	if got, want := obj.Labels, map[string]string{informer.LabelManagedBy: informer.DefaultManager, informer.LabelIPFamily: "IPv4"}; !cmp.Equal(got, want) {
		t.Errorf("labels %v, want %v", got, want)
	}

	_, err = m.Allocate(ctx, meta.Request{Owner: widget("six"), Families: []cidr.Family{cidr.IPv6}})
	mustBe(t, err, meta.ErrNoServiceCIDR, "IPv6")
	_, err = m.Allocate(ctx, meta.Request{Owner: widget("outside"), Addresses: addrs("192.0.2.1")})
	mustBe(t, err, meta.ErrNotInRange, "192.0.2.1", "10.96.0.0/28")
	for _, end := range []string{"10.96.0.0", "10.96.0.15"} {
		_, err = m.Allocate(ctx, meta.Request{Owner: widget("end"), Addresses: addrs(end)})
		mustBe(t, err, meta.ErrNotInRange, end)
	}
	_, err = m.Allocate(ctx, meta.Request{Owner: widget("late"), Addresses: addrs("10.96.0.1")})
	mustBe(t, err, meta.ErrAllocated, "services/default/kubernetes")
	var allocated *meta.AllocatedError
	if !errors.As(err, &allocated) || allocated.Owner != informer.ServiceOwner("default", "kubernetes") {
		t.Errorf("%v: it does not name the owner as a value", err)
	}
	_, err = m.Allocate(ctx, meta.Request{Families: []cidr.Family{cidr.IPv4}})
	mustBe(t, err, meta.ErrInvalidRequest)

	checkDryRunWritesNothing(t, c, m)

	// All the rest, to the last address (S2).
	held := []meta.Allocation{first}
	for i := range 12 {
		more, err := m.Allocate(ctx, any4(fmt.Sprintf("more-%d", i)))
		if err != nil {
			t.Fatalf("address %d of 13: %v", i+2, err)
		}
		held = append(held, more...)
	}
	_, err = m.Allocate(ctx, any4("one too many"))
	mustBe(t, err, meta.ErrFull, "10.96.0.0/28 (kubernetes): full")
	if row := m.Status().CIDRs[0]; row.Dynamic.Free != (cidr.Uint128{}) || row.Dynamic.Taken != cidr.U128(uint(14)) || row.Static.Size != (cidr.Uint128{}) {
		t.Errorf("status of a full /28: %+v", row)
	}
	checkMetrics(t, registry)

	// Release is of the owner's own only, and may be repeated (S6).
	if err := m.Release(ctx, widget("somebody else"), first.Address); err != nil {
		t.Error(err)
	}
	if _, err := clientset.NetworkingV1().IPAddresses().Get(ctx, first.Address.String(), metav1.GetOptions{}); err != nil {
		t.Errorf("released by one who does not own it: %v", err)
	}
	for range 2 {
		for _, a := range held {
			if err := m.Release(ctx, a.Owner, a.Address); err != nil {
				t.Error(err)
			}
		}
	}
	left, err := c.addresses(ctx, informer.DefaultManager)
	if err != nil || len(left) > 0 {
		t.Errorf("left after all was released: %v, %v", left, err)
	}

	// A ServiceCIDR of the other family serves from the moment it is ready to the moment it is deleted.
	c.createServiceCIDR(t, "six", "fd00::/124")
	c.waitUntilReady(t, "six")
	six := meta.Request{Owner: widget("six"), Families: []cidr.Family{cidr.IPv6}}
	eventually(t, "an IPv6 address is allocated", func(ctx context.Context) error {
		_, err := m.Allocate(ctx, six)
		return err
	})
	c.deleteServiceCIDR(t, "six")
	eventually(t, "the deletion is seen", func(context.Context) error {
		for _, row := range m.Status().CIDRs {
			if row.ServiceCIDR == "six" && row.Terminating {
				return nil
			}
		}
		return errors.New("not yet")
	})
	_, err = m.Allocate(ctx, six)
	mustBe(t, err, meta.ErrNotReady, "fd00::/124 (six)", "it is terminating")

	// Upstream's controller alone does not wait for an address that bears another manager's label: the ServiceCIDR
	// goes. What needs no ServiceCIDR is the release.
	c.waitUntilGone(t, "six")
	left, err = c.addresses(ctx, informer.DefaultManager)
	if err != nil || len(left) != 1 {
		t.Fatalf("IPAddresses %v, %v, want the one of %s", left, err, six.Owner)
	}
	eventually(t, "the replica sees that it is gone", func(ctx context.Context) error {
		if _, err := m.Allocate(ctx, six); !errors.Is(err, meta.ErrNoServiceCIDR) {
			return fmt.Errorf("allocating answers %v", err)
		}
		return nil
	})
	for addr := range left {
		if err := m.Release(ctx, six.Owner, addr); err != nil {
			t.Error(err)
		}
	}
	if left, err = c.addresses(ctx, informer.DefaultManager); err != nil || len(left) > 0 {
		t.Errorf("left after the release: %v, %v", left, err)
	}
}

// mustBe checks the kind of an error, and that its text has all that its reader needs.
func mustBe(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("error %v, want one that is %q", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not say %q", err, word)
		}
	}
}

func addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParseAddr(text)
	}
	return out
}

// checkDryRunWritesNothing follows the IPAddresses while dry runs are answered: the first change is the one that
// comes after them.
func checkDryRunWritesNothing(t *testing.T, c *cluster, m *meta.MetaAllocator) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	addresses := c.client.NetworkingV1().IPAddresses()
	list, err := addresses.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: addresses.Watch})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { changes.Stop(); <-changes.Done() }()

	free := m.Status().CIDRs[0].Dynamic.Free
	for i := range 30 { // more often than there are addresses
		answer, err := m.Allocate(ctx, meta.Request{Owner: widget("dry"), Families: []cidr.Family{cidr.IPv4}, DryRun: true})
		if err != nil || len(answer) != 1 || answer[0].UID != "" {
			t.Errorf("dry run %d: %+v, %v", i, answer, err)
		}
	}
	_, err = m.Allocate(ctx, meta.Request{Owner: widget("dry"), Addresses: addrs("10.96.0.1"), DryRun: true})
	mustBe(t, err, meta.ErrAllocated)
	if now := m.Status().CIDRs[0].Dynamic.Free; now != free {
		t.Errorf("%s addresses are free after dry runs, %s were before", now, free)
	}

	marker, err := m.Allocate(ctx, meta.Request{Owner: widget("marker"), Families: []cidr.Family{cidr.IPv4}})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-changes.ResultChan():
		if obj, err := apimeta.Accessor(e.Object); err != nil || obj.GetUID() != marker[0].UID {
			t.Errorf("a dry run has written: %s %+v", e.Type, e.Object)
		}
	case <-ctx.Done():
		t.Error("the watch tells of nothing")
	}
	if err := m.Release(ctx, widget("marker"), marker[0].Address); err != nil {
		t.Error(err)
	}
}

// checkMetrics gathers what a user's registry would, and compares names, labels and some values.
func checkMetrics(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	const prefix = "kube_apiserver_clusterip_allocator_"
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("metric %s: %s", p.Metric, p.Text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{}
	for _, f := range families {
		var names []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			names = append(names, l.GetName())
		}
		slices.Sort(names)
		labels[strings.TrimPrefix(f.GetName(), prefix)] = strings.Join(names, ",")
	}
	want := map[string]string{
		"allocated_ips":               "cidr",
		"available_ips":               "cidr",
		"allocation_total":            "cidr,scope",
		"allocation_errors_total":     "cidr,scope",
		"allocation_duration_seconds": "cidr",
		"allocation_collisions_total": "cidr", // not one of kube-apiserver's
	}
	if diff := cmp.Diff(want, labels); diff != "" {
		t.Errorf("metrics and their labels (-want +got):\n%s", diff)
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP `+prefix+`allocated_ips Usable addresses of the CIDR that are taken.
# TYPE `+prefix+`allocated_ips gauge
`+prefix+`allocated_ips{cidr="10.96.0.0/28"} 14
# HELP `+prefix+`available_ips Usable addresses of the CIDR that are free.
# TYPE `+prefix+`available_ips gauge
`+prefix+`available_ips{cidr="10.96.0.0/28"} 0
# HELP `+prefix+`allocation_total Addresses allocated, by CIDR and by static (asked for) or dynamic.
# TYPE `+prefix+`allocation_total counter
`+prefix+`allocation_total{cidr="10.96.0.0/28",scope="dynamic"} 14
`+prefix+`allocation_total{cidr="10.96.0.0/28",scope="static"} 0
`), prefix+"allocated_ips", prefix+"available_ips", prefix+"allocation_total")
	if err != nil {
		t.Error(err)
	}
}
