// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/e2e/history"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// The ServiceCIDRs of TestManyCIDRs. Gamma is created, and beta deleted, while addresses are allocated.
//
//	          kubernetes        alpha            beta                         gamma
//	                                               nested
//	IPv4  |------ /22 -----| |----- /22 ----| |----|/24|------ /21 -------| |------ /21 -------|
//	IPv6  |------ /116 ----| |----- /112 ---| |----|/120|----- /116 ------| |------ /116 ------|
var (
	default4, default6 = cidr.MustParse("10.96.0.0/22"), cidr.MustParse("fd00:10:96::/116")
	alpha4, alpha6     = cidr.MustParse("10.100.0.0/22"), cidr.MustParse("fd00:100::/112")
	beta4, beta6       = cidr.MustParse("10.104.0.0/21"), cidr.MustParse("fd00:104::/116")
	nested4, nested6   = cidr.MustParse("10.104.2.0/24"), cidr.MustParse("fd00:104::500/120")
	gamma4, gamma6     = cidr.MustParse("10.108.0.0/21"), cidr.MustParse("fd00:108::/116")
)

// graceEnd is when upstream's controller, 10 s after a deletion, has long removed a finalizer that nothing holds.
const graceEnd = 12 * time.Second

// onlyInBeta reports that no other ServiceCIDR covers the address.
func onlyInBeta(a netip.Addr) bool {
	return (beta4.Contains(a) && !nested4.Contains(a)) || (beta6.Contains(a) && !nested6.Contains(a))
}

const (
	workersPerReplica = 32
	serviceWorkers    = 4
	wantedPeak        = 3000 // addresses held at one time
	wantedAfterwards  = 200  // allocations of each replica that begin after it knows of the deletion
)

// TestManyCIDRs runs the main job as a whole: two replicas and kube-apiserver's own allocator allocate from the
// same ServiceCIDRs, which come and go meanwhile. I1, I2, I4, I5, I7, I9, I10, S15, S18, S19, S24 and S29.
func TestManyCIDRs(t *testing.T) {
	c := startCluster(t, default4.String()+","+default6.String())
	c.runController(t)
	c.createServiceCIDR(t, "alpha", alpha4.String(), alpha6.String())
	c.createServiceCIDR(t, "beta", beta4.String(), beta6.String())
	c.createServiceCIDR(t, "nested4", nested4.String())
	c.createServiceCIDR(t, "nested6", nested6.String())
	c.waitUntilReady(t, "kubernetes", "alpha", "beta", "nested4", "nested6")

	stale := c.startReplica(t, "stale", meta.VerifyStale)
	always := c.startReplica(t, "always", meta.VerifyAlways)
	replicas := []*replica{stale, always}
	for _, r := range replicas {
		r.waitUntilReady(t, default4, default6, alpha4, alpha6, beta4, beta6, nested4, nested6)
	}
	before := countsOf(stale)
	recorded, ledger := history.Record(t, c.client.NetworkingV1()), newLedger()
	m := &many{cluster: c, replicas: replicas, ledger: ledger, history: recorded}
	var err error
	m.holder, err = createService(t.Context(), c.client, ledger, "holder", "10.104.7.7", "fd00:104::777")
	if err != nil {
		t.Fatal(err)
	}

	for _, stage := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"I5_CIDRsAreDrawnByTheirFreeAddresses", m.spreads},
		{"LoadWhileOneIsAddedAndOneDeleted", m.load},
		{"I1_I9_TheServerHoldsWhatWasConfirmed", m.serverAgrees},
		{"I2_I4_GrantsFitWhatTheReplicaKnew", func(t *testing.T) { _, all := ledger.state(); checkViews(t, all) }},
		{"S19_NothingComesFromADeletedCIDR", m.nothingFromDeleted},
		{"I7_EveryAddressIsCoveredAtEveryRevision", m.covered},
		{"AServicesAddressIsAsKubeAPIServerWritesIt", m.serviceAddress},
		{"TheRepairLoopOfKubeAPIServerHasNoComplaint", m.repairLoop},
		{"S29_TheDeletedCIDRStaysWhileItIsNeeded", m.deletedStays},
		{"I10_AllIsReleasedAndTheCountsAreAsBefore", func(t *testing.T) { m.releaseAll(t, before) }},
		{"DeletedCIDRsGo", m.deleteAll},
	} {
		if !t.Run(stage.name, stage.run) {
			return // what follows would only repeat it
		}
	}
}

// many is the state that the stages of TestManyCIDRs share.
type many struct {
	*cluster
	replicas []*replica
	ledger   *ledger
	history  *history.History
	workers  []*worker
	services []*serviceWorker
	holder   *corev1.Service // what keeps beta
	seed     []grant         // held by no worker
}

// countsOf is how many addresses each CIDR has taken in each band.
func countsOf(r *replica) map[string][2]uint64 {
	counts := map[string][2]uint64{}
	for _, s := range r.Status().CIDRs {
		counts[s.ServiceCIDR+" "+s.Prefix.String()] = [2]uint64{s.Static.Taken.Saturate64(), s.Dynamic.Taken.Saturate64()}
	}
	return counts
}

// spreads lets each replica alone draw addresses, while alpha is more than half full, so that weights by size
// and weights by free addresses differ.
func (m *many) spreads(t *testing.T) {
	const occupied = 560
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(workersPerReplica)
	for i := range occupied {
		group.Go(func() error {
			addr := alpha4.Dynamic().At(cidr.U128(uint(i)))
			request := meta.Request{Owner: widget("seed-" + addr.String()), Addresses: []netip.Addr{addr}}
			r := m.replicas[0]
			from := r.View().Snapshot().Sequence()
			allocations, err := r.Allocate(ctx, request)
			for _, g := range allocationsOf(r, request, from, allocations) {
				m.ledger.enter(g)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, r := range m.replicas {
		m.waitUntilViewIsComplete(t, r)
		var both sync.WaitGroup
		both.Go(func() { spread(t, r, m.ledger, cidr.IPv4, 400) })
		both.Go(func() { spread(t, r, m.ledger, cidr.IPv6, 600) })
		both.Wait()
	}
	held, _ := m.ledger.state()
	for _, g := range held {
		if g.by != nil {
			m.seed = append(m.seed, g)
		}
	}
}

// waitUntilViewIsComplete waits until the replica's view has every address of the ledger.
func (m *many) waitUntilViewIsComplete(t *testing.T, r *replica) {
	t.Helper()
	held, _ := m.ledger.state()
	eventually(t, "replica "+r.name+" sees all addresses", func(context.Context) error {
		snapshot := r.View().Snapshot()
		var lacking []netip.Addr
		for addr := range held {
			if !snapshot.Present(cidr.FamilyOf(addr)).Has(addr) {
				lacking = append(lacking, addr)
			}
		}
		if len(lacking) > 0 {
			return fmt.Errorf("it lacks %d of %d, such as %s", len(lacking), len(held), lacking[0])
		}
		return nil
	})
}

// load runs all workers while gamma is added and then beta deleted.
func (m *many) load(t *testing.T) {
	fixed := []cidr.Range{default4, default6, alpha4, beta4, beta6, nested4, gamma4, gamma6}
	for _, r := range m.replicas {
		for i := range workersPerReplica {
			m.workers = append(m.workers, newWorker(r, m.ledger, i, 16, fixed...))
		}
	}
	for i := range serviceWorkers {
		m.services = append(m.services, &serviceWorker{client: m.client, ledger: m.ledger, name: fmt.Sprintf("service-%d", i), target: 24})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	stop := make(chan struct{})
	var running sync.WaitGroup
	for _, w := range m.workers {
		running.Go(func() { w.run(ctx, stop) })
	}
	for _, w := range m.services {
		running.Go(func() { w.run(ctx, stop) })
	}
	defer running.Wait() // if a wait below fails
	defer cancel()

	m.waitForGrants(t, "some load before the topology changes", 150)
	m.createServiceCIDR(t, "gamma4", gamma4.String())
	m.createServiceCIDR(t, "gamma6", gamma6.String())
	for _, r := range m.replicas {
		r.waitUntilReady(t, gamma4, gamma6)
	}
	m.waitForGrants(t, "load with the new CIDRs", 150)
	m.deleteServiceCIDR(t, "beta")
	for _, r := range m.replicas {
		r.waitFor(t, "beta is not ready", func(topology *informer.Topology) bool {
			p, ok := topology.Get(beta4)
			return ok && !p.Ready
		})
	}
	m.waitForGrants(t, "load after the deletion", wantedAfterwards+workersPerReplica)
	eventually(t, fmt.Sprintf("%d addresses are held", wantedPeak), func(context.Context) error {
		if _, peak := m.ledger.count(); peak < wantedPeak {
			return fmt.Errorf("%d at most", peak)
		}
		return nil
	})
	close(stop)
	running.Wait()

	outcome := map[string]int{}
	for _, w := range m.workers {
		for name, n := range w.outcome {
			outcome[name] += n
		}
	}
	made := 0
	for _, w := range m.services {
		made += w.made
	}
	now, peak := m.ledger.count()
	t.Logf("calls: %v; Services created: %d; addresses held: %d, at most %d", outcome, made, now, peak)
	m.ledger.report(t)
}

// waitForGrants waits until each replica has made n allocations more.
func (m *many) waitForGrants(t *testing.T, what string, n int64) {
	t.Helper()
	for _, r := range m.replicas {
		want := r.granted.Load() + n
		eventually(t, what+", replica "+r.name, func(context.Context) error {
			if now := r.granted.Load(); now < want {
				return fmt.Errorf("%d allocations, want %d", now, want)
			}
			return nil
		})
	}
}

func (m *many) serverAgrees(t *testing.T) {
	held, _ := m.ledger.state()
	// Undone creates and deletes of Services may take a moment; nothing else changes any more.
	eventually(t, "ledger and server agree", func(ctx context.Context) error {
		return checkServerAgrees(ctx, m.cluster, held)
	})
	m.ledger.report(t)
}

// nothingFromDeleted checks the calls that began when the replica's view showed beta terminating.
func (m *many) nothingFromDeleted(t *testing.T) {
	_, all := m.ledger.state()
	afterwards := map[*replica]int{}
	var faults []string
	for _, g := range all {
		if g.by == nil {
			continue
		}
		known := g.by.timeline.during(g.from, g.from)
		if p, ok := known[0].Get(beta4); !ok || p.Ready {
			continue
		}
		afterwards[g.by]++
		if onlyInBeta(g.address) {
			faults = append(faults, fmt.Sprintf("%s was granted by %s, which knew beta to be terminating", g.address, g.by.name))
		}
	}
	reportSome(t, faults)
	for _, r := range m.replicas {
		if afterwards[r] < wantedAfterwards {
			t.Errorf("replica %s granted %d addresses after it knew of the deletion, want %d", r.name, afterwards[r], wantedAfterwards)
		}
	}
}

func (m *many) covered(t *testing.T) {
	eventually(t, "the history is up to date", m.history.UpToDate)
	_, all := m.ledger.state()
	checkCovered(t, m.history, all)
	checkDeletion(t, m.history, "beta", onlyInBeta, all)
	m.history.Stop() // the next stage ends its watches
}

// serviceAddress compares the IPAddresses that kube-apiserver and a replica write for the same Service.
func (m *many) serviceAddress(t *testing.T) {
	service, err := createService(t.Context(), m.client, newLedger(), "twin")
	if err != nil {
		t.Fatal(err)
	}
	if len(service.Spec.ClusterIPs) != 2 {
		t.Fatalf("clusterIPs %v, want one of each family", service.Spec.ClusterIPs)
	}
	addresses := m.client.NetworkingV1().IPAddresses()
	owner := informer.ServiceOwner(service.Namespace, service.Name)
	var theirs []*networkingv1.IPAddress
	var wanted []netip.Addr
	for _, ip := range service.Spec.ClusterIPs {
		obj, err := addresses.Get(t.Context(), ip, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		theirs, wanted = append(theirs, obj), append(wanted, netip.MustParseAddr(ip))
	}
	if err := m.client.CoreV1().Services("default").Delete(t.Context(), service.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, ip := range service.Spec.ClusterIPs {
		eventually(t, "kube-apiserver has released "+ip, func(ctx context.Context) error {
			if _, err := addresses.Get(ctx, ip, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %v", err)
			}
			return nil
		})
	}
	allocations, err := m.replicas[0].Allocate(t.Context(), meta.Request{Owner: owner, Addresses: wanted})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range allocations {
		ours, err := addresses.Get(t.Context(), a.Address.String(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(theirs[i].Labels, ours.Labels); diff != "" {
			t.Errorf("%s: labels differ from kube-apiserver's (-want +got):\n%s", a.Address, diff)
		}
		if diff := cmp.Diff(theirs[i].Spec, ours.Spec); diff != "" {
			t.Errorf("%s: spec differs from kube-apiserver's (-want +got):\n%s", a.Address, diff)
		}
	}
	if err := m.replicas[0].Release(t.Context(), owner, wanted...); err != nil {
		t.Fatal(err)
	}
}

// deletedStays checks that beta, long after its grace period, is still there for the Service that holds it.
func (m *many) deletedStays(t *testing.T) {
	eventually(t, "the grace period is over and beta is still there", func(ctx context.Context) error {
		obj, err := m.client.NetworkingV1().ServiceCIDRs().Get(ctx, "beta", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%w: beta is gone", errNever)
		} else if err != nil {
			return err
		}
		if since := time.Since(obj.DeletionTimestamp.Time); since < graceEnd {
			return fmt.Errorf("deleted only %v ago", since)
		}
		ready := apimeta.FindStatusCondition(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != networkingv1.ServiceCIDRReasonTerminating {
			return fmt.Errorf("condition %+v", ready)
		}
		return nil
	})
}

func (m *many) releaseAll(t *testing.T, before map[string][2]uint64) {
	ctx := t.Context()
	var running sync.WaitGroup
	for i, w := range m.workers {
		for j := i; j < len(m.seed); j += len(m.workers) {
			w.mine = append(w.mine, m.seed[j]) // released by the other replica, too: it need not be the one that granted
		}
		running.Go(func() { w.releaseAll(ctx) })
	}
	for _, w := range m.services {
		running.Go(func() {
			for len(w.mine) > 0 && ctx.Err() == nil {
				w.delete(ctx)
			}
		})
	}
	running.Wait()
	m.ledger.report(t)
	ours, err := m.addresses(ctx, informer.DefaultManager)
	if err != nil {
		t.Fatal(err)
	}
	if len(ours) > 0 {
		t.Errorf("%d IPAddresses of ours are left", len(ours))
	}
	if held, _ := m.ledger.state(); len(held) != 2 {
		t.Errorf("the ledger has %d addresses, want the two of the holder", len(held))
	}

	// Last what holds beta: only now may it go.
	if err := deleteService(ctx, m.client, m.ledger, m.holder); err != nil {
		t.Fatal(err)
	}
	m.waitUntilGone(t, "beta")
	want := map[string][2]uint64{
		"gamma4 " + gamma4.String(): {},
		"gamma6 " + gamma6.String(): {},
	}
	for name, counts := range before {
		if name != "beta "+beta4.String() && name != "beta "+beta6.String() {
			want[name] = counts
		}
	}
	for _, r := range m.replicas {
		eventually(t, "the counts of replica "+r.name+" are as they were", func(context.Context) error {
			if got := countsOf(r); !reflect.DeepEqual(got, want) {
				return fmt.Errorf("the view has %v; taken in {static, dynamic} bands (-want +got):\n%s", slices.Collect(present(r)), cmp.Diff(want, got))
			}
			return nil
		})
	}
}

// present yields the addresses in the replica's view.
func present(r *replica) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		for row := range r.View().Snapshot().IPAddresses() {
			if !yield(row.Addr) {
				return
			}
		}
	}
}

func (m *many) deleteAll(t *testing.T) {
	names := []string{"alpha", "nested4", "nested6", "gamma4", "gamma6"}
	for _, name := range names {
		m.deleteServiceCIDR(t, name)
	}
	m.waitUntilGone(t, names...)
	for _, r := range m.replicas {
		r.waitFor(t, "only the default ServiceCIDR is left", func(topology *informer.Topology) bool {
			return slices.EqualFunc(topology.Prefixes(), []cidr.Range{default4, default6}, func(p *informer.Prefix, want cidr.Range) bool {
				return p.Range == want && p.Maximal
			})
		})
	}
}
