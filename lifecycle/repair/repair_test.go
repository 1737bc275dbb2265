// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// An owner that claims an address without an IPAddress gets one, with the
// labels of its resource and family.
func TestMissing_IsCreated(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5", "2001:db8::5")
	w.widgets.put("b", "10.0.0.6")
	r := w.pass()
	want(t, "findings", brief(r), []string{"missing 10.0.0.5 a repaired", "missing 10.0.0.6 b repaired", "missing 2001:db8::5 a repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.5=a", "2001:db8::5=a", "10.0.0.6=b"))
	checkOneToOne(t, w.server, w.widgets)
	want(t, "events", w.events.take(), []string{"ClusterIPNotAllocated on a", "ClusterIPNotAllocated on b", "ClusterIPNotAllocated on a"})
	want(t, "second pass", brief(w.pass()), []string(nil))
}

// What a healthy cluster costs: three lists, and no read or write.
func TestHealthy_CostsListsOnly(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 20 {
		addr := fmt.Sprintf("10.0.0.%d", i+1)
		w.service(fmt.Sprint("s", i), addr)
		w.allocate(addr, service(fmt.Sprint("s", i)))
	}
	w.server.ResetCalls()
	want(t, "findings", brief(w.pass()), []string(nil))
	if n := w.server.Calls("r").Total(); n != 3 {
		t.Errorf("%d calls, want 3: %v", n, w.server.Calls("r"))
	}
}

// A leaked IPAddress goes after the grace period, not before; one whose owner
// is there and does not claim it likewise.
func TestLeaked_IsDeletedAfterTheGracePeriod(t *testing.T) {
	w := newWorld(t, nil)
	w.service("b", "10.0.0.7")
	w.allocate("10.0.0.7", service("b"))
	w.allocate("10.0.0.8", service("b"))
	w.allocate("10.0.0.5", service("gone"))
	r := w.pass()
	want(t, "findings", brief(r), []string{"leaked 10.0.0.5 gone pending", "leaked 10.0.0.8 b pending"})
	want(t, "next", r.Next, DefaultLeakGrace)
	w.clock.Step(DefaultLeakGrace - time.Nanosecond)
	want(t, "pending", w.pass().Pending, 2)
	w.clock.Step(time.Nanosecond)
	want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.5 gone repaired", "leaked 10.0.0.8 b repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.7=b"))
	want(t, "events", w.events.take(), []string{"IPAddressNotAllocated on 10.0.0.5", "IPAddressNotAllocated on 10.0.0.8"})
}

// I9: the wait is measured by one clock. An IPAddress that another clock calls
// old is waited for as long as any; a restart begins the wait again.
func TestI9_GracePeriodTrustsNoSecondClock(t *testing.T) {
	w := newWorld(t, nil)
	old := object("10.0.0.5", service("gone"))
	old.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-24 * time.Hour))
	w.server.PutRaw(old)
	w.pass()
	want(t, "at once", w.stored(), hold("10.0.0.5=gone"))
	w.clock.Step(DefaultLeakGrace - time.Second)
	w.restart()
	w.pass()
	w.clock.Step(time.Second)
	w.pass()
	want(t, "after a restart", w.stored(), hold("10.0.0.5=gone"))
	w.clock.Step(DefaultLeakGrace)
	w.pass()
	want(t, "after the grace period", w.stored(), hold())
}

// I9: an IPAddress of the same name is another one, with a wait of its own.
func TestI9_GracePeriodIsOfOneUID(t *testing.T) {
	for _, seen := range []bool{true, false} {
		t.Run(fmt.Sprint("in a list ", seen), func(t *testing.T) {
			w := newWorld(t, nil)
			w.allocate("10.0.0.5", service("gone"))
			w.pass()
			w.clock.Step(DefaultLeakGrace)
			again := func() { w.remove("10.0.0.5"); w.allocate("10.0.0.5", service("young")) }
			if seen {
				again()
			} else {
				w.once(simapi.Before, "get", "ipaddresses", again)
			}
			want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.5 young pending"})
			want(t, "holders", w.stored(), hold("10.0.0.5=young"))
			w.clock.Step(DefaultLeakGrace)
			w.pass()
			want(t, "after", w.stored(), hold())
		})
	}
}

// I9: an address that was claimed in between has not been leaked all the time.
func TestI9_GracePeriodIsWithoutGaps(t *testing.T) {
	w := newWorld(t, nil)
	w.allocate("10.0.0.5", widget("a"))
	w.pass()
	w.clock.Step(DefaultLeakGrace - time.Second)
	w.widgets.put("a", "10.0.0.5")
	w.pass()
	w.widgets.remove("a")
	w.clock.Step(time.Hour)
	want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.5 a pending"})
}

// S3: owners are born between the list of owners and that of addresses, again
// and again: nothing younger than the grace period goes, and nothing of a live
// owner ever.
func TestS3_OwnersBornWhileCollecting(t *testing.T) {
	w := newWorld(t, nil)
	born := 0
	var holders []string
	w.server.OnCall(func(c simapi.Call) {
		if c.Replica != "r" || c.Verb != "list" || c.Resource != "services" || c.Phase != simapi.After {
			return
		}
		born++
		name, addr := fmt.Sprint("s", born), fmt.Sprintf("10.0.0.%d", born)
		w.allocate(addr, service(name))
		w.service(name, addr)
		holders = append(holders, addr+"="+name)
	})
	for range 10 {
		want(t, "pending", w.pass().Pending, 1)
		w.clock.Step(DefaultLeakGrace + time.Second)
	}
	want(t, "holders", w.stored(), hold(holders...))
	checkOneToOne(t, w.server, w.widgets)
}

// S3: the owner is born after the list that showed it gone, its address long
// before: the live read of the owner saves it.
func TestS3_OwnerBornAfterTheList(t *testing.T) {
	w := newWorld(t, nil)
	w.allocate("10.0.0.5", service("slow"))
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	w.once(simapi.After, "list", "services", func() { w.service("slow", "10.0.0.5") })
	want(t, "findings", brief(w.pass()), []string(nil))
	want(t, "holders", w.stored(), hold("10.0.0.5=slow"))
}

// S3: a same-named owner that came back with another address loses only the
// stale one.
func TestS3_SameNamedOwnerCameBack(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.allocate("10.0.0.5", service("a"))
	w.pass()
	w.deleteService("a")
	w.allocate("10.0.0.6", service("a"))
	w.service("a", "10.0.0.6")
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.5 a repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.6=a"))
}

// S8: an owner with a deletionTimestamp owns its address until it is gone; then
// the address is released once.
func TestS8_OwnerBeingDeletedStillOwns(t *testing.T) {
	w := newWorld(t, nil)
	svc := w.service("a", "10.0.0.5")
	w.allocate("10.0.0.5", service("a"))
	svc.Finalizers = []string{"example.com/wait"}
	if _, err := w.admin().Services("default").Update(context.Background(), svc, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.deleteService("a")
	for range 5 {
		want(t, "findings", brief(w.pass()), []string(nil))
		w.clock.Step(time.Hour)
	}
	want(t, "holders", w.stored(), hold("10.0.0.5=a"))
	w.remove("10.0.0.5")
	want(t, "lost", brief(w.pass()), []string{"missing 10.0.0.5 a repaired"})

	svc, err := w.admin().Services("default").Get(context.Background(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	svc.Finalizers = nil
	if _, err = w.admin().Services("default").Update(context.Background(), svc, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.server.ResetCalls()
	for range 3 {
		w.pass()
		w.clock.Step(DefaultLeakGrace)
	}
	want(t, "holders", w.stored(), hold())
	want(t, "deletes", w.server.Calls("r")[simapi.Op{Verb: "delete", Resource: "ipaddresses"}], 1)
}

// I8: between the read and the delete the IPAddress is re-allocated, or is no
// longer ours to delete: what is there stays.
func TestI8_OnlyWhatWasReadIsDeleted(t *testing.T) {
	for name, interfere := range map[string]func(*world){
		"re-allocated to another": func(w *world) {
			w.remove("10.0.0.5")
			w.allocate("10.0.0.5", service("new"))
			w.service("new", "10.0.0.5")
		},
		"re-allocated to an owner to be": func(w *world) {
			w.remove("10.0.0.5")
			w.allocate("10.0.0.5", service("gone"))
		},
		"taken over by another manager": func(w *world) {
			if _, err := w.admin().IPAddresses().Patch(context.Background(), "10.0.0.5", types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"`+informer.LabelManagedBy+`":"somebody"}}}`), metav1.PatchOptions{}); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		for _, claimed := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", claimed ", claimed), func(t *testing.T) {
				w := newWorld(t, nil)
				w.allocate("10.0.0.5", service("gone"))
				if claimed {
					w.widgets.put("b", "10.0.0.5")
				}
				w.pass()
				w.clock.Step(DefaultLeakGrace)
				var uid types.UID
				w.once(simapi.Before, "delete", "ipaddresses", func() { interfere(w); uid = w.uid("10.0.0.5") })
				r := w.pass()
				if uid == "" || w.uid("10.0.0.5") != uid {
					t.Errorf("I8: IPAddress %s is %q now, was %q", "10.0.0.5", w.uid("10.0.0.5"), uid)
				}
				if len(r.Findings) != 1 || r.Findings[0].Outcome != Superseded {
					t.Errorf("findings %v", r.Findings)
				}
			})
		}
	}
}

// An owner that is back when the delete is answered, without an allocation, as
// from a backup, has its IPAddress again at once.
func TestLeaked_OwnerRestoredMeanwhile(t *testing.T) {
	w := newWorld(t, nil)
	w.allocate("10.0.0.5", service("a"))
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	w.once(simapi.Before, "delete", "ipaddresses", func() { w.service("a", "10.0.0.5") })
	want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.5 a repaired", "missing 10.0.0.5 a repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.5=a"))
}

// An IPAddress that names an owner without a claim, of an address that another
// claims, is replaced after a short patience.
func TestWrongReference_IsReplaced(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.widgets.put("other", "10.0.0.99")
	w.allocate("10.0.0.99", widget("other"))
	old := w.allocate("10.0.0.5", widget("other"))
	r := w.pass()
	want(t, "findings", brief(r), []string{"wrong_reference 10.0.0.5 a pending"})
	want(t, "next", r.Next, DefaultMismatchGrace)
	w.clock.Step(DefaultMismatchGrace)
	want(t, "findings", brief(w.pass()), []string{"wrong_reference 10.0.0.5 a repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.5=a", "10.0.0.99=other"))
	checkOneToOne(t, w.server, w.widgets)
	if w.uid("10.0.0.5") == old.UID {
		t.Error("the same object")
	}
	want(t, "events", w.events.take(), []string{"IPAddressWrongReference on 10.0.0.5"})
}

// The owner that the IPAddress names appears within the patience: then two
// claim it, and nothing is deleted.
func TestWrongReference_NamedOwnerAppears(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.allocate("10.0.0.5", widget("b"))
	w.pass()
	w.clock.Step(DefaultMismatchGrace)
	w.once(simapi.After, "list", "ipaddresses", func() { w.widgets.put("b", "10.0.0.5") })
	want(t, "findings", brief(w.pass()), []string{"duplicate 10.0.0.5 b reported"})
	want(t, "holders", w.stored(), hold("10.0.0.5=b"))
}

// An allocation that slips in between the delete and the create is not
// overwritten, and is reported.
func TestWrongReference_AllocationSlipsIn(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.allocate("10.0.0.5", service("gone"))
	w.pass()
	w.clock.Step(DefaultMismatchGrace)
	w.once(simapi.After, "delete", "ipaddresses", func() {
		w.allocate("10.0.0.5", widget("quick"))
		w.widgets.put("quick", "10.0.0.5")
	})
	r := w.pass()
	want(t, "findings", brief(r), []string{"already_allocated 10.0.0.5 a reported"})
	want(t, "other", r.Findings[0].Other, widget("quick"))
	want(t, "holders", w.stored(), hold("10.0.0.5=quick"))
	if !slices.Contains(w.events.take(), "ClusterIPAlreadyAllocated on a") {
		t.Error("no event")
	}
	w.clock.Step(time.Hour)
	want(t, "next", brief(w.pass()), []string{"duplicate 10.0.0.5 quick reported"})
	want(t, "holders", w.stored(), hold("10.0.0.5=quick"))
}

// Another replica creates the missing IPAddress first: no finding.
func TestMissing_AnotherReplicaWasFaster(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.once(simapi.Before, "create", "ipaddresses", func() { w.allocate("10.0.0.5", service("a")) })
	r := w.pass()
	want(t, "findings", brief(r), []string{"missing 10.0.0.5 a superseded"})
	want(t, "counts", len(r.Counts), 0)
}

// Labels are put right on the object that was read, in the state that was read.
func TestWrongLabel_IsPatched(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.service("b", "10.0.0.6")
	w.service("c", "10.0.0.7")
	w.create(labelled(object("10.0.0.5", service("a")), informer.LabelManagedBy, informer.DefaultManager))
	w.create(labelled(object("10.0.0.6", service("b")), informer.LabelIPFamily, "IPv6"))
	w.create(labelled(object("10.0.0.7", service("c")), informer.LabelManagedBy, "somebody"))
	uid := w.uid("10.0.0.5")
	r := w.pass()
	want(t, "findings", brief(r), []string{"unmanaged 10.0.0.7 c reported", "wrong_label 10.0.0.5 a repaired", "wrong_label 10.0.0.6 b repaired"})
	want(t, "the object", w.uid("10.0.0.5"), uid)
	w.remove("10.0.0.7")
	w.pass()
	checkOneToOne(t, w.server, w.widgets)

	w.remove("10.0.0.5")
	w.create(labelled(object("10.0.0.5", service("a")), informer.LabelIPFamily, ""))
	w.once(simapi.Before, "patch", "ipaddresses", func() {
		w.remove("10.0.0.5")
		w.create(labelled(object("10.0.0.5", widget("z")), informer.LabelManagedBy, "somebody"))
	})
	want(t, "replaced meanwhile", brief(w.pass()), []string{"wrong_label 10.0.0.5 a superseded"})
	for _, o := range w.server.TrueIPAddresses() {
		if o.Name == "10.0.0.5" && o.Labels[informer.LabelManagedBy] != "somebody" {
			t.Errorf("I8: labels of another object were changed: %v", o.Labels)
		}
	}
}

// Two owners of one address: reported, on the younger one; the IPAddress stays
// with the one that it names, else the older one gets it.
func TestDuplicate_IsReportedOnly(t *testing.T) {
	for _, c := range []struct{ named, heir string }{{"old", "old"}, {"young", "young"}, {"", "old"}, {"gone", "old"}} {
		t.Run("names "+c.named, func(t *testing.T) {
			w := newWorld(t, nil)
			w.service("old", "10.0.0.5")
			w.clock.Step(time.Minute)
			w.service("young", "10.0.0.5")
			if c.named != "" {
				w.allocate("10.0.0.5", service(c.named))
			}
			w.pass()
			w.clock.Step(DefaultMismatchGrace)
			r := w.pass()
			want(t, "holders", w.stored(), hold("10.0.0.5="+c.heir))
			if !slices.Contains(brief(r), "duplicate 10.0.0.5 young reported") || r.Counts[Duplicate] != 1 {
				t.Errorf("findings %v", r.Findings)
			}
			n := 0
			for _, e := range w.events.take() {
				if strings.HasPrefix(e, "ClusterIPAlreadyAllocated") {
					n++
					want(t, "event", e, "ClusterIPAlreadyAllocated on young")
				}
			}
			want(t, "events in two passes", n, 1)
			w.clock.Step(time.Hour)
			w.pass()
			want(t, "an hour later", w.events.take(), []string{"ClusterIPAlreadyAllocated on young"})
		})
	}
}

// An address outside of all ServiceCIDRs is reported, kept, and recreated.
func TestOutOfRange_IsKept(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.9.0.5")
	w.service("b", "10.0.0.0") // the network address is not usable
	w.allocate("10.0.0.0", service("b"))
	want(t, "findings", brief(w.pass()), []string{"missing 10.9.0.5 a repaired", "out_of_range 10.0.0.0 b reported", "out_of_range 10.9.0.5 a reported"})
	w.clock.Step(time.Hour)
	w.pass()
	want(t, "holders", w.stored(), hold("10.9.0.5=a", "10.0.0.0=b"))
	if got := w.events.take(); !slices.Contains(got, "ClusterIPOutOfRange on a") || !slices.Contains(got, "ClusterIPOutOfRange on b") {
		t.Errorf("events %v", got)
	}
	w.server.CreateServiceCIDR("outer", "", "10.0.0.0/8")
	if r := w.pass(); r.Counts[OutOfRange] != 1 { // 10.0.0.0 is the network address of the /8 too
		t.Errorf("findings %v", r.Findings)
	}
}

// Without the ServiceCIDRs nothing is called out of range, and all else goes on.
func TestOutOfRange_ServiceCIDRsUnknown(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "list", Resource: "servicecidrs", Err: simapi.Forbidden("no")})
	r, err := w.Sync(quiet())
	if !apierrors.IsForbidden(err) && !strings.Contains(fmt.Sprint(err), "ServiceCIDRs") {
		t.Error(err)
	}
	want(t, "findings", brief(r), []string{"missing 10.0.0.5 a repaired"})
}

// S53: a claim that is no address is reported; an odd spelling is too, and is
// taken as the address it means; no second object comes to be.
func TestS53_OddSpellings(t *testing.T) {
	w := newWorld(t, nil)
	for name, ip := range map[string]string{"bad": "10.0.0.300", "zeros": "010.000.000.007", "mapped": "::ffff:10.0.0.8"} {
		w.server.PutRaw(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}}})
	}
	w.allocate("10.0.0.7", service("zeros"))
	w.server.PutRaw(labelled(object("2001:DB8::0005", service("gone")), informer.LabelIPFamily, "IPv6"))
	want(t, "findings", brief(w.pass()), []string{
		"missing 10.0.0.8 mapped repaired",
		"non_canonical 010.000.000.007 zeros reported", "non_canonical 2001:DB8::0005 gone reported", "non_canonical ::ffff:10.0.0.8 mapped reported",
		"not_valid 10.0.0.300 bad reported",
	})
	w.clock.Step(time.Hour)
	w.pass()
	want(t, "holders", w.stored(), hold("10.0.0.7=zeros", "10.0.0.8=mapped", "2001:DB8::0005=gone"))
	if got := w.events.take(); !slices.Contains(got, "ClusterIPNotValid on bad") || !slices.Contains(got, "ClusterIPNotValid on mapped") {
		t.Errorf("events %v", got)
	}
}

// What is not ours is reported and never touched, however long it is so.
func TestUnmanagedAndUnregistered_AreNeverTouched(t *testing.T) {
	w := newWorld(t, nil)
	gateway := informer.Owner{Group: "example.com", Resource: "gateways", Name: "g"}
	w.create(labelled(object("10.0.0.5", service("gone")), informer.LabelManagedBy, "somebody"))
	w.create(object("10.0.0.6", gateway))
	w.create(object("10.0.0.7", gateway))
	w.create(labelled(object("10.0.0.8", service("gone")), informer.LabelManagedBy, "somebody"))
	w.service("a", "10.0.0.7")
	w.service("b", "10.0.0.8")
	for range 4 {
		want(t, "findings", brief(w.pass()), []string{
			"already_allocated 10.0.0.7 a reported", "already_allocated 10.0.0.8 b reported",
			"unmanaged 10.0.0.5 gone reported", "unregistered 10.0.0.6 g reported",
		})
		w.clock.Step(time.Hour)
	}
	want(t, "holders", w.stored(), hold("10.0.0.5=gone", "10.0.0.6=g", "10.0.0.7=g", "10.0.0.8=gone"))
	writes := w.server.Calls("r")
	for _, verb := range []string{"create", "delete", "patch", "update"} {
		want(t, verb, writes[simapi.Op{Verb: verb, Resource: "ipaddresses"}], 0)
	}
}

// An IPAddress whose owners' list failed is not judged, its wait goes on, and
// the other resources are looked after.
func TestOwnersListFails_OthersGoOn(t *testing.T) {
	w := newWorld(t, nil)
	w.allocate("10.0.0.5", widget("live"))
	w.widgets.put("live", "10.0.0.5")
	w.allocate("10.0.0.6", service("gone"))
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	w.widgets.listErr = errors.New("no widgets today")
	r, err := w.Sync(quiet())
	if err == nil || !strings.Contains(err.Error(), "no widgets today") {
		t.Error(err)
	}
	want(t, "findings", brief(r), []string{"leaked 10.0.0.6 gone repaired"})
	want(t, "holders", w.stored(), hold("10.0.0.5=live"))
}

// A resource that is not served any more has no owners that could be read: that
// is no proof that they are gone.
func TestResourceGone_NothingIsDeleted(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	w.service("b", "10.0.0.5")
	w.allocate("10.0.0.5", widget("c"))
	w.allocate("10.0.0.6", widget("c"))
	w.widgets.listErr = apierrors.NewNotFound(w.widgets.Resource(), "")
	for range 4 {
		if _, err := w.Sync(quiet()); !apierrors.IsNotFound(errors.Unwrap(errorsOf(t, err)[0])) {
			t.Error(err)
		}
		w.clock.Step(time.Hour)
	}
	want(t, "holders", w.stored(), hold("10.0.0.5=c", "10.0.0.6=c"))
}

// An owner that cannot be read costs nobody an address.
func TestOwnerUnreadable_NothingIsDeleted(t *testing.T) {
	w := newWorld(t, nil)
	w.allocate("10.0.0.5", widget("gone"))
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	w.widgets.getErr = errors.New("cannot say")
	if _, err := w.Sync(quiet()); err == nil || !strings.Contains(err.Error(), "cannot say") {
		t.Error(err)
	}
	want(t, "holders", w.stored(), hold("10.0.0.5=gone"))
}

// A failure on one object does not stop the pass over the others; an overloaded
// server does, soon.
func TestFailures_OneByOne(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 20 {
		w.service(fmt.Sprintf("s%02d", i), netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}).String())
	}
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "create", Name: "10.0.0.1", Err: simapi.Forbidden("not that one")})
	r, err := w.Sync(quiet())
	if !apierrors.IsForbidden(errors.Unwrap(errorsOf(t, err)[0])) || len(w.server.TrueIPAddresses()) != 19 {
		t.Errorf("%v, %d IPAddresses", err, len(w.server.TrueIPAddresses()))
	}
	want(t, "missing", r.Counts[Missing], 20)
	want(t, "left", r.Outstanding[Missing], 1)
	if got := w.events.take(); !slices.Contains(got, "UnknownError on s00") {
		t.Errorf("events %v", got)
	}
	want(t, "next", brief(w.pass()), []string{"missing 10.0.0.1 s00 repaired"})

	for _, o := range w.server.TrueIPAddresses() {
		w.remove(o.Name)
	}
	defer w.server.Fail(simapi.Fault{Replica: "r", Verb: "create", Times: simapi.Forever, Err: simapi.TooManyRequests(7)})()
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "get", Resource: "ipaddresses", Times: simapi.Forever, Err: simapi.TooManyRequests(9)})
	w.server.ResetCalls()
	_, err = w.Sync(quiet())
	var pass *PassError
	if !errors.As(err, &pass) || !errors.Is(err, ErrOverloaded) || pass.RetryAfter != 9*time.Second {
		t.Errorf("%v", err)
	}
	if n := w.server.Calls("r").Total(); n > 3+maxOverloads {
		t.Errorf("%d calls to an overloaded server", n)
	}
}

func errorsOf(t *testing.T, err error) []error {
	t.Helper()
	var pass *PassError
	if !errors.As(err, &pass) || len(pass.Errors) == 0 {
		t.Fatalf("%v is no PassError", err)
	}
	return pass.Errors
}

// Errors of many objects are one error of bounded length.
func TestFailures_AreAggregated(t *testing.T) {
	w := newWorld(t, nil)
	for i := range 50 {
		w.service(fmt.Sprint("s", i), fmt.Sprintf("10.0.0.%d", i+1))
	}
	w.server.Fail(simapi.Fault{Replica: "r", Verb: "create", Times: simapi.Forever, Err: simapi.Forbidden("no")})
	_, err := w.Sync(quiet())
	if n := len(errorsOf(t, err)); n != maxErrors || !strings.Contains(err.Error(), "and 40 more") {
		t.Errorf("%d errors: %v", n, err)
	}
}

// Dry-run says what would be done, and changes nothing.
func TestDryRun_ChangesNothing(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.DryRun = true })
	w.service("a", "10.0.0.5")
	w.service("b", "10.0.0.6")
	w.service("c", "10.0.0.7")
	w.service("d", "10.9.0.7")
	w.allocate("10.9.0.7", service("d"))
	w.allocate("10.0.0.6", service("gone"))
	w.create(labelled(object("10.0.0.7", service("c")), informer.LabelIPFamily, ""))
	w.allocate("10.0.0.8", service("gone"))
	revision := w.server.Revision()
	w.pass()
	w.clock.Step(DefaultLeakGrace)
	want(t, "findings", brief(w.pass()), []string{
		"leaked 10.0.0.8 gone reported", "missing 10.0.0.5 a reported", "out_of_range 10.9.0.7 d reported",
		"wrong_label 10.0.0.7 c reported", "wrong_reference 10.0.0.6 b reported",
	})
	want(t, "revision", w.server.Revision(), revision)
	want(t, "events", w.events.take(), []string(nil))
}

// An IPAddress that finalizers hold is waited for, and is deleted once.
func TestFinalizersOnIPAddress_AreWaitedFor(t *testing.T) {
	w := newWorld(t, nil)
	w.service("a", "10.0.0.5")
	obj := object("10.0.0.5", service("gone"))
	obj.Finalizers = []string{"example.com/wait"}
	obj = w.create(obj)
	w.pass()
	w.clock.Step(DefaultMismatchGrace)
	for range 3 {
		want(t, "findings", brief(w.pass()), []string{"wrong_reference 10.0.0.5 a pending"})
	}
	want(t, "deletes", w.server.Calls("r")[simapi.Op{Verb: "delete", Resource: "ipaddresses"}], 1)
	if _, err := w.admin().IPAddresses().Patch(context.Background(), obj.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want(t, "findings", brief(w.pass()), []string{"missing 10.0.0.5 a repaired"})
}

// Lists come in pages; one that was compacted away is read again.
func TestLists_ArePaged(t *testing.T) {
	w := newWorld(t, nil)
	const n = 2*pageSize + 10
	for i := range n {
		w.allocate(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}).String(), service("gone"))
	}
	r := w.pass()
	want(t, "addresses", r.Addresses, n)
	want(t, "pending", r.Pending, n)
	want(t, "listed", len(r.Findings), maxListed)
	pages := 0
	w.server.OnCall(func(c simapi.Call) {
		if c.Verb == "list" && c.Resource == "ipaddresses" && c.Phase == simapi.After {
			if pages++; pages == 2 {
				w.service("s", "10.0.0.1")
				w.server.Compact()
			}
		}
	})
	r = w.pass()
	want(t, "addresses", r.Addresses, n)
	want(t, "pending", r.Pending, n)
}

func TestServices_Claims(t *testing.T) {
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		want []string
	}{
		"empty":              {corev1.ServiceSpec{}, nil},
		"headless":           {corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}}, nil},
		"ExternalName":       {corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "x.example", ClusterIP: "10.0.0.1"}, nil},
		"single":             {corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"}}, []string{"10.0.0.1"}},
		"stored long ago":    {corev1.ServiceSpec{ClusterIP: "10.0.0.1"}, []string{"10.0.0.1"}},
		"dual-stack":         {corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", "2001:db8::1"}}, []string{"10.0.0.1", "2001:db8::1"}},
		"LoadBalancer":       {corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.0.0.1"}, []string{"10.0.0.1"}},
		"not of clusterIPs":  {corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.2"}}, []string{"10.0.0.1", "10.0.0.2"}},
		"second one missing": {corev1.ServiceSpec{ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1", ""}}, []string{"10.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			want(t, "claims", claimsOf(&corev1.Service{Spec: c.spec}).Addresses, c.want)
		})
	}
}

func TestConfig_Refused(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	client := server.Client("r")
	good := func() Config { return Config{Client: client, Owners: []Registration{{Owners: Services(client)}}} }
	for field, spoil := range map[string]func(*Config){
		"Client":        func(c *Config) { c.Client = nil },
		"Owners":        func(c *Config) { c.Owners = nil },
		"Owners[0]":     func(c *Config) { c.Owners[0].Owners = nil },
		"Manager":       func(c *Config) { c.Owners[0].Manager = "not/a/label value" },
		"register":      func(c *Config) { c.Owners = append(c.Owners, c.Owners[0]) },
		"Interval":      func(c *Config) { c.Interval = -1 },
		"MinSpacing":    func(c *Config) { c.MinSpacing = time.Hour },
		"LeakGrace":     func(c *Config) { c.LeakGrace = -1 },
		"MismatchGrace": func(c *Config) { c.MismatchGrace = time.Hour },
		"CallTimeout":   func(c *Config) { c.CallTimeout = -1 },
	} {
		config := good()
		spoil(&config)
		if _, err := New(config); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	c, err := New(good())
	if err != nil {
		t.Fatal(err)
	}
	want(t, "manager of Services", c.config.Owners[0].Manager, informer.CoreManager)
}
