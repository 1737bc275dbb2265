// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	refused = &url.Error{Op: "Post", URL: "https://127.0.0.1", Err: syscall.ECONNREFUSED}
	taken   = apierrors.NewAlreadyExists(corev1.Resource("services"), "a")
	gone    = apierrors.NewNotFound(corev1.Resource("services"), "a")
)

func TestRetriable(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{refused, true},
		{fmt.Errorf("wrapped: %w", refused), true},
		{context.DeadlineExceeded, true},
		{apierrors.NewServiceUnavailable("starting"), true},
		{apierrors.NewTooManyRequests("busy", 1), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{apierrors.NewServerTimeout(corev1.Resource("services"), "create", 1), true},
		{apierrors.NewTimeoutError("late", 1), true},
		{taken, false},
		{gone, false},
		{apierrors.NewForbidden(corev1.Resource("services"), "a", errors.New("no")), false},
		{apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), "a", nil), false},
		{apierrors.NewConflict(corev1.Resource("services"), "a", errors.New("changed")), false},
	} {
		if got := retriable(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}

// answering returns a client whose calls of a verb get these answers, one after the other; the last one again and again.
func answering(verb string, answers ...error) *fake.Clientset {
	c := fake.NewClientset()
	n := 0
	c.PrependReactor(verb, "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		err := answers[min(n, len(answers)-1)]
		n++
		return true, &corev1.Service{}, err
	})
	return c
}

func newWorker(replicas ...kubernetes.Interface) *worker {
	return &worker{client: client{replicas: replicas, tally: newTally()}, keep: 1, random: rand.New(rand.NewPCG(1, 1))}
}

// A create that was applied without an answer shows as AlreadyExists at the next replica: that is no failure, while the
// same answer to the first try is one.
func TestWorker_LostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(answering("create", refused), answering("create", taken))
		if err := w.create(t.Context()); err != nil || len(w.live) != 1 || w.at != 1 {
			t.Errorf("create: %v; it has %v, at replica %d", err, w.live, w.at)
		}
		if err := w.create(t.Context()); !apierrors.IsAlreadyExists(err) {
			t.Errorf("create: %v, want AlreadyExists", err)
		}
		w = newWorker(answering("delete", refused, gone), answering("delete", gone))
		if err := w.delete(t.Context(), "a"); err != nil {
			t.Errorf("delete: %v", err)
		}
		if err := w.delete(t.Context(), "a"); !apierrors.IsNotFound(err) {
			t.Errorf("delete: %v, want NotFound", err)
		}
	})
}

func TestWorker_GivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(answering("create", refused))
		if err := w.create(t.Context()); !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "no answer from any replica") {
			t.Errorf("got %v", err)
		}
	})
}

// The Services that a worker believes to have are those that are there.
func TestWorker_KnowsWhatIsThere(t *testing.T) {
	c := fake.NewClientset()
	w := newWorker(c)
	w.keep, w.dual = 4, true
	seen := map[kind]int{}
	for range 300 {
		k, err := w.step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen[k]++
		list, err := c.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != len(w.live) {
			t.Fatalf("it has %v, there are %d", w.live, len(list.Items))
		}
	}
	if seen[creation] == 0 || seen[change] == 0 || seen[deletion] == 0 {
		t.Errorf("it did %v", seen)
	}
}

func service(name, revision string, addresses ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: revision}}
	svc.UID = types.UID(name)
	svc.Spec.ClusterIPs = addresses
	return svc
}

// The history goes on at another replica where it ended at the first one, and nothing is told twice or lost.
func TestFollower_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := make(chan string, 10)
		serve := func(events ...watch.Event) *fake.Clientset {
			c := fake.NewClientset()
			c.PrependWatchReactor("services", func(action clienttesting.Action) (bool, watch.Interface, error) {
				from <- action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion
				w := watch.NewFakeWithChanSize(len(events), false)
				for _, e := range events {
					w.Action(e.Type, e.Object)
				}
				events = nil
				w.Stop()
				return true, w, nil
			})
			return c
		}
		expired := apierrors.NewResourceExpired("too old").Status()
		f := &follower{ledger: audit.NewLedger(), replicas: []kubernetes.Interface{
			serve(watch.Event{Type: watch.Added, Object: service("a", "7", "10.96.0.1")}, watch.Event{Type: watch.Error, Object: &expired}),
			serve(watch.Event{Type: watch.Bookmark, Object: service("", "8")}, watch.Event{Type: watch.Deleted, Object: service("a", "9", "10.96.0.1")}),
		}}
		f.revision.Store(5)
		ctx, cancel := context.WithTimeout(t.Context(), 4*pause)
		defer cancel()
		if err := f.run(ctx); err != nil {
			t.Error(err)
		}
		if a, b := <-from, <-from; a != "5" || b != "7" {
			t.Errorf("it followed from %s, then from %s; want 5, 7", a, b)
		}
		if f.revision.Load() != 9 || f.ledger.Changes != 2 {
			t.Errorf("it is at revision %d after %d changes, want 9 after 2", f.revision.Load(), f.ledger.Changes)
		}
	})
}

// If no replica can go on, that is an error: changes may be missing.
func TestFollower_Lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientset()
		c.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, nil, apierrors.NewResourceExpired("too old")
		})
		f := &follower{ledger: audit.NewLedger(), replicas: []kubernetes.Interface{c}}
		if err := f.run(t.Context()); !apierrors.IsResourceExpired(err) {
			t.Errorf("got %v, want that the revision is too old", err)
		}
	})
}

func TestTally(t *testing.T) {
	tally := newTally()
	for i := range 100 {
		tally.done(creation, time.Duration(i+1)*time.Millisecond)
	}
	tally.retried(refused)
	tally.retried(apierrors.NewServiceUnavailable("starting"))
	var out bytes.Buffer
	tally.show(&out, 10*time.Second)
	for _, want := range []string{"create         100        10       51ms      100ms      100ms", `"connection refused": 1 times`, `"ServiceUnavailable": 1 times`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if tally.operations() != 100 {
		t.Errorf("%d operations", tally.operations())
	}
}

func TestCompare(t *testing.T) {
	c := fake.NewClientset(service("soak-0-1", "1"), service("soak-0-2", "2"), service("kubernetes", "3"))
	if err := compare(t.Context(), c, []string{"soak-0-1", "soak-0-2"}); err != nil {
		t.Error(err)
	}
	err := compare(t.Context(), c, []string{"soak-0-2", "soak-0-3"})
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "soak-0-3 was created and is not there") || !strings.Contains(err.Error(), "soak-0-1 was deleted, or never created") {
		t.Errorf("got %v", err)
	}
}

func TestRun_Refuses(t *testing.T) {
	if err := Run(t.Context(), Config{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "more than 0") {
		t.Errorf("got %v", err)
	}
}
