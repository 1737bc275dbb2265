// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// informer is a real one of client-go over the typed client.
func informer(client networkingv1client.IPAddressesGetter) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return client.IPAddresses().List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return client.IPAddresses().Watch(ctx, opts)
		},
	}, &networkingv1.IPAddress{}, 0, nil)
}

// run starts the informer and stops it with the test.
func run(t *testing.T, inf cache.SharedIndexInformer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		inf.RunWithContext(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// eventually lets all goroutines run until they wait for one another, and the bubble's
// clock until their back-offs are over, to bring a condition about.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if synctest.Wait(); cond() {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("never came true: %s", what)
		}
	}
}

func keysOf(inf cache.SharedIndexInformer) int { return len(inf.GetStore().ListKeys()) }

func TestInformer_SyncsByWatchListAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		client := s.Client("a")
		mustCreate(t, client, "10.0.0.1")
		mustCreate(t, client, "10.0.0.2")
		s.ResetCalls()

		inf := informer(client)
		run(t, inf)
		eventually(t, "synced", inf.HasSynced)
		if got := keysOf(inf); got != 2 {
			t.Errorf("synced with %d objects, want 2", got)
		}
		if n := s.Calls("a")[simapi.Op{Verb: "list", Resource: "ipaddresses"}]; n != 0 {
			t.Errorf("%d lists: the informer fell back from WatchList", n)
		}

		mustCreate(t, client, "10.0.0.3")
		if err := client.IPAddresses().Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "follows", func() bool {
			_, third, _ := inf.GetStore().GetByKey("10.0.0.3")
			return third && keysOf(inf) == 2
		})
	})
}

func TestInformer_FallsBackToListWhenWatchListIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		client := s.Client("a")
		mustCreate(t, client, "10.0.0.1")
		s.Fail(simapi.Fault{Replica: "a", Verb: "watch", Err: simapi.Invalid("no WatchList here")})

		inf := informer(client)
		run(t, inf)
		eventually(t, "synced", inf.HasSynced)
		if n := s.Calls("a")[simapi.Op{Verb: "list", Resource: "ipaddresses"}]; n != 1 {
			t.Errorf("%d lists, want 1", n)
		}
		eventually(t, "watching", func() bool { return s.Watches("a") == 1 })
		mustCreate(t, client, "10.0.0.2")
		eventually(t, "follows", func() bool { return keysOf(inf) == 2 })
	})
}

func TestInformer_StaysStaleWhileHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		a, b := informer(s.Client("a")), informer(s.Client("b"))
		run(t, a)
		run(t, b)
		eventually(t, "synced", func() bool { return a.HasSynced() && b.HasSynced() })

		s.Hold("a")
		for _, name := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			mustCreate(t, s.Client("c"), name)
		}
		eventually(t, "b follows", func() bool { return keysOf(b) == 3 })
		if keysOf(a) != 0 || s.Pending("a") != 3 {
			t.Errorf("held: %d objects, %d pending, want 0 and 3", keysOf(a), s.Pending("a"))
		}
		if n := s.Deliver("a", 2); n != 2 {
			t.Errorf("delivered %d, want 2", n)
		}
		eventually(t, "a has two", func() bool { return keysOf(a) == 2 })
		s.Release("a")
		eventually(t, "a has all", func() bool { return keysOf(a) == 3 })
	})
}

func TestInformer_RecoversFromCutAndCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		inf := informer(s.Client("a"))
		run(t, inf)
		eventually(t, "synced", inf.HasSynced)
		mustCreate(t, s.Client("b"), "10.0.0.1")
		eventually(t, "follows", func() bool { return keysOf(inf) == 1 })

		// Cut while it cannot come back, and forget what it misses.
		heal := s.Fail(simapi.Fault{Replica: "a", Verb: "watch", Times: simapi.Forever, Err: simapi.ConnectionRefused()})
		s.CutWatches("a")
		if err := s.Client("b").IPAddresses().Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		mustCreate(t, s.Client("b"), "10.0.0.2")
		s.Compact()
		heal()
		eventually(t, "relisted", func() bool {
			_, gone, _ := inf.GetStore().GetByKey("10.0.0.1")
			_, there, _ := inf.GetStore().GetByKey("10.0.0.2")
			return !gone && there
		})
	})
}

func TestClose_EndsWatchesAndFreesBlockedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simapi.New()
		w, err := s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Fail(simapi.Fault{Verb: "get", Block: make(chan struct{})})
		entered := make(chan struct{})
		s.OnCall(func(c simapi.Call) {
			if c.Verb == "get" && c.Phase == simapi.Before {
				close(entered)
			}
		})
		answer := make(chan error)
		go func() {
			_, err := s.Client("b").IPAddresses().Get(context.Background(), "10.0.0.1", metav1.GetOptions{})
			answer <- err
		}()
		<-entered
		s.Close()
		s.Close()
		if _, open := <-w.ResultChan(); open {
			t.Error("the watch is still open")
		}
		if err := <-answer; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("blocked call got %v, want unavailable", err)
		}
		if _, err := s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{}); err == nil {
			t.Error("a closed server opened a watch")
		}
	})
}
