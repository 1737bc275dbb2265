// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1apply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/proptest/simapi"
)

func lease(name, holder string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15)},
	}
}

func TestLease_AnUpdateMustSayWhichVersionItChanges(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Leases("kube-system")
	got := must(client.Create(t.Context(), lease("lock", "a"), metav1.CreateOptions{}))(t)

	cases := map[string]struct {
		version string
		want    check
	}{
		"none":    {"", isInvalid},
		"stale":   {"1", isConflict},
		"current": {got.ResourceVersion, isOK},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			obj := lease("lock", name)
			obj.ResourceVersion = test.version
			obj, err := client.Update(t.Context(), obj, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			expect(t, test.want, err)
			if err == nil && *obj.Spec.HolderIdentity != name {
				t.Errorf("holder %q", *obj.Spec.HolderIdentity)
			}
		})
	}
	// A patch starts from the stored object, and so from its version.
	must(client.Patch(t.Context(), "lock", types.MergePatchType, []byte(`{"spec":{"holderIdentity":"b"}}`), metav1.PatchOptions{}))(t)
	must(client.Update(t.Context(), lease("new", "a"), metav1.UpdateOptions{}))(t) // creates
}

func TestLease_Validation(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").Leases("kube-system")
	for name, spoil := range map[string]func(*coordinationv1.Lease){
		"no duration":          func(o *coordinationv1.Lease) { o.Spec.LeaseDurationSeconds = ptr.To[int32](0) },
		"negative transitions": func(o *coordinationv1.Lease) { o.Spec.LeaseTransitions = ptr.To[int32](-1) },
		"bad name":             func(o *coordinationv1.Lease) { o.Name = "A_B" },
	} {
		t.Run(name, func(t *testing.T) {
			obj := lease("lock", "a")
			spoil(obj)
			_, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
			expect(t, isInvalid, err)
		})
	}
	_, err := s.Client("a").Leases("").Create(t.Context(), lease("lock", "a"), metav1.CreateOptions{})
	expect(t, isNotSupported, err)
	_, err = client.Apply(t.Context(), coordinationv1apply.Lease("lock", "kube-system"), metav1.ApplyOptions{FieldManager: "m"})
	expect(t, isNotSupported, err)
}

func TestLease_TimesHaveMicroseconds(t *testing.T) {
	s := newServer(t)
	obj := lease("lock", "a")
	at := time.Date(2026, 1, 1, 0, 0, 0, 1234567, time.UTC)
	obj.Spec.RenewTime = ptr.To(metav1.NewMicroTime(at))
	got := must(s.Client("a").Leases("kube-system").Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	if want := at.Truncate(time.Microsecond); !got.Spec.RenewTime.Time.Equal(want) {
		t.Errorf("renewTime %v, want %v", got.Spec.RenewTime, want)
	}
}

func TestLease_WatchAndNamespaces(t *testing.T) {
	s := newServer(t)
	w := must(s.Client("a").Leases("one").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"}))(t)
	defer w.Stop()
	must(s.Client("a").Leases("two").Create(t.Context(), lease("lock", "a"), metav1.CreateOptions{}))(t)
	must(s.Client("a").Leases("one").Create(t.Context(), lease("lock", "a"), metav1.CreateOptions{}))(t)
	expect(t, isOK, s.Client("a").Leases("one").Delete(t.Context(), "lock", metav1.DeleteOptions{}))
	same(t, []string{"ADDED lock@3", "DELETED lock@4"}, next(t, w, 2))
	if n := len(must(s.Client("a").Leases("").List(t.Context(), metav1.ListOptions{}))(t).Items); n != 1 {
		t.Errorf("%d leases are left, want 1", n)
	}
}

// TestLease_ElectsOneLeader runs client-go's own leader election on it.
func TestLease_ElectsOneLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simapi.New()
		defer s.Close()
		var mu sync.Mutex
		leading := map[string]bool{}
		set := func(who string, leads bool) {
			mu.Lock()
			defer mu.Unlock()
			leading[who] = leads
		}
		leaders := func() (out []string) {
			mu.Lock()
			defer mu.Unlock()
			for who, leads := range leading {
				if leads {
					out = append(out, who)
				}
			}
			return out
		}
		stop := map[string]context.CancelFunc{}
		var running sync.WaitGroup
		for _, who := range []string{"a", "b"} {
			ctx, cancel := context.WithCancel(t.Context())
			stop[who] = cancel
			running.Go(func() {
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{
						LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "lock"},
						Client:     s.Client(who),
						LockConfig: resourcelock.ResourceLockConfig{Identity: who},
					},
					LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { set(who, true) },
						OnStoppedLeading: func() { set(who, false) },
					},
				})
			})
		}
		time.Sleep(time.Minute) // of the bubble
		first := leaders()
		if len(first) != 1 {
			t.Fatalf("leaders %v, want one", first)
		}
		stop[first[0]]()
		time.Sleep(time.Minute)
		if second := leaders(); len(second) != 1 || second[0] == first[0] {
			t.Errorf("leaders %v after %v has gone", second, first)
		}
		stop["a"]()
		stop["b"]()
		running.Wait()
	})
}
