// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// rapidInBubble is what rapid.Check gets in a bubble, where a test has no deadline.
type rapidInBubble struct{ rapid.TB }

// machine is a cluster with an allocator whose watches are late, owners of two
// resources that come, go and come back, damage, and two repair controllers:
// one with the allocator's stale View, one with lists of its own. It keeps what
// must be true beside what any of them believes.
type machine struct {
	server    *simapi.Server
	widgets   *widgets
	allocator *meta.MetaAllocator
	stop      func()
	repair    [2]*Controller
	confirmed map[netip.Addr]confirmation // of live owners
	robbed    map[netip.Addr]bool         // damaged while an owner had it: anybody may have got it
	serial    int
	change    func(*Config) // of the controllers; nil for none
	focus     string        // the disturbance of every pass; empty for any
}

type confirmation struct {
	owner informer.Owner
	uid   types.UID // of the IPAddress
}

// I1, I8 and I9 of repair: no IPAddress of a live owner is removed, by nothing
// but damage do two owners have one address, and in the end all is one to one.
func TestRepair_StateMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(rapidInBubble{t}, stateMachine(nil, ""))
	})
}

// stateMachine is a case with controllers whose configuration is changed, and
// passes that are disturbed in that way, or in any if it is empty.
func stateMachine(change func(*Config), focus string) func(*rapid.T) {
	return func(t *rapid.T) {
		m := &machine{
			change: change, focus: focus,
			server: simapi.New(simapi.WithClock(clock.RealClock{})), widgets: &widgets{objects: map[string]Claims{}, now: time.Now},
			confirmed: map[netip.Addr]confirmation{}, robbed: map[netip.Addr]bool{},
		}
		defer m.server.Close()
		m.server.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.0.0.0/28", "2001:db8::/124")
		m.server.AddFinalizer("kubernetes", informer.Finalizer)
		m.startAllocator(t, rapid.Uint64().Draw(t, "seed"))
		defer func() { m.stop() }()
		for i := range m.repair {
			m.restart(t, i)
		}
		guard(t, m.server, m.widgets, func(replica string) bool { return strings.HasPrefix(replica, "repair") })
		t.Repeat(map[string]func(*rapid.T){
			"create an owner":       m.create,
			"create another owner":  m.create,
			"delete an owner":       m.deleteOwner,
			"allocate for nobody":   m.leak,
			"lose an IPAddress":     m.lose,
			"spoil labels":          m.spoil,
			"repair":                m.pass,
			"repair again":          m.pass,
			"restart":               func(t *rapid.T) { m.restart(t, rapid.IntRange(0, 1).Draw(t, "replica")) },
			"time passes":           func(t *rapid.T) { m.sleep(rapid.SampledFrom([]int{1, 5, 30, 61}).Draw(t, "s")) },
			"deliver":               func(t *rapid.T) { m.server.Deliver("allocator", rapid.IntRange(1, 5).Draw(t, "n")); synctest.Wait() },
			"deliver all":           func(*rapid.T) { m.server.Deliver("allocator", -1); synctest.Wait() },
			"the owner comes back":  m.comeBack,
			"restore from a backup": m.restore,
			"":                      m.check,
		})
		m.settle(t)
	}
}

func (m *machine) startAllocator(t *rapid.T, seed uint64) {
	a, err := meta.New(meta.Config{Client: m.server.Client("allocator"), Random: rand.NewPCG(seed, 1), ReuseDelay: -1})
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
	m.allocator, m.stop = a, func() { cancel(); <-done }
	if err := a.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	m.server.Hold("allocator")
	synctest.Wait()
}

func (m *machine) restart(t *rapid.T, i int) {
	client := m.server.Client(fmt.Sprint("repair", i))
	config := Config{Client: client, Owners: []Registration{{Owners: Services(client)}, {Owners: m.widgets}}, Recorder: &recorder{}}
	if i == 0 {
		config.View = m.allocator.View()
	}
	if m.change != nil {
		m.change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	m.repair[i] = c
}

func (m *machine) sleep(seconds int) {
	time.Sleep(time.Duration(seconds) * time.Second)
	synctest.Wait()
}

// claimants is who claims an address in truth.
func (m *machine) claimants(addr netip.Addr) []informer.Owner {
	return claimedBy(m.server, m.widgets)[addr.String()]
}

// exists reports whether the owner is there.
func (m *machine) exists(owner informer.Owner) bool {
	if owner.IsService() {
		return slices.ContainsFunc(m.server.TrueServices(), func(s corev1.Service) bool { return s.Name == owner.Name })
	}
	_, err := m.widgets.Get(context.Background(), owner)
	return err == nil
}

// store stores the owner with its claims.
func (m *machine) store(t *rapid.T, owner informer.Owner, addresses []string) {
	if !owner.IsService() {
		m.widgets.put(owner.Name, addresses...)
		return
	}
	_, err := m.server.Client("admin").Services(owner.Namespace).Create(context.Background(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: owner.Name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: addresses[0], ClusterIPs: addresses},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// someOwner draws an owner that is not there; few names, so that they come back.
func (m *machine) someOwner(t *rapid.T) informer.Owner {
	name := fmt.Sprint("o", rapid.IntRange(0, 5).Draw(t, "name"))
	owner := widget(name)
	if rapid.Bool().Draw(t, "service") {
		owner = service(name)
	}
	if m.exists(owner) {
		t.Skip("it is there")
	}
	return owner
}

// obtain makes the IPAddresses of an owner to be: through the allocator, or by
// a create of somebody who has none.
func (m *machine) obtain(t *rapid.T, owner informer.Owner) map[netip.Addr]types.UID {
	out := map[netip.Addr]types.UID{}
	if rapid.IntRange(0, 2).Draw(t, "direct") == 0 {
		addr := fmt.Sprintf("10.0.0.%d", rapid.IntRange(1, 14).Draw(t, "address"))
		obj, err := m.server.Client("admin").IPAddresses().Create(context.Background(), object(addr, owner), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			t.Skip("taken")
		}
		if err != nil {
			t.Fatal(err)
		}
		out[netip.MustParseAddr(addr)] = obj.UID
		return out
	}
	families := rapid.SampledFrom([][]cidr.Family{{cidr.IPv4}, {cidr.IPv6}, {cidr.IPv4, cidr.IPv6}}).Draw(t, "families")
	got, err := m.allocator.Allocate(quiet(), meta.Request{Owner: owner, Families: families})
	if errors.Is(err, meta.ErrFull) {
		t.Skip("full")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got {
		out[a.Address] = a.UID
	}
	return out
}

// create is an owner's creation as an API server does it: addresses first, then
// the owner, with time and repairs in between, but less than a grace period.
func (m *machine) create(t *rapid.T) {
	owner := m.someOwner(t)
	got := m.obtain(t, owner)
	for _, n := range rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 4, 20}), 0, 2).Draw(t, "in between") {
		m.sleep(n)
		m.sync(t, rapid.IntRange(0, 1).Draw(t, "replica"), false)
	}
	var addresses []string
	for _, addr := range slices.SortedFunc(maps.Keys(got), netip.Addr.Compare) {
		addresses = append(addresses, addr.String())
		if by := m.claimants(addr); len(by) > 0 {
			if !m.robbed[addr] {
				t.Fatalf("I1: %s was allocated to %s, and %s has it", addr, owner, by)
			}
			continue // nobody is sure of it any more
		}
		m.confirmed[addr] = confirmation{owner, got[addr]}
		m.robbed[addr] = false
	}
	m.store(t, owner, addresses)
}

// comeBack is an owner that is deleted and at once created again, with another
// address; its old one is released late, if ever.
func (m *machine) comeBack(t *rapid.T) {
	owner, old := m.pickOwner(t)
	m.removeOwner(t, owner)
	got := m.obtain(t, owner)
	var addresses []string
	for _, addr := range slices.SortedFunc(maps.Keys(got), netip.Addr.Compare) {
		if len(m.claimants(addr)) > 0 {
			t.Skip("of a robbed owner") // leaks what was obtained
		}
		addresses = append(addresses, addr.String())
	}
	for addr, uid := range got {
		m.confirmed[addr] = confirmation{owner, uid}
		m.robbed[addr] = false
	}
	m.store(t, owner, addresses)
	if rapid.Bool().Draw(t, "released") {
		m.sleep(1)
		m.release(t, owner, old)
	}
}

// restore is an owner from a backup: stored with an address and no IPAddress.
func (m *machine) restore(t *rapid.T) {
	owner := m.someOwner(t)
	addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(rapid.IntRange(1, 14).Draw(t, "address"))})
	if len(m.claimants(addr)) > 0 {
		t.Skip("taken")
	}
	m.robbed[addr] = true
	m.store(t, owner, []string{addr.String()})
}

// pickOwner draws an owner that is there, and its addresses.
func (m *machine) pickOwner(t *rapid.T) (informer.Owner, []netip.Addr) {
	of := map[string][]netip.Addr{}
	owners := map[string]informer.Owner{}
	for text, by := range claimedBy(m.server, m.widgets) {
		for _, o := range by {
			owners[o.String()] = o
			of[o.String()] = append(of[o.String()], netip.MustParseAddr(text))
		}
	}
	if len(owners) == 0 {
		t.Skip("no owner")
	}
	key := rapid.SampledFrom(slices.Sorted(maps.Keys(owners))).Draw(t, "owner")
	addrs := of[key]
	slices.SortFunc(addrs, netip.Addr.Compare)
	return owners[key], addrs
}

func (m *machine) removeOwner(t *rapid.T, owner informer.Owner) {
	for addr, c := range m.confirmed {
		if c.owner == owner {
			delete(m.confirmed, addr)
		}
	}
	if !owner.IsService() {
		m.widgets.remove(owner.Name)
		return
	}
	if err := m.server.Client("admin").Services(owner.Namespace).Delete(context.Background(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) release(t *rapid.T, owner informer.Owner, addrs []netip.Addr) {
	for _, addr := range addrs {
		if slices.Contains(m.claimants(addr), owner) {
			continue
		}
		if err := m.allocator.Release(quiet(), owner, addr); err != nil {
			t.Fatal(err)
		}
	}
}

// deleteOwner deletes an owner; its addresses are released, or are left by a crash.
func (m *machine) deleteOwner(t *rapid.T) {
	owner, addrs := m.pickOwner(t)
	m.removeOwner(t, owner)
	if rapid.Bool().Draw(t, "released") {
		m.release(t, owner, addrs)
	}
}

// leak is a call that crashed between the allocation and the owner.
func (m *machine) leak(t *rapid.T) { m.obtain(t, m.someOwner(t)) }

// lose is damage: an owner's IPAddress is gone.
func (m *machine) lose(t *rapid.T) {
	_, addrs := m.pickOwner(t)
	for _, addr := range addrs {
		err := m.server.Client("admin").IPAddresses().Delete(context.Background(), addr.String(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		m.robbed[addr] = true
		delete(m.confirmed, addr)
	}
}

// spoil is damage to the labels of any IPAddress.
func (m *machine) spoil(t *rapid.T) {
	objs := m.server.TrueIPAddresses()
	if len(objs) == 0 {
		t.Skip("none")
	}
	obj := objs[rapid.IntRange(0, len(objs)-1).Draw(t, "IPAddress")]
	// The ip-family label is not in a View; lists see it.
	patch := rapid.SampledFrom([]string{
		`{"metadata":{"labels":{"` + informer.LabelIPFamily + `":null}}}`,
		`{"metadata":{"labels":{"` + informer.LabelManagedBy + `":"` + informer.CoreManager + `"}}}`,
		`{"metadata":{"labels":{"` + informer.LabelManagedBy + `":"` + informer.DefaultManager + `"}}}`,
	}).Draw(t, "patch")
	if _, err := m.server.Client("admin").IPAddresses().Patch(context.Background(), obj.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) pass(t *rapid.T) { m.sync(t, rapid.IntRange(0, 1).Draw(t, "replica"), true) }

// sync is one pass of a replica. With disturbances, something happens at one of
// its calls: the other replica's pass, an owner's end, an allocation, a fault or
// a crash.
func (m *machine) sync(t *rapid.T, i int, disturbed bool) {
	ctx, cancel := context.WithCancel(quiet())
	defer cancel()
	disarm := func() {}
	quietPass := true
	if disturbed {
		what := rapid.SampledFrom([]string{"", "", "other", "delete owner", "allocate", "re-allocate", "re-allocate", "crash", "refuse", "lose answer", "deliver", "owner born"}).Draw(t, "disturbance")
		at := rapid.IntRange(1, 12).Draw(t, "at call")
		verb := rapid.SampledFrom([]string{"", "delete", "create"}).Draw(t, "of verb") // or of any
		phase := rapid.SampledFrom([]simapi.Phase{simapi.Before, simapi.After}).Draw(t, "phase")
		victim := rapid.IntRange(0, 50).Draw(t, "victim")
		if m.focus != "" {
			what = m.focus
		}
		switch what {
		case "re-allocate": // where it matters
			if m.focus != "" {
				verb, phase = "delete", simapi.Before
			}
		case "owner born":
			verb, phase = "get", simapi.Before
		}
		quietPass = what == "" || what == "deliver"
		n := 0
		name := fmt.Sprint("repair", i)
		disarm = m.server.OnCall(func(c simapi.Call) {
			if c.Replica != name || c.Phase != phase || verb != "" && c.Verb != verb {
				return
			}
			if n++; verb == "" && n != at || n > 1 && verb != "" {
				return
			}
			switch what {
			case "other":
				m.sync(t, 1-i, false)
			case "delete owner":
				var owners []informer.Owner
				for _, by := range claimedBy(m.server, m.widgets) {
					owners = append(owners, by...)
				}
				if len(owners) > 0 {
					slices.SortFunc(owners, func(a, b informer.Owner) int { return strings.Compare(a.String(), b.String()) })
					m.removeOwner(t, owners[victim%len(owners)])
				}
			case "allocate":
				m.serial++
				owner := widget(fmt.Sprint("n", m.serial))
				got, err := m.allocator.Allocate(quiet(), meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4}})
				if err != nil {
					return // full
				}
				addr := got[0].Address
				if by := m.claimants(addr); len(by) == 0 {
					m.confirmed[addr] = confirmation{owner, got[0].UID}
					m.robbed[addr] = false
				} else if !m.robbed[addr] {
					t.Errorf("I1: %s was allocated to %s, and %s has it", addr, owner, by)
				}
				m.widgets.put(owner.Name, addr.String())
			case "re-allocate":
				m.reallocate(t, c.Name)
			case "owner born":
				m.born(c)
			case "crash":
				cancel()
			case "refuse":
				m.server.Fail(simapi.Fault{Replica: name, Err: simapi.Unavailable()})
			case "lose answer":
				m.server.Fail(simapi.Fault{Replica: name, When: simapi.After, Err: simapi.ConnectionCut()})
			case "deliver":
				m.server.Deliver("allocator", -1)
				synctest.Wait()
			}
		})
	}
	_, err := m.repair[i].Sync(ctx)
	disarm()
	m.server.ClearFaults()
	if err != nil && quietPass && !errors.Is(err, ErrBusy) {
		t.Fatalf("repair%d: %v", i, err)
	}
	if ctx.Err() != nil {
		m.restart(t, i)
	}
	synctest.Wait()
}

// reallocate is a release of an address by an owner that is gone, and its
// allocation to another at that instant.
func (m *machine) reallocate(t *rapid.T, name string) {
	addr, err := netip.ParseAddr(name)
	if err != nil || len(m.claimants(addr)) > 0 {
		return
	}
	err = m.server.Client("admin").IPAddresses().Delete(context.Background(), name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	m.serial++
	owner := widget(fmt.Sprint("n", m.serial))
	obj, err := m.server.Client("admin").IPAddresses().Create(context.Background(), object(name, owner), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.confirmed[addr] = confirmation{owner, obj.UID}
	m.robbed[addr] = false
	m.widgets.put(owner.Name, name)
}

// born stores the owner that an IPAddress names, when the lists have not shown it
// and the IPAddress is about to be read.
func (m *machine) born(c simapi.Call) {
	if c.Resource != "ipaddresses" {
		return
	}
	for _, o := range m.server.TrueIPAddresses() {
		owner, addr := informer.OwnerOf(o.Spec.ParentRef), netip.MustParseAddr(o.Name)
		if o.Name == c.Name && !owner.IsService() && !m.exists(owner) && len(m.claimants(addr)) == 0 && o.DeletionTimestamp == nil {
			m.widgets.put(owner.Name, o.Name)
			m.confirmed[addr] = confirmation{owner, o.UID}
			m.robbed[addr] = false
		}
	}
}

// check: a confirmed address of a live owner is that owner's, by the very object
// that it was confirmed with.
func (m *machine) check(t *rapid.T) {
	have := map[string]confirmation{}
	for _, o := range m.server.TrueIPAddresses() {
		have[o.Name] = confirmation{informer.OwnerOf(o.Spec.ParentRef), o.UID}
	}
	for addr, c := range m.confirmed {
		if have[addr.String()] != c {
			t.Fatalf("I1: %s, confirmed to %v, has %v", addr, c, have[addr.String()])
		}
	}
	for text, by := range claimedBy(m.server, m.widgets) {
		if addr := netip.MustParseAddr(text); len(by) > 1 && !m.robbed[addr] {
			if _, sure := m.confirmed[addr]; !sure {
				t.Fatalf("I1: %s is claimed by %v", addr, by)
			}
		}
	}
}

// settle is I9: when nothing goes on any more and the grace periods are over,
// all is one to one, but for two owners of one address, of which people have to
// delete one.
func (m *machine) settle(t *rapid.T) {
	m.server.Release("allocator")
	synctest.Wait()
	passes := func() {
		for range 3 {
			for i := range m.repair {
				m.sync(t, i, false)
			}
			m.check(t)
			m.sleep(61)
		}
	}
	passes()
	have := map[string]informer.Owner{}
	for _, o := range m.server.TrueIPAddresses() {
		have[o.Name] = informer.OwnerOf(o.Spec.ParentRef)
	}
	claimed := claimedBy(m.server, m.widgets)
	for _, addr := range slices.Sorted(maps.Keys(claimed)) {
		for _, owner := range claimed[addr] {
			if len(claimed[addr]) > 1 && owner != have[addr] && m.exists(owner) {
				m.removeOwner(t, owner)
			}
		}
	}
	passes()
	checkOneToOne(t, m.server, m.widgets)
}
