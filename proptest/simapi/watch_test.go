// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/proptest/simapi"
)

func mustWatch(t *testing.T, c *simapi.Client, opts metav1.ListOptions) watch.Interface {
	t.Helper()
	w, err := c.IPAddresses().Watch(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next takes n events and spells each "TYPE name@resourceVersion".
func next(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var out []string
	for range n {
		ev, open := <-w.ResultChan()
		if !open {
			t.Fatalf("the watch ended after %v", out)
		}
		obj := ev.Object.(metav1.Object)
		spelt := string(ev.Type) + " " + obj.GetName() + "@" + obj.GetResourceVersion()
		if obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			spelt += " end of initial"
		}
		out = append(out, spelt)
	}
	return out
}

func same(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// story makes revisions 2 to 5.
func story(t *testing.T, s *simapi.Server) {
	t.Helper()
	c := s.Client("writer")
	mustCreate(t, c, "10.0.0.1")                                                                                                                      // 2
	mustCreate(t, c, "10.0.0.2")                                                                                                                      // 3
	must(c.IPAddresses().Patch(t.Context(), "10.0.0.1", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}))(t) // 4
	expect(t, isOK, c.IPAddresses().Delete(t.Context(), "10.0.0.2", metav1.DeleteOptions{}))                                                          // 5
}

func TestWatch_EveryEventInOrderFromAnyRevision(t *testing.T) {
	all := []string{"ADDED 10.0.0.1@2", "ADDED 10.0.0.2@3", "MODIFIED 10.0.0.1@4", "DELETED 10.0.0.2@5"}
	s := newServer(t)
	live := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1"})
	story(t, s)
	same(t, all, next(t, live, 4))
	for from := range 4 {
		w := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: strconv.Itoa(from + 1)})
		same(t, all[from:], next(t, w, 4-from))
	}
}

func TestWatch_StartsWithThePresent(t *testing.T) {
	s := newServer(t)
	story(t, s)
	mustCreate(t, s.Client("writer"), "10.0.0.0") // 6
	present := []string{"ADDED 10.0.0.0@6", "ADDED 10.0.0.1@4"}
	cases := map[string]struct {
		opts metav1.ListOptions
		want []string
	}{
		"unset": {metav1.ListOptions{AllowWatchBookmarks: true}, present},
		"0":     {metav1.ListOptions{ResourceVersion: "0"}, present},
		"WatchList": {metav1.ListOptions{
			AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, append(present[:2:2], "BOOKMARK @6 end of initial")},
		"WatchList from 3": {metav1.ListOptions{
			ResourceVersion: "3", AllowWatchBookmarks: true, SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		}, append(present[:2:2], "BOOKMARK @6 end of initial")},
	}
	var all []watch.Interface
	var wants [][]string
	for _, test := range cases {
		all = append(all, mustWatch(t, s.Client("a"), test.opts))
		wants = append(wants, append(test.want, "ADDED 10.0.0.7@7"))
	}
	mustCreate(t, s.Client("writer"), "10.0.0.7")
	for i, w := range all {
		same(t, wants[i], next(t, w, len(wants[i])))
	}
}

func TestWatch_FromAFutureRevisionWaitsForIt(t *testing.T) {
	s := newServer(t)
	w := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "4"})
	story(t, s)
	same(t, []string{"DELETED 10.0.0.2@5"}, next(t, w, 1))
}

func TestWatch_OptionsThatDoNotGoTogetherAreInvalid(t *testing.T) {
	s := newServer(t)
	_, err := s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{SendInitialEvents: ptr.To(true)})
	expect(t, isInvalid, err)
	_, err = s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: "99", SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	expect(t, check{"Timeout", apierrors.IsTimeout}, err)
}

func TestWatch_SelectorTurnsChangesIntoComingAndGoing(t *testing.T) {
	s := newServer(t)
	w := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1", LabelSelector: "in"})
	c := s.Client("writer").IPAddresses()
	mustCreate(t, s.Client("writer"), "10.0.0.1") // 2: not seen
	for _, patch := range []string{
		`{"metadata":{"labels":{"in":"1"}}}`,  // 3
		`{"metadata":{"labels":{"in":"2"}}}`,  // 4
		`{"metadata":{"labels":{"in":null}}}`, // 5
		`{"metadata":{"labels":{"in":"3"}}}`,  // 6
	} {
		must(c.Patch(t.Context(), "10.0.0.1", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	expect(t, isOK, c.Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{})) // 7
	same(t, []string{"ADDED 10.0.0.1@3", "MODIFIED 10.0.0.1@4", "DELETED 10.0.0.1@5", "ADDED 10.0.0.1@6", "DELETED 10.0.0.1@7"}, next(t, w, 5))
}

func TestWatch_FromACompactedRevisionIsGone(t *testing.T) {
	s := newServer(t)
	open := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1"})
	story(t, s)
	s.Compact()

	w := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "4"})
	ev := <-w.ResultChan()
	if ev.Type != watch.Error {
		t.Fatalf("got %s, want ERROR", ev.Type)
	}
	expect(t, isExpired, apierrors.FromObject(ev.Object))
	if _, more := <-w.ResultChan(); more {
		t.Error("the stream goes on after the error")
	}
	next(t, open, 4) // open ones are not concerned

	w = mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "5"})
	mustCreate(t, s.Client("writer"), "10.0.0.6")
	same(t, []string{"ADDED 10.0.0.6@6"}, next(t, w, 1))
}

func TestWatch_EndsWithItsContextAndItsStop(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	byContext, err := s.Client("a").IPAddresses().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	byStop := mustWatch(t, s.Client("a"), metav1.ListOptions{})
	cancel()
	byStop.Stop()
	byStop.Stop()
	for _, w := range []watch.Interface{byContext, byStop} {
		if _, open := <-w.ResultChan(); open {
			t.Error("an event after the end")
		}
	}
	if n := s.Watches("a"); n != 0 {
		t.Errorf("%d watches left", n)
	}
}

func TestBookmark_GoesToThoseThatAllowThem(t *testing.T) {
	s := newServer(t)
	with := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
	without := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1"})
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	s.Bookmark("a")
	mustCreate(t, s.Client("writer"), "10.0.0.1")
	same(t, []string{"BOOKMARK @2", "ADDED 10.0.0.1@3"}, next(t, with, 2))
	same(t, []string{"ADDED 10.0.0.1@3"}, next(t, without, 1))
}

func TestHold_LinesUpTheEventsOfAllResources(t *testing.T) {
	s := newServer(t)
	a := s.Client("a")
	addresses := mustWatch(t, a, metav1.ListOptions{ResourceVersion: "1"})
	cidrs, err := a.ServiceCIDRs().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	other := mustWatch(t, s.Client("b"), metav1.ListOptions{ResourceVersion: "1"})

	s.Hold("a")
	mustCreate(t, a, "10.0.0.1")                // 2
	s.CreateServiceCIDR("x", "", "10.0.0.0/24") // 3
	mustCreate(t, a, "10.0.0.2")                // 4
	s.CreateServiceCIDR("y", "", "10.0.0.0/24") // 5
	same(t, []string{"ADDED 10.0.0.1@2", "ADDED 10.0.0.2@4"}, next(t, other, 2))
	if n := s.Pending("a"); n != 4 {
		t.Fatalf("%d pending, want 4", n)
	}
	select {
	case ev := <-addresses.ResultChan():
		t.Fatalf("held, but %v came", ev)
	default:
	}

	if n := s.Deliver("a", 2); n != 2 {
		t.Errorf("delivered %d, want 2", n)
	}
	same(t, []string{"ADDED 10.0.0.1@2"}, next(t, addresses, 1))
	same(t, []string{"ADDED x@3"}, next(t, cidrs, 1))
	if n := s.DeliverResource("a", "servicecidrs", 9); n != 1 {
		t.Errorf("delivered %d, want 1", n)
	}
	same(t, []string{"ADDED y@5"}, next(t, cidrs, 1))
	s.Release("a")
	mustCreate(t, a, "10.0.0.3") // 6
	same(t, []string{"ADDED 10.0.0.2@4", "ADDED 10.0.0.3@6"}, next(t, addresses, 2))
}

func TestCutWatches_LosesWhatIsHeld(t *testing.T) {
	s := newServer(t)
	w := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1"})
	s.Hold("a")
	mustCreate(t, s.Client("a"), "10.0.0.1")
	s.CutWatches("a")
	if _, open := <-w.ResultChan(); open {
		t.Error("an event after the cut")
	}
	if s.Pending("a") != 0 || s.Watches("a") != 0 {
		t.Errorf("%d pending, %d watches after the cut", s.Pending("a"), s.Watches("a"))
	}
	again := mustWatch(t, s.Client("a"), metav1.ListOptions{ResourceVersion: "1"})
	s.Release("a")
	same(t, []string{"ADDED 10.0.0.1@2"}, next(t, again, 1))
}
