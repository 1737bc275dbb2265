// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// machine is a cluster of two controllers and two allocators whose watches are
// late, and of people who create and delete ServiceCIDRs, also while one of the
// others is in the middle of its calls.
type machine struct {
	server      *simapi.Server
	controllers [2]*cluster
	allocators  [2]*allocating
	modes       [2]meta.Verification
	seed        uint64
	created     int
	confirmed   map[netip.Addr]confirmation
	inCall      bool // one call interrupts another: no third one
}

type confirmation struct {
	uid   types.UID
	owner informer.Owner
}

type allocating struct {
	*meta.MetaAllocator
	stop func()
}

// I7: no confirmed address is ever without a ServiceCIDR, and nothing is kept
// for ever.
func TestI7_StateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := &machine{server: simapi.New(), confirmed: map[netip.Addr]confirmation{}, seed: rapid.Uint64().Draw(t, "seed")}
			defer m.server.Close()
			for i := range 2 {
				m.modes[i] = rapid.SampledFrom([]meta.Verification{meta.VerifyStale, meta.VerifyAlways}).Draw(t, "mode")
				m.startController(t, i)
				m.startAllocator(t, i)
			}
			defer func() {
				for i := range 2 {
					m.controllers[i].stop()
					m.allocators[i].stop()
				}
			}()
			m.populate(t)
			t.Repeat(map[string]func(*rapid.T){
				"sync":       m.sync,
				"sync again": m.sync,
				"pass":       m.pass,
				"pass again": m.pass,
				"allocate":   m.allocate,
				"release":    m.release,
				"create":     m.create,
				"delete":     m.delete,
				"delete all": func(t *rapid.T) {
					for _, obj := range m.server.TrueServiceCIDRs() {
						m.deleteByName(t, obj.Name)
					}
				},
				"deliver":     func(t *rapid.T) { m.deliver(t, rapid.IntRange(1, 5).Draw(t, "events")) },
				"deliver all": func(t *rapid.T) { m.deliver(t, -1) },
				"time passes": func(t *rapid.T) { m.sleep(rapid.IntRange(1, 11).Draw(t, "seconds")) },
				"restart a controller": func(t *rapid.T) {
					i := rapid.IntRange(0, 1).Draw(t, "controller")
					m.controllers[i].stop()
					m.startController(t, i)
				},
				"": m.check,
			})
			m.settle(t)
		})
	})
}

// populate gives the cluster some ServiceCIDRs that are ready, and addresses.
func (m *machine) populate(t *rapid.T) {
	for range rapid.IntRange(1, 3).Draw(t, "ServiceCIDRs") {
		m.create(t)
	}
	for range 2 { // the finalizer, and then what the allocators see of it
		for _, who := range []string{"c0", "a0", "a1"} {
			m.server.Deliver(who, -1)
		}
		synctest.Wait()
		for _, obj := range m.server.TrueServiceCIDRs() {
			if _, err := m.controllers[0].Sync(quiet(), obj.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.sleep(3) // the allocators' leases are renewed
	for range rapid.IntRange(0, 4).Draw(t, "allocations") {
		m.allocate(t)
	}
}

func (m *machine) startController(t failer, i int) {
	name := fmt.Sprint("c", i)
	m.server.Release(name)
	m.controllers[i] = newCluster(t, m.server, name)
	m.server.Hold(name)
	synctest.Wait()
}

func (m *machine) startAllocator(t failer, i int) {
	name := fmt.Sprint("a", i)
	m.seed++
	a, err := meta.New(meta.Config{Client: m.server.Client(name), Random: rand.NewPCG(m.seed, 1), ReuseDelay: -1, Verification: m.modes[i]})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	m.allocators[i] = &allocating{a, func() { cancel(); <-done }}
	if err := a.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	m.server.Hold(name)
	synctest.Wait()
}

func (m *machine) sleep(seconds int) {
	time.Sleep(time.Duration(seconds) * time.Second)
	synctest.Wait()
}

func (m *machine) deliver(t *rapid.T, n int) {
	who := rapid.SampledFrom([]string{"c0", "c1", "a0", "a1"}).Draw(t, "to")
	switch rapid.SampledFrom([]string{"", "servicecidrs", "ipaddresses"}).Draw(t, "what") {
	case "":
		m.server.Deliver(who, n)
	case "servicecidrs":
		m.server.DeliverResource(who, "servicecidrs", n)
	default:
		m.server.DeliverResource(who, "ipaddresses", n)
	}
	synctest.Wait()
}

func (m *machine) create(t *rapid.T) {
	if len(m.server.TrueServiceCIDRs()) >= 6 {
		return
	}
	m.created++
	cidrs := []string{rapid.SampledFrom([]string{"10.0.0.0/28", "10.0.0.0/28", "10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/27", "10.0.1.0/29"}).Draw(t, "prefix")}
	if rapid.IntRange(0, 3).Draw(t, "dual") == 0 {
		cidrs = append(cidrs, rapid.SampledFrom([]string{"2001:db8::/125", "2001:db8::/124"}).Draw(t, "second"))
	}
	m.server.CreateServiceCIDR(fmt.Sprint("s", m.created), "", cidrs...)
}

func (m *machine) pick(t *rapid.T) string {
	all := m.server.TrueServiceCIDRs()
	if len(all) == 0 {
		return ""
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "ServiceCIDR")].Name
}

func (m *machine) delete(t *rapid.T) { m.deleteByName(t, m.pick(t)) }

func (m *machine) deleteByName(t failer, name string) {
	err := m.server.Client("admin").ServiceCIDRs().Delete(context.Background(), name, metav1.DeleteOptions{})
	if name != "" && err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// fault arms at most one fault of a replica's calls.
func (m *machine) fault(t *rapid.T, name string) {
	errs := []error{simapi.Forbidden("no"), simapi.Unavailable(), simapi.TooManyRequests(1), simapi.ConnectionCut()}
	if rapid.IntRange(0, 3).Draw(t, "fault") > 0 {
		return
	}
	f := simapi.Fault{
		Replica: name,
		Verb:    rapid.SampledFrom([]string{"get", "list", "patch", "create", "delete"}).Draw(t, "verb"),
		Err:     rapid.SampledFrom(errs[:3]).Draw(t, "error"),
	}
	if rapid.Bool().Draw(t, "answer lost") {
		f.When, f.Err = simapi.After, errs[3]
	}
	m.server.Fail(f)
}

// interrupt arms something that happens at a random point among a replica's
// next calls.
func (m *machine) interrupt(t *rapid.T, name string) (disarm func()) {
	at := rapid.IntRange(0, 9).Draw(t, "interrupt at")
	if m.inCall || at > 7 {
		return func() {}
	}
	what := rapid.SampledFrom([]string{"delete", "delete two", "allocate", "release", "create", "other controller", "time", "deliver"}).Draw(t, "interruption")
	return m.server.OnCall(func(c simapi.Call) {
		if c.Replica != name || c.Verb == "watch" || name[0] == 'a' && c.Verb != "create" && c.Verb != "get" {
			return // the others are made in the background
		}
		at--
		if at != -1 {
			return
		}
		m.inCall = true
		defer func() { m.inCall = false }()
		switch what {
		case "delete":
			m.delete(t)
		case "delete two":
			m.delete(t)
			m.delete(t)
		case "allocate":
			m.allocate(t)
		case "release":
			m.release(t)
		case "create":
			m.create(t)
		case "other controller":
			other := rapid.IntRange(0, 1).Draw(t, "controller")
			if name == fmt.Sprint("c", other) {
				other = 1 - other
			}
			for _, obj := range m.server.TrueServiceCIDRs() {
				m.syncOne(t, other, obj.Name)
			}
		case "time":
			m.sleep(rapid.IntRange(1, 11).Draw(t, "seconds"))
		case "deliver":
			m.deliver(t, -1)
		}
	})
}

// pass is what a controller does in time: it sees the deletions, if not the
// addresses, and comes back after the grace period.
func (m *machine) pass(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "controller")
	m.server.DeliverResource(fmt.Sprint("c", i), "servicecidrs", -1)
	for range 2 {
		synctest.Wait()
		for _, obj := range m.server.TrueServiceCIDRs() {
			m.syncOne(t, i, obj.Name)
		}
		m.sleep(rapid.SampledFrom([]int{0, 1, 11, 11}).Draw(t, "seconds"))
	}
}

func (m *machine) sync(t *rapid.T) {
	m.syncOne(t, rapid.IntRange(0, 1).Draw(t, "controller"), m.pick(t))
}

func (m *machine) syncOne(t *rapid.T, i int, name string) {
	m.fault(t, fmt.Sprint("c", i))
	disarm := m.interrupt(t, fmt.Sprint("c", i))
	_, _ = m.controllers[i].Sync(quiet(), name) // whatever it says, I7 holds
	disarm()
	m.server.ClearFaults()
}

func (m *machine) allocate(t *rapid.T) {
	i := rapid.IntRange(0, 1).Draw(t, "allocator")
	owner := informer.Owner{Group: "example.com", Resource: "widgets", Name: fmt.Sprint("w", rapid.IntRange(0, 3).Draw(t, "owner"))}
	if rapid.Bool().Draw(t, "service") {
		owner = informer.ServiceOwner("default", owner.Name)
	}
	request := meta.Request{Owner: owner, Families: rapid.SampledFrom([][]cidr.Family{
		{cidr.IPv4}, {cidr.IPv4}, {cidr.IPv6}, {cidr.IPv4, cidr.IPv6}}).Draw(t, "families")}
	m.fault(t, fmt.Sprint("a", i))
	disarm := m.interrupt(t, fmt.Sprint("a", i))
	got, err := m.allocators[i].Allocate(quiet(), request)
	disarm()
	m.server.ClearFaults()
	if err != nil {
		return
	}
	for _, a := range got {
		m.confirmed[a.Address] = confirmation{a.UID, owner}
	}
}

func (m *machine) release(t *rapid.T) {
	var all []netip.Addr
	for a := range m.confirmed {
		all = append(all, a)
	}
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, netip.Addr.Compare)
	a := all[rapid.IntRange(0, len(all)-1).Draw(t, "address")]
	owner := m.confirmed[a].owner
	delete(m.confirmed, a)
	// If it fails, the address stays, and nobody was promised anything.
	_ = m.allocators[rapid.IntRange(0, 1).Draw(t, "allocator")].Release(quiet(), owner, a)
}

func (m *machine) check(t *rapid.T) {
	present := map[string]types.UID{}
	for _, o := range m.server.TrueIPAddresses() {
		present[o.Name] = o.UID
	}
	cidrs := m.server.TrueServiceCIDRs()
	for a, c := range m.confirmed {
		if present[a.String()] != c.uid {
			t.Fatalf("I8: %s of %s is gone", a, c.owner)
		}
		if !slices.ContainsFunc(cidrs, func(obj networkingv1.ServiceCIDR) bool { return informer.NewServiceCIDR(&obj).CoversUsable(a) }) {
			t.Fatalf("I7: %s of %s is in no ServiceCIDR", a, c.owner)
		}
	}
	for _, obj := range cidrs {
		row := informer.NewServiceCIDR(&obj)
		if !row.Terminating && row.ReadyStatus == metav1.ConditionTrue && !row.HasFinalizer {
			t.Fatalf("%s is ready and nothing keeps it", row.Name)
		}
	}
}

// settle: with all delivered, the rest is as the rules say: a deleted
// ServiceCIDR is there if, and only if, addresses depend on it.
func (m *machine) settle(t *rapid.T) {
	for i := range 2 {
		m.server.Release(fmt.Sprint("c", i))
		m.server.Release(fmt.Sprint("a", i))
	}
	time.Sleep(3 * time.Minute) // the allocators clean up
	for range 4 {
		synctest.Wait()
		for _, obj := range m.server.TrueServiceCIDRs() {
			for _, c := range m.controllers {
				if _, err := c.Sync(quiet(), obj.Name); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
		}
		m.sleep(11)
	}
	m.check(t)
	var rows []*informer.ServiceCIDR
	for _, obj := range m.server.TrueServiceCIDRs() {
		rows = append(rows, informer.NewServiceCIDR(&obj))
	}
	for _, row := range rows {
		if !row.Terminating {
			if !living(row).shownBy(row) || !row.HasFinalizer {
				t.Fatalf("%s says %s %q", row.Name, row.ReadyStatus, row.ReadyMessage)
			}
			continue
		}
		if !slices.ContainsFunc(m.server.TrueIPAddresses(), func(o networkingv1.IPAddress) bool {
			return naive(rows, row, nil, netip.MustParseAddr(o.Name))
		}) {
			t.Fatalf("%s waits for nothing: %q", row.Name, row.ReadyMessage)
		}
	}
}
