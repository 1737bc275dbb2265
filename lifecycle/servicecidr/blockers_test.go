// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// small are prefixes that nest, touch and repeat, few enough to walk.
var small = []string{
	"10.0.0.0/25", "10.0.0.0/26", "10.0.0.64/26", "10.0.0.0/27", "10.0.0.32/27", "10.0.0.64/28", "10.0.0.80/28",
	"10.0.0.0/30", "10.0.0.4/30", "10.0.0.124/30", "10.0.0.126/31",
	"2001:db8::/121", "2001:db8::/122", "2001:db8::40/122", "2001:db8::/124", "2001:db8::10/124", "2001:db8::7e/127", "2001:db8::/127",
}

// serviceCIDRs draws objects over small in all states.
func serviceCIDRs(t *rapid.T) []networkingv1.ServiceCIDR {
	objs := make([]networkingv1.ServiceCIDR, rapid.IntRange(1, 8).Draw(t, "n"))
	for i := range objs {
		o := &objs[i]
		o.Name = fmt.Sprint("c", i)
		o.Spec.CIDRs = []string{rapid.SampledFrom(small).Draw(t, "prefix")}
		if second := rapid.SampledFrom(small).Draw(t, "second"); rapid.Bool().Draw(t, "dual") && second != o.Spec.CIDRs[0] {
			o.Spec.CIDRs = append(o.Spec.CIDRs, second)
		}
		if rapid.IntRange(0, 3).Draw(t, "terminating") == 0 {
			o.DeletionTimestamp = &metav1.Time{}
		}
		if rapid.IntRange(0, 3).Draw(t, "finalizer") > 0 {
			o.Finalizers = []string{informer.Finalizer}
		}
	}
	return objs
}

// everyAddress is the space of small and a little around it.
func everyAddress() []netip.Addr {
	var all []netip.Addr
	for _, first := range []string{"9.255.255.254", "2001:db7:ffff:ffff:ffff:ffff:ffff:fffe"} {
		for i, a := 0, addr(first); i < 136; i, a = i+1, a.Next() {
			all = append(all, a)
		}
	}
	return all
}

// naive is DESIGN's rule, address by address.
func naive(rows []*informer.ServiceCIDR, row *informer.ServiceCIDR, without []string, a netip.Addr) bool {
	return row.CoversUsable(a) && !slices.ContainsFunc(rows, func(other *informer.ServiceCIDR) bool {
		return other != row && !slices.Contains(without, other.Name) &&
			other.HasFinalizer && !other.Terminating && other.CoversUsable(a)
	})
}

func TestI7_ExposedIsWhatNoOtherCovers(t *testing.T) {
	space := everyAddress()
	rapid.Check(t, func(t *rapid.T) {
		objs := serviceCIDRs(t)
		rows := make([]*informer.ServiceCIDR, len(objs))
		for i := range objs {
			rows[i] = informer.NewServiceCIDR(&objs[i])
		}
		row := rows[0]
		var without []string
		if rapid.Bool().Draw(t, "together") {
			without = []string{"c1", "c2"}
		}
		got := exposedAmong(rows, row, without)
		for _, a := range space {
			if want := naive(rows, row, without, a); got.Contains(a) != want {
				t.Fatalf("%s: exposed %v, want %v (spans %v)", a, !want, want, got)
			}
		}
		for i, s := range got {
			if s.IsEmpty() || i > 0 && !got[i-1].Last.Less(s.First) {
				t.Fatalf("spans out of order: %v", got)
			}
		}
	})
}

// The least case in which an address was counted twice: a stored object, such as
// no server lets in today, whose own ranges nest.
func TestBlockers_OwnRangesThatNestCountOnce(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.PutRaw(&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/25", "10.0.0.64/26"}},
		})
		c.hold("10.0.0.65")
		synctest.Wait()
		inView, err := Blockers(c.view.Snapshot(), "a")
		if err != nil || inView.Blocking != 1 {
			t.Errorf("by the view %v, %v", inView, err)
		}
		live, err := BlockersLive(quiet(), c.server.Client("x"), nil, "a")
		if err != nil || live.Blocking != 1 {
			t.Errorf("by the lists %v, %v", live, err)
		}
	})
}

// The view and the lists must agree with the rule, and with each other in every
// word.
func TestI7_BlockersInViewAndLive(t *testing.T) {
	space := everyAddress()
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			server := simapi.New()
			defer server.Close()
			objs := serviceCIDRs(t)
			for i := range objs {
				server.PutRaw(&objs[i])
			}
			c := newCluster(t, server, "c")
			defer c.stop()
			owners := map[netip.Addr]string{}
			for i, a := range rapid.SliceOfNDistinct(rapid.SampledFrom(space), 0, 40, rapid.ID).Draw(t, "addresses") {
				manager := rapid.SampledFrom([]string{informer.CoreManager, informer.DefaultManager, "", "somebody"}).Draw(t, "manager")
				c.put(a.String(), manager, informer.ServiceOwner("ns", fmt.Sprint("s", i)))
				if manager == informer.CoreManager || manager == informer.DefaultManager {
					owners[a] = fmt.Sprintf("%s (services/ns/s%d)", a, i)
				} else {
					owners[a] = ""
				}
			}
			synctest.Wait()
			var together []string
			if rapid.Bool().Draw(t, "together") {
				together = []string{"c1", "c2"}
			}
			inView, err := Blockers(c.view.Snapshot(), "c0", together...)
			if err != nil {
				t.Fatal(err)
			}
			live, err := BlockersLive(quiet(), server.Client("x"), nil, "c0", together...)
			if err != nil {
				t.Fatal(err)
			}
			var rows []*informer.ServiceCIDR
			for i := range objs {
				rows = append(rows, informer.NewServiceCIDR(&objs[i]))
			}
			var named []string
			blocking, unmanaged := uint64(0), uint64(0)
			for _, a := range space {
				switch owner, ok := owners[a]; {
				case !ok || !naive(rows, rows[0], together, a):
				case owner == "":
					unmanaged++
				default:
					blocking++
					if len(named) < MaxNamed {
						named = append(named, owner)
					}
				}
			}
			for what, r := range map[string]*Report{"view": inView, "live": live} {
				if r.Blocking != blocking || r.Unmanaged != unmanaged || fmt.Sprint(r.First) != fmt.Sprint(named) {
					t.Fatalf("%s: %d blocking, %d unmanaged, %v; want %d, %d, %v", what, r.Blocking, r.Unmanaged, r.First, blocking, unmanaged, named)
				}
				checkRemedy(t, c, r, rows[0])
			}
			if inView.String() != live.String() {
				t.Fatalf("the view says\n%s, the lists\n%s", inView, live)
			}
		})
	})
}

// checkRemedy: a new ServiceCIDR with the prefixes in Unblock makes every
// blocker usable.
func checkRemedy(t *rapid.T, c *cluster, r *Report, row *informer.ServiceCIDR) {
	if !r.Blocked() {
		if len(r.Unblock)+len(r.First)+len(r.NoCover) > 0 {
			t.Fatalf("nothing blocks, but %+v", r)
		}
		return
	}
	cover := *row
	cover.Name, cover.Terminating, cover.HasFinalizer, cover.Ranges = "new", false, true, nil
	for _, p := range r.Unblock {
		rng, err := cidr.RangeOf(p)
		if err != nil {
			t.Fatal(err)
		}
		cover.Ranges = append(cover.Ranges, rng)
	}
	only := exposedAmong([]*informer.ServiceCIDR{row, &cover}, row, nil)
	for _, b := range r.First {
		if only.Contains(b.Address) {
			t.Fatalf("%v would not unblock %s", r.Unblock, b)
		}
	}
}

func TestS16_TwoHalvesDoNotReplaceTheWhole(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("whole", "10.0.0.0/16")
		c.kept("low", "10.0.0.0/17")
		c.kept("high", "10.0.128.0/17")
		c.hold("10.0.0.5", "10.0.200.1")
		synctest.Wait()
		if r, err := Blockers(c.view.Snapshot(), "whole"); err != nil || r.Blocked() {
			t.Errorf("%v, %v: the halves cover both", r, err)
		}
		c.hold("10.0.127.255", "10.0.128.0")
		synctest.Wait()
		r, err := Blockers(c.view.Snapshot(), "whole")
		want := "2 addresses block the deletion: 10.0.127.255 (services/default/web0), 10.0.128.0 (services/default/web1)" +
			". To go on, release them, or create another ServiceCIDR that contains 10.0.0.0/16"
		if err != nil || r.String() != want {
			t.Errorf("%v, %v, want\n%s", r, err, want)
		}
	})
}

func TestS30_ToldBeforeTheDeletion(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24", "2001:db8::/112")
		c.kept("twin", "10.0.0.0/24")
		c.hold("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7", "2001:db8::9")
		synctest.Wait()
		s := c.view.Snapshot()
		for _, test := range []struct {
			name     string
			together []string
			want     string
		}{
			{"twin", nil, "no managed address depends on it alone"},
			{"a", nil, "1 address blocks the deletion: 2001:db8::9 (services/default/web7)" +
				". To go on, release them, or create another ServiceCIDR that contains 2001:db8::8/127"},
			{"a", []string{"twin"}, "8 addresses block the deletion: 10.0.0.1 (services/default/web0), 10.0.0.2 (services/default/web1), " +
				"10.0.0.3 (services/default/web2), 10.0.0.4 (services/default/web3), 10.0.0.5 (services/default/web4) and 3 more" +
				". To go on, release them, or create another ServiceCIDR that contains 10.0.0.0/24 and 2001:db8::/112" +
				"; no cover: twin is to be deleted too"},
		} {
			r, err := Blockers(s, test.name, test.together...)
			if err != nil || r.String() != test.want {
				t.Errorf("%s with %v: %v, %v, want\n%s", test.name, test.together, r, err, test.want)
			}
		}
		if _, err := Blockers(s, "absent"); err == nil || err.Error() != `ServiceCIDR not found: "absent": is it gone already?` {
			t.Errorf("absent: %v", err)
		}
		if _, err := BlockersLive(quiet(), c.server.Client("x"), nil, "absent"); err == nil {
			t.Error("absent, live: no error")
		}
	})
}
