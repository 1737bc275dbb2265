// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func newTestView(t testing.TB, config Config) *View {
	t.Helper()
	if config.Client == nil && config.IPAddresses == nil {
		s := simapi.New()
		config.Client = s.Client("unused")
		if c, ok := t.(interface{ Cleanup(func()) }); ok {
			c.Cleanup(s.Close)
		}
	}
	v, err := NewView(config)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func collect[T any](seq func(func(T) bool)) []T {
	var out []T
	seq(func(x T) bool { out = append(out, x); return true })
	return out
}

// The view against a model: whatever events come, with odd names, tombstones,
// stale news and duplicates, the tables hold the last state of each object, the
// sets hold exactly the addresses that some object stands for, an old snapshot
// does not change, and the deltas add up to the snapshot.
func TestView_EqualsModelUnderAnyEvents(t *testing.T) {
	names := []string{"10.0.0.1", "10.0.0.2", "010.0.0.1", "::ffff:10.0.0.1", "2001:db8::5", "2001:DB8::5", "2001:db8:0::5", "not-an-address", "fe80::1%eth0", "10.0.0.300", ""}
	owners := []Owner{ServiceOwner("default", "a"), ServiceOwner("default", "ab"), {Group: "example.com", Resource: "widgets", Name: "a"}, {}}
	rapid.Check(t, func(t *rapid.T) {
		v, err := NewView(Config{Client: unusedClient})
		if err != nil {
			t.Fatal(err)
		}
		model := map[string]*networkingv1.IPAddress{}
		seen := map[netip.Addr]int{}
		defer v.Subscribe(func(d Delta) {
			for _, r := range d.Appeared {
				if !d.Snapshot.Present(cidr.FamilyOf(r.Addr)).Has(r.Addr) && len(d.Vanished) == 0 {
					t.Fatalf("%s appeared but is not present", r.Addr)
				}
				seen[r.Addr]++
			}
		})()
		type old struct {
			snapshot *Snapshot
			rows     []*IPAddress
			present  []netip.Addr
		}
		var olds []old
		version := 100
		t.Repeat(map[string]func(*rapid.T){
			"batch": func(t *rapid.T) {
				var batch []event
				for range rapid.IntRange(1, 5).Draw(t, "events") {
					name := rapid.SampledFrom(names).Draw(t, "name")
					version++
					switch rapid.IntRange(0, 5).Draw(t, "kind") {
					case 0, 1: // there, new or changed
						uid := "u" + strconv.Itoa(version)
						if m := model[name]; m != nil && rapid.Bool().Draw(t, "same object") {
							uid = string(m.UID)
						}
						obj := ipAddress(name, uid, strconv.Itoa(version), rapid.SampledFrom(owners).Draw(t, "owner"))
						obj.Labels = map[string]string{LabelManagedBy: rapid.SampledFrom([]string{"", "other", DefaultManager}).Draw(t, "manager")}
						model[name] = obj
						batch = append(batch, event{row: rowOf(obj)})
					case 2: // stale news of the same object: ignored
						if m := model[name]; m != nil {
							batch = append(batch, event{row: rowOf(ipAddress(name, string(m.UID), "7", owners[1]))})
						}
					case 3: // gone
						if m := model[name]; m != nil {
							gone, _ := goneFrom(tableIPAddresses, m)
							batch = append(batch, event{gone: &gone})
							delete(model, name)
						}
					case 4: // tombstone, with a state that may be of another object, or none
						var last any
						if rapid.Bool().Draw(t, "with state") {
							last = ipAddress(name, "long gone", "3", owners[0])
						}
						if gone, ok := goneFrom(tableIPAddresses, cache.DeletedFinalStateUnknown{Key: name, Obj: last}); ok {
							batch = append(batch, event{gone: &gone})
							delete(model, name)
						}
					case 5: // gone, but of an object that was replaced: ignored
						gone, _ := goneFrom(tableIPAddresses, ipAddress(name, "another", "3", owners[0]))
						batch = append(batch, event{gone: &gone})
					}
				}
				v.apply(batch)
			},
			"keep a snapshot": func(t *rapid.T) {
				s := v.Snapshot()
				olds = append(olds, old{s, collect(s.IPAddresses()), slices.Concat(collect(s.Present(cidr.IPv4).All()), collect(s.Present(cidr.IPv6).All()))})
			},
			"": func(t *rapid.T) {
				s := v.Snapshot()
				want := map[netip.Addr]int{}
				for name, m := range model {
					r := s.IPAddress(name)
					if r == nil || r.UID != m.UID || r.ResourceVersion != m.ResourceVersion || r.Owner() != OwnerOf(m.Spec.ParentRef) {
						t.Fatalf("row of %q is %+v, want %s/%s", name, r, m.UID, m.ResourceVersion)
					}
					if !slices.Contains(collect(s.IPAddressesOf(r.Owner())), r) {
						t.Fatalf("%q is not found by its owner", name)
					}
					if addr, _, err := cidr.ParseAddrLenient(name); err == nil {
						want[addr]++
						if !slices.Contains(collect(s.IPAddressesAt(addr)), r) {
							t.Fatalf("%q is not found by its address", name)
						}
					}
				}
				if got := len(collect(s.IPAddresses())); got != len(model) {
					t.Fatalf("%d rows, want %d", got, len(model))
				}
				present := slices.Concat(collect(s.Present(cidr.IPv4).All()), collect(s.Present(cidr.IPv6).All()))
				if len(present) != len(want) {
					t.Fatalf("present %v, want %v", present, want)
				}
				for _, a := range present {
					if want[a] == 0 {
						t.Fatalf("%s is present and has no object", a)
					}
					if got := len(collect(s.IPAddressesAt(a))); got != want[a] {
						t.Fatalf("%d rows at %s, want %d", got, a, want[a])
					}
				}
				unmanaged := slices.Concat(collect(s.Unmanaged(cidr.IPv4).All()), collect(s.Unmanaged(cidr.IPv6).All()))
				for _, a := range present {
					managed := false
					for name, m := range model {
						addr, _, err := cidr.ParseAddrLenient(name)
						managed = managed || err == nil && addr == a && m.Labels[LabelManagedBy] == DefaultManager
					}
					if slices.Contains(unmanaged, a) == managed {
						t.Fatalf("%s: managed %v, unmanaged ones %v", a, managed, unmanaged)
					}
				}
				if len(unmanaged) > len(present) {
					t.Fatalf("unmanaged %v, present %v", unmanaged, present)
				}
				for _, o := range olds {
					now := slices.Concat(collect(o.snapshot.Present(cidr.IPv4).All()), collect(o.snapshot.Present(cidr.IPv6).All()))
					if !slices.Equal(collect(o.snapshot.IPAddresses()), o.rows) || !slices.Equal(now, o.present) {
						t.Fatalf("snapshot %d changed", o.snapshot.Sequence())
					}
				}
			},
		})
	})
}

// unusedClient satisfies the constructor; its informers are never run.
var unusedClient = simapi.New().Client("unused")

func TestView_IndexesByNamePrefixAndOwner(t *testing.T) {
	v := newTestView(t, Config{})
	v.apply([]event{
		{row: rowOf(serviceCIDR("a", []string{"10.0.0.0/24", "2001:db8::/112"}))},
		{row: rowOf(serviceCIDR("b", []string{"10.0.0.0/24"}))},
		{row: rowOf(serviceCIDR("bb", []string{"10.0.0.0/25"}))},
	})
	s := v.Snapshot()
	if got := s.ServiceCIDR("b"); got == nil || got.Name != "b" {
		t.Errorf("b: %+v", got)
	}
	if got := s.ServiceCIDR("nobody"); got != nil {
		t.Errorf("nobody: %+v", got)
	}
	var names []string
	for c := range s.ServiceCIDRsWith(cidr.MustParse("10.0.0.0/24")) {
		names = append(names, c.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("carry 10.0.0.0/24: %v", names)
	}
	// A range of one dual-stack object is dropped by an update.
	v.apply([]event{{row: rowOf(serviceCIDR("b", []string{"10.9.0.0/24"}))}})
	if got := len(collect(v.Snapshot().ServiceCIDRsWith(cidr.MustParse("10.0.0.0/24")))); got != 1 {
		t.Errorf("%d carry 10.0.0.0/24 after the update", got)
	}
	if got := len(collect(s.ServiceCIDRsWith(cidr.MustParse("10.0.0.0/24")))); got != 2 {
		t.Errorf("the older snapshot changed: %d", got)
	}
}

func TestView_ChangedAndWatchChannels(t *testing.T) {
	v := newTestView(t, Config{})
	s := v.Snapshot()
	_, watched := s.WatchIPAddress("10.0.0.1")
	for _, ch := range []<-chan struct{}{s.Changed(), watched} {
		select {
		case <-ch:
			t.Fatal("closed before anything changed")
		default:
		}
	}
	v.apply([]event{{row: rowOf(ipAddress("10.0.0.1", "u", "1", Owner{}))}})
	<-s.Changed()
	<-watched
	if v.Snapshot().Sequence() <= s.Sequence() {
		t.Error("sequence does not grow")
	}
	// News without a change publishes nothing.
	s = v.Snapshot()
	v.apply([]event{{gone: &goneObject{table: tableIPAddresses, name: "10.0.0.9"}}})
	if v.Snapshot() != s {
		t.Error("a snapshot was published although nothing changed")
	}
}

func TestView_SubscriberGetsEverythingOnceAndInOrder(t *testing.T) {
	v := newTestView(t, Config{})
	v.apply([]event{{row: rowOf(ipAddress("10.0.0.1", "u", "1", Owner{}))}})
	var got []string
	var last uint64
	cancel := v.Subscribe(func(d Delta) {
		if d.Initial {
			got = append(got, fmt.Sprint("initial ", d.Snapshot.Present(cidr.IPv4).Len()))
		} else if d.Snapshot.Sequence() != last+1 {
			t.Errorf("snapshot %d after %d", d.Snapshot.Sequence(), last)
		}
		last = d.Snapshot.Sequence()
		for _, r := range d.Appeared {
			got = append(got, "+"+r.Name)
		}
		for _, r := range d.Vanished {
			got = append(got, "-"+r.Name)
		}
		if d.Topology && !d.Initial {
			got = append(got, "topology")
		}
	})
	v.apply([]event{{row: rowOf(ipAddress("10.0.0.2", "u", "2", Owner{}))}})
	v.apply([]event{{gone: &goneObject{table: tableIPAddresses, name: "10.0.0.1"}}, {row: rowOf(serviceCIDR("a", []string{"10.0.0.0/24"}))}})
	cancel()
	v.apply([]event{{row: rowOf(ipAddress("10.0.0.3", "u", "3", Owner{}))}})
	if want := []string{"initial 1", "+10.0.0.2", "-10.0.0.1", "topology"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Nothing counts as synced before both initial lists are applied.
func TestView_SyncedOnlyAfterBothLists(t *testing.T) {
	for _, slow := range []string{"ipaddresses", "servicecidrs"} {
		t.Run(slow, func(t *testing.T) {
			s := simapi.New()
			t.Cleanup(s.Close)
			s.CreateServiceCIDR("a", "True", "10.0.0.0/24")
			create(t, s, "10.0.0.5")
			block := make(chan struct{})
			s.Fail(simapi.Fault{Verb: "list", Resource: slow, Times: simapi.Forever, Block: block})
			s.Fail(simapi.Fault{Verb: "watch", Resource: slow, Times: simapi.Forever, Block: block})
			v := newTestView(t, Config{Client: s.Client("r")})
			runView(t, v)
			other := func(s *Snapshot) bool { return s.IPAddress("10.0.0.5") != nil }
			if slow == "ipaddresses" {
				other = func(s *Snapshot) bool { return s.ServiceCIDR("a") != nil }
			}
			waitFor(t, v, "the other list is there", other)
			if v.HasSynced() {
				t.Fatal("synced although a list is missing")
			}
			close(block)
			<-v.Synced()
			snap := v.Snapshot()
			if snap.IPAddress("10.0.0.5") == nil || snap.ServiceCIDR("a") == nil {
				t.Error("synced, but the initial objects are missing")
			}
		})
	}
}

func TestView_SyncsOnAnEmptyCluster(t *testing.T) {
	s := simapi.New()
	t.Cleanup(s.Close)
	v := newTestView(t, Config{Client: s.Client("r")})
	runView(t, v)
	<-v.Synced()
}

func create(t testing.TB, s *simapi.Server, name string) {
	t.Helper()
	_, err := s.Client("somebody").IPAddresses().Create(context.Background(), ipAddress(name, "", "", ServiceOwner("default", "x")), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// A relist after 410 Gone brings what the watch missed: additions, deletions,
// and a deletion followed by another object of the same name.
func TestView_RelistAfter410Gone(t *testing.T) {
	s := simapi.New()
	t.Cleanup(s.Close)
	other := s.Client("somebody").IPAddresses()
	for i := range 20 {
		create(t, s, fmt.Sprintf("10.0.0.%d", i+1))
	}
	v := newTestView(t, Config{Client: s.Client("r")})
	runView(t, v)
	<-v.Synced()
	first := v.Snapshot().IPAddress("10.0.0.2").UID

	s.Hold("r")
	for _, name := range []string{"10.0.0.1", "10.0.0.2"} {
		if err := other.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, "10.0.0.2")
	create(t, s, "10.0.0.99")
	s.Compact()
	s.CutWatches("r")
	s.Release("r")
	snap := waitFor(t, v, "the view has what the watch missed", func(s *Snapshot) bool {
		r := s.IPAddress("10.0.0.2")
		return s.IPAddress("10.0.0.1") == nil && s.IPAddress("10.0.0.99") != nil && r != nil && r.UID != first
	})
	if got := snap.Present(cidr.IPv4).Len(); got != 20 {
		t.Errorf("%d present, want 20", got)
	}
}

// S19 (here: the view): Ready turns False, and a CIDR is added at run time.
func TestS19_ReadinessIsFollowed(t *testing.T) {
	s := simapi.New()
	t.Cleanup(s.Close)
	s.CreateServiceCIDR("a", "True", "10.0.0.0/24")
	v := newTestView(t, Config{Client: s.Client("r")})
	runView(t, v)
	<-v.Synced()
	if got := maximal(v.Snapshot().Topology(), cidr.IPv4); !slices.Equal(got, []string{"10.0.0.0/24"}) {
		t.Fatalf("maximal %v", got)
	}
	s.SetReady("a", metav1.ConditionFalse)
	waitFor(t, v, "a is not ready", func(s *Snapshot) bool { return !s.Topology().AnyReady(cidr.IPv4) })
	s.CreateServiceCIDR("b", "", "10.1.0.0/24")
	waitFor(t, v, "b is maximal", func(s *Snapshot) bool {
		return slices.Equal(maximal(s.Topology(), cidr.IPv4), []string{"10.1.0.0/24"})
	})
}

// Informers that somebody else runs, and that others use too.
func TestView_OnInformersOfSomebodyElse(t *testing.T) {
	s := simapi.New()
	t.Cleanup(s.Close)
	create(t, s, "10.0.0.5")
	s.CreateServiceCIDR("a", "True", "10.0.0.0/24")
	cidrs, addrs := newInformers(s.Client("r"))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	for _, inf := range []cache.SharedIndexInformer{cidrs, addrs} {
		go func() { inf.RunWithContext(ctx); done <- struct{}{} }()
	}
	t.Cleanup(func() { cancel(); <-done; <-done })
	for range 2 { // one view after the other on running informers
		v := newTestView(t, Config{ServiceCIDRs: cidrs, IPAddresses: addrs})
		vctx, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- v.Run(vctx) }()
		<-v.Synced()
		if v.Snapshot().IPAddress("10.0.0.5") == nil || v.Snapshot().ServiceCIDR("a") == nil {
			t.Error("objects are missing")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := v.Run(ctx); err == nil {
			t.Error("a view ran twice")
		}
	}
}

// A stored entry that cannot be taken as it is makes one line of log, not one
// for each update of the object.
func TestView_BadEntriesAreLoggedOnce(t *testing.T) {
	s := simapi.New()
	t.Cleanup(s.Close)
	bad := s.CreateServiceCIDR("bad", "True", "10.0.0.0/24")
	bad.Spec.CIDRs = []string{"nonsense", "10.1.0.0/24"}
	s.PutRaw(bad)
	var mu sync.Mutex
	var lines []string
	logger := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(args, "nonsense") {
			lines = append(lines, args)
		}
	}, funcr.Options{})
	v := newTestView(t, Config{Client: s.Client("r")})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
	done := make(chan error, 1)
	go func() { done <- v.Run(ctx) }()
	<-v.Synced()
	s.SetReady("bad", metav1.ConditionFalse)
	s.AddFinalizer("bad", Finalizer)
	snap := waitFor(t, v, "the updates are there", func(s *Snapshot) bool { return s.ServiceCIDR("bad").HasFinalizer })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(lines) != 1 {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
	if r := snap.ServiceCIDR("bad").Ranges; len(r) != 1 || r[0] != cidr.MustParse("10.1.0.0/24") {
		t.Errorf("the other entry does not go on: %v", r)
	}
}

func TestNewView_BadConfigIsRefused(t *testing.T) {
	cidrs, _ := newInformers(unusedClient)
	for name, config := range map[string]Config{"nothing": {}, "one informer only": {ServiceCIDRs: cidrs}} {
		if _, err := NewView(config); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTrim_KeepsWhatIsRead(t *testing.T) {
	obj := ipAddress("10.0.0.1", "u", "5", ServiceOwner("ns", "svc"))
	obj.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	obj.Labels = map[string]string{LabelManagedBy: "m", LabelIPFamily: "IPv4", "other": "x"}
	obj.Annotations = map[string]string{AnnotationNonce: "n", "other": "x"}
	obj.Finalizers = []string{"f"}
	want := newIPAddress(obj)
	got, err := Trim(obj)
	if err != nil {
		t.Fatal(err)
	}
	trimmed := got.(*networkingv1.IPAddress)
	if *newIPAddress(trimmed) != *want {
		t.Errorf("row of the trimmed object %+v, want %+v", newIPAddress(trimmed), want)
	}
	if len(trimmed.ManagedFields) > 0 || len(trimmed.Labels) != 2 || len(trimmed.Annotations) != 1 {
		t.Errorf("kept too much: %+v", trimmed.ObjectMeta)
	}
	c := serviceCIDR("a", []string{"10.0.0.0/24"}, ready(metav1.ConditionTrue), finalizer, terminating)
	got, _ = Trim(c)
	if r := NewServiceCIDR(got.(*networkingv1.ServiceCIDR)); !r.HasFinalizer || !r.Terminating || r.ReadyStatus != "True" || len(r.Ranges) != 1 {
		t.Errorf("row %+v", r)
	}
	if got, _ := Trim(cache.DeletedFinalStateUnknown{Key: "k", Obj: obj}); got.(cache.DeletedFinalStateUnknown).Key != "k" {
		t.Errorf("tombstone %+v", got)
	}
	if got, _ := Trim("anything"); got != "anything" {
		t.Errorf("another object %v", got)
	}
}

func TestOwner_Validate(t *testing.T) {
	for _, bad := range []Owner{{}, {Resource: "services"}, {Name: "x"}, {Resource: "services", Name: "a/b"}, {Resource: "services", Name: "a\x00"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	for _, good := range []Owner{ServiceOwner("ns", "svc"), {Group: "example.com", Resource: "widgets", Name: "cluster-scoped"}} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	if got := (Owner{Group: "example.com", Resource: "widgets", Namespace: "ns", Name: "w"}).String(); got != "widgets.example.com/ns/w" {
		t.Error(got)
	}
}
