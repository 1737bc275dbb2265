// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// servers is an API behind which several API servers are, of which each answers in turn.
type servers struct {
	*cluster
	leases coordinationv1client.LeasesGetter
	flags  [][]string // nil: /flagz is not served
	asked  int
}

func (s *servers) Leases(namespace string) coordinationv1client.LeaseInterface {
	return s.leases.Leases(namespace)
}

func (s *servers) ServerRanges(context.Context) ([]string, error) {
	if s.flags == nil {
		return nil, nil
	}
	s.asked++
	return s.flags[s.asked%len(s.flags)], nil
}

// When the API servers are taken to run with the new range, and what is said otherwise.
func TestHandOver_SeveralAPIServers(t *testing.T) {
	before, after := []string{oldRange}, []string{newRange}
	for _, c := range []struct {
		name string
		// old and now are the processes by the Leases' names, when the run began and now.
		old, now map[string]string
		flags    [][]string
		ask      func(context.Context, Step, string) (bool, error)
		// says is a part of the error; "" means handed over.
		says string
	}{
		{"one, restarted", map[string]string{"a": "1"}, map[string]string{"a": "2"}, [][]string{after}, nil, ""},
		{"one, restarted before the run", map[string]string{"a": "1"}, map[string]string{"a": "1"}, [][]string{after}, nil, ""},
		{"one, not restarted", map[string]string{"a": "1"}, map[string]string{"a": "1"}, [][]string{before}, nil, "runs with --service-cluster-ip-range=" + oldRange},
		{"three, one of them with the old flag", map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "2", "b": "2", "c": "2"}, [][]string{after, after, before}, nil, "runs with"},
		{"three, all restarted", map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "2", "b": "2", "c": "2"}, [][]string{after}, nil, ""},
		{"three, one of them is not seen", map[string]string{"a": "1", "b": "1", "c": "1"}, map[string]string{"a": "2", "b": "2", "c": "1"}, [][]string{after}, nil, "Do all API servers run with"},
		{"three under new names", map[string]string{"a": "1", "b": "1"}, map[string]string{"x": "1", "y": "1"}, [][]string{after}, nil, ""},
		{"flags unknown, one not restarted", map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "2", "b": "1"}, nil, nil, "1 of 2 API servers have not been restarted: b"},
		{"flags unknown, all restarted", map[string]string{"a": "1"}, map[string]string{"a": "2"}, nil, nil, "Do all API servers run with"},
		{"flags and Leases unknown", nil, nil, nil, nil, "Do all API servers run with"},
		{"unknown, and you say yes", nil, nil, nil, func(context.Context, Step, string) (bool, error) { return true, nil }, ""},
		{"unknown, and you say no", nil, nil, nil, func(context.Context, Step, string) (bool, error) { return false, nil }, "resume with --acknowledge"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				lease := func(name, process string, renewed time.Time) {
					l := &coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}},
						Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(process), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NewMicroTime(renewed))},
					}
					if err := client.Tracker().Add(l); err != nil {
						t.Fatal(err)
					}
				}
				for name, process := range c.now {
					lease(name, process, time.Now())
				}
				// One that is no more says nothing.
				lease("gone", "1", time.Now().Add(-2*time.Hour))
				api := &servers{cluster: newCluster(t, oldRange), leases: client.CoordinationV1(), flags: c.flags}
				step := Step{ID: 1, Kind: HandOver, Before: before, Ranges: after}
				plan := journalPlan()
				plan.Steps = []Step{step}
				r, err := NewRunner(Config{API: api, Plan: plan, Journal: &memory{}, Ask: c.ask})
				if err != nil {
					t.Fatal(err)
				}
				h := readHistory([]Entry{{Type: StepBegun, Step: 1, Holders: c.old}})
				err = r.handOver(t.Context(), step, h)
				switch {
				case c.says == "" && err != nil:
					t.Errorf("not handed over: %v", err)
				case c.says != "" && (!errors.Is(err, ErrWaiting) || !strings.Contains(err.Error(), c.says)):
					t.Errorf("want to wait for %q, got %v", c.says, err)
				}
			})
		})
	}
}

// A second runner is kept out as long as the first one's Lease lasts, and is told who it is.
func TestExclusive(t *testing.T) {
	now := time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, holder string
		renewed      time.Time
		out          bool
	}{
		{"nobody", "", now, false},
		{"another, who lives", "bastion:/journal", now.Add(-time.Minute), true},
		{"itself, before a crash", "me", now.Add(-time.Second), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(&coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: LeaseName},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &c.holder, LeaseDurationSeconds: ptr.To[int32](120),
					RenewTime: ptr.To(metav1.NewMicroTime(c.renewed)), AcquireTime: ptr.To(metav1.NewMicroTime(c.renewed))},
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran := false
			err := Exclusive(ctx, client.CoordinationV1(), "kube-system", "me", testingclock.NewFakePassiveClock(now), func(context.Context) error {
				ran = true
				return nil
			})
			if c.out {
				if ran || !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), c.holder) || !strings.Contains(err.Error(), "1m0s") {
					t.Errorf("ran: %v, %v", ran, err)
				}
				return
			}
			if !ran || err != nil {
				t.Errorf("ran: %v, %v", ran, err)
			}
		})
	}
}

// A pause is asked for on the Lease, seen there, and taken back.
func TestPause(t *testing.T) {
	client := fake.NewClientset()
	ctx, asked := t.Context(), PauseRequested(client.CoordinationV1(), "kube-system")
	if err := RequestPause(ctx, client.CoordinationV1(), "kube-system", true); err == nil || !strings.Contains(err.Error(), "no runner has worked") {
		t.Errorf("without a runner: %v", err)
	}
	if err := RequestPause(ctx, client.CoordinationV1(), "kube-system", false); err != nil {
		t.Error(err)
	}
	if paused, err := asked(ctx); paused || err != nil {
		t.Errorf("paused: %v, %v", paused, err)
	}
	if err := client.Tracker().Add(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: LeaseName}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if err := RequestPause(ctx, client.CoordinationV1(), "kube-system", want); err != nil {
			t.Fatal(err)
		}
		if paused, err := asked(ctx); paused != want || err != nil {
			t.Errorf("paused: %v, %v, want %v", paused, err, want)
		}
	}
}

// What the journal says of a run.
func TestReadStatus(t *testing.T) {
	plan := journalPlan()
	plan.Steps = append(plan.Steps, Step{ID: 2, Kind: MoveServices, Title: "move", Target: &Target{}})
	move := func(kind EntryType, service string, gap time.Duration) Entry {
		return Entry{Type: kind, Step: 2, Service: service, Gap: gap.Microseconds(), Message: "why"}
	}
	began := []Entry{{Type: StepBegun, Step: 1}, {Type: StepDone, Step: 1}, {Type: StepBegun, Step: 2},
		move(Intent, "web/a", 0), move(Intent, "web/b", 0), move(Intent, "web/c", 0), move(Moved, "web/a", 3*time.Millisecond), move(Left, "web/b", 0), move(Told, "web/a", 0)}
	for _, c := range []struct {
		name    string
		entries []Entry
		want    string
	}{
		{"nothing", nil, "Pending [Pending Pending] moved 0 on the way [] left 0 told 0"},
		{"killed", began, "Begun [Done Begun] moved 1 on the way [web/c] left 1 told 1"},
		{"stopped", append(began[:len(began):len(began)], Entry{Type: Stopped}), "Stopped [Done Begun] moved 1 on the way [web/c] left 1 told 1"},
		{"resumed", append(began[:len(began):len(began)], Entry{Type: Stopped}, Entry{Type: StepBegun, Step: 2}, move(Moved, "web/c", 0)), "Begun [Done Begun] moved 2 on the way [] left 1 told 1"},
		{"finished", append(began[:len(began):len(began)], move(Moved, "web/c", 0), Entry{Type: StepDone, Step: 2}, Entry{Type: Finished}), "Finished [Done Done] moved 2 on the way [] left 1 told 1"},
		{"undone", append(began[:len(began):len(began)], Entry{Type: Undone, Message: "back"}, Entry{Type: Stopped}), "Undone [Done Begun] moved 1 on the way [web/c] left 1 told 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := ReadStatus(plan, c.entries)
			got := fmt.Sprintf("%s [%s %s] moved %d on the way %v left %d told %d", s.State, s.Steps[0].State, s.Steps[1].State, s.Moved, s.OnTheWay, len(s.Left), len(s.Told))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if c.entries != nil && s.Gap99 != 3*time.Millisecond {
				t.Errorf("gap %s", s.Gap99)
			}
		})
	}
}

// late is a runner's journal with a planted fault: an entry becomes durable only with the one after
// it, when the call that it announces was made.
type late struct {
	Journal
	pending []Entry
}

func (l *late) Append(ctx context.Context, entries ...Entry) error {
	now := l.pending
	l.pending = entries
	if len(now) == 0 {
		return nil
	}
	return l.Journal.Append(ctx, now...)
}

// I12 catches a runner that journals after the call: cut in the middle of a
// recreation, it loses a Service.
func TestI12_CatchesAJournalThatIsLate(t *testing.T) {
	lost := false
	for cut := 1; cut < 200 && !lost; cut++ {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, oldRange)
			c.populate(t, false)
			before := len(c.byKey())
			plan := c.plan(t, Request{Playbook: Replace, To: []string{newRange}, Strategy: Recreate})
			there := &memory{}
			c.next = []string{newRange}
			if err := c.run(t, plan, &late{Journal: there}, nil, cut); !errors.Is(err, errDead) {
				return
			}
			if err := c.run(t, plan, there, nil, 0); err != nil {
				return
			}
			lost = len(c.byKey()) < before
		})
	}
	if !lost {
		t.Error("no cut loses a Service: the kill tests prove nothing")
	}
}
