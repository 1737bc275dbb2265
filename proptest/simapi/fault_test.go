// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"errors"
	"io"
	"net/url"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/metacidr/metacidr/proptest/simapi"
)

func create(ctx context.Context, c *simapi.Client, name string) error {
	_, err := c.IPAddresses().Create(ctx, address(name), metav1.CreateOptions{})
	return err
}

func TestFault_StrikesWhatItSelectsAsOftenAsItSays(t *testing.T) {
	s := newServer(t)
	a, b := s.Client("a"), s.Client("b")
	s.Fail(simapi.Fault{Replica: "a", Verb: "create", Resource: "ipaddresses", Name: "10.0.0.1", Times: 2, Err: simapi.Forbidden("no")})

	expect(t, isOK, create(t.Context(), b, "10.0.0.9"))
	expect(t, isOK, create(t.Context(), a, "10.0.0.8"))
	for range 2 {
		if err := create(t.Context(), a, "10.0.0.1"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want Forbidden", err)
		}
	}
	expect(t, isOK, create(t.Context(), a, "10.0.0.1"))
}

func TestFault_BeforeIsNotAppliedAfterIs(t *testing.T) {
	for when, applied := range map[simapi.Phase]int{simapi.Before: 0, simapi.After: 1} {
		t.Run(when.String(), func(t *testing.T) {
			s := newServer(t)
			s.Fail(simapi.Fault{When: when, Err: simapi.ConnectionCut()})
			if err := create(t.Context(), s.Client("a"), "10.0.0.1"); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %v, want a cut connection", err)
			}
			if got := len(s.TrueIPAddresses()); got != applied {
				t.Errorf("%d objects, want %d", got, applied)
			}
		})
	}
}

func TestFault_ForeverUntilRemoved(t *testing.T) {
	s := newServer(t)
	remove := s.Fail(simapi.Fault{Times: simapi.Forever, Err: simapi.Unavailable()})
	for range 5 {
		if err := create(t.Context(), s.Client("a"), "10.0.0.1"); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v, want unavailable", err)
		}
	}
	remove()
	expect(t, isOK, create(t.Context(), s.Client("a"), "10.0.0.1"))

	s.Fail(simapi.Fault{Times: simapi.Forever, Err: simapi.Unavailable()})
	s.ClearFaults()
	expect(t, isOK, create(t.Context(), s.Client("a"), "10.0.0.2"))
}

func TestFault_SlowCallHoldsUpNobodyElse(t *testing.T) {
	s := newServer(t)
	gate, entered := make(chan struct{}), make(chan struct{})
	s.OnCall(func(c simapi.Call) {
		if c.Name == "10.0.0.1" && c.Phase == simapi.Before {
			close(entered)
		}
	})
	s.Fail(simapi.Fault{Name: "10.0.0.1", Block: gate})
	slow := make(chan error)
	go func() { slow <- create(context.Background(), s.Client("a"), "10.0.0.1") }()
	<-entered
	expect(t, isOK, create(t.Context(), s.Client("a"), "10.0.0.2"))
	if got := names(s.TrueIPAddresses()); len(got) != 1 {
		t.Errorf("the slow call was applied early: %v", got)
	}
	close(gate)
	expect(t, isOK, <-slow)
}

func TestFault_BlockedCallEndsWithItsContext(t *testing.T) {
	for when, applied := range map[simapi.Phase]int{simapi.Before: 0, simapi.After: 1} {
		t.Run(when.String(), func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			s.OnCall(func(c simapi.Call) {
				if c.Phase == when {
					cancel()
				}
			})
			s.Fail(simapi.Fault{When: when, Block: make(chan struct{})})
			if err := create(ctx, s.Client("a"), "10.0.0.1"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want canceled", err)
			}
			if got := len(s.TrueIPAddresses()); got != applied {
				t.Errorf("%d objects, want %d", got, applied)
			}
		})
	}
}

func TestContext_EndedBeforeTheCallPreventsIt(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := create(ctx, s.Client("a"), "10.0.0.1")
	if _, wrapped := errors.AsType[*url.Error](err); !wrapped || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v (%T), want a url.Error of context.Canceled", err, err)
	}
	if _, err := s.Client("a").IPAddresses().Watch(ctx, metav1.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v, want canceled", err)
	}
	if len(s.TrueIPAddresses()) != 0 || s.Watches("a") != 0 || s.Calls("").Total() != 0 {
		t.Error("the call reached the server")
	}
}

func TestContext_EndedDuringTheCallLosesTheAnswer(t *testing.T) {
	for when, applied := range map[simapi.Phase]int{simapi.Before: 0, simapi.After: 1} {
		t.Run(when.String(), func(t *testing.T) {
			s := newServer(t)
			ctx, cancel := context.WithCancel(t.Context())
			s.OnCall(func(c simapi.Call) {
				if c.Phase == when {
					cancel()
				}
			})
			if err := create(ctx, s.Client("a"), "10.0.0.1"); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want canceled", err)
			}
			if got := len(s.TrueIPAddresses()); got != applied {
				t.Errorf("%d objects, want %d", got, applied)
			}
		})
	}
}

func TestFault_LostWatchLeavesNone(t *testing.T) {
	s := newServer(t)
	s.Fail(simapi.Fault{Verb: "watch", When: simapi.After, Err: simapi.ConnectionReset()})
	if _, err := s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{}); !utilnet.IsConnectionReset(err) {
		t.Errorf("got %v, want a reset", err)
	}
	if n := s.Watches("a"); n != 0 {
		t.Errorf("%d watches are open", n)
	}
}

func TestErrors_AreWhatAClientSees(t *testing.T) {
	delay := func(err error) bool { s, ok := apierrors.SuggestsClientDelay(err); return ok && s == 7 }
	for _, test := range []struct {
		err error
		is  check
	}{
		{simapi.Forbidden("x"), check{"Forbidden", apierrors.IsForbidden}},
		{simapi.TooManyRequests(7), check{"TooManyRequests", apierrors.IsTooManyRequests}},
		{simapi.TooManyRequests(7), check{"a delay of 7 s", delay}},
		{simapi.Invalid("x"), isInvalid},
		{simapi.Timeout(), check{"Timeout", apierrors.IsTimeout}},
		{simapi.ServerTimeout(), check{"ServerTimeout", apierrors.IsServerTimeout}},
		{simapi.InternalError("x"), check{"InternalError", apierrors.IsInternalError}},
		{simapi.Unavailable(), check{"ServiceUnavailable", apierrors.IsServiceUnavailable}},
		{simapi.ConnectionCut(), check{"EOF", utilnet.IsProbableEOF}},
		{simapi.ConnectionReset(), check{"reset", func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }}},
		{simapi.ConnectionRefused(), check{"refused", utilnet.IsConnectionRefused}},
	} {
		expect(t, test.is, test.err)
	}
}

func TestOnCall_SeesBothSidesAndMayUseTheServer(t *testing.T) {
	s := newServer(t)
	var seen []simapi.Call
	remove := s.OnCall(func(c simapi.Call) {
		seen = append(seen, c)
		if c.Phase == simapi.Before && c.Verb == "update" {
			s.SetReady("x", metav1.ConditionFalse) // between the caller's read and its write
		}
	})
	obj := s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
	obj.Labels = map[string]string{"a": "b"}
	_, err := s.Client("a").ServiceCIDRs().Update(t.Context(), obj, metav1.UpdateOptions{})
	expect(t, isConflict, err)
	remove()
	must(s.Client("a").ServiceCIDRs().Get(t.Context(), "x", metav1.GetOptions{}))(t)

	want := simapi.Call{Replica: "a", Verb: "update", Resource: "servicecidrs", Name: "x"}
	if len(seen) != 2 || !cmp.Equal(seen[0], want) {
		t.Fatalf("seen %+v", seen)
	}
	if seen[1].Phase != simapi.After || !apierrors.IsConflict(seen[1].Err) {
		t.Errorf("after: %+v", seen[1])
	}
}

func TestCalls_CountByReplicaVerbAndResource(t *testing.T) {
	s := newServer(t)
	a := s.Client("a")
	mustCreate(t, a, "10.0.0.1")
	_ = create(t.Context(), a, "10.0.0.1")
	obj := s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	must(a.ServiceCIDRs().UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}))(t)
	must(s.Client("b").ServiceCIDRs().List(t.Context(), metav1.ListOptions{}))(t)

	want := simapi.Counts{
		{Verb: "create", Resource: "ipaddresses"}:         2,
		{Verb: "update", Resource: "servicecidrs/status"}: 1,
	}
	if diff := cmp.Diff(want, s.Calls("a")); diff != "" {
		t.Errorf("counts of a (-want +got):\n%s", diff)
	}
	if got := s.Calls("").Total(); got != 4 {
		t.Errorf("%d calls in all, want 4", got)
	}
	s.ResetCalls()
	if got := s.Calls("a").Total(); got != 0 {
		t.Errorf("%d calls after the reset", got)
	}
}
