// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// I11: calls per allocation, by mode.
func TestI11_CallsPerAllocation(t *testing.T) {
	for mode, want := range map[Verification]int{VerifyNever: 1, VerifyStale: 1, VerifyAlways: 2} {
		t.Run(mode.String(), func(t *testing.T) {
			withReplica(t, func(c *Config) { c.Verification = mode }, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
				r.server.ResetCalls()
				for range 10 {
					r.must(r.next(cidr.IPv4))
				}
				if n := r.server.Calls("r").Total(); n != 10*want {
					t.Errorf("%d calls for 10 allocations, want %d", n, 10*want)
				}
			})
		})
	}
}

// I7, S24: the CIDR is deleted while the view does not know: with a read after
// the create, or without a lease, the create is undone and another CIDR serves.
func TestS24_AllocationInFlightWhileItsCIDRIsDeleted(t *testing.T) {
	for _, mode := range []Verification{VerifyAlways, VerifyStale} {
		t.Run(mode.String(), func(t *testing.T) {
			withReplica(t, func(c *Config) { c.Verification = mode }, having("10.0.0.0/16"), func(t *testing.T, r *replica) {
				r.server.Hold("r")
				terminate(t, r.server, "a")
				if mode == VerifyStale {
					time.Sleep(2 * DefaultLease) // a list has shown it terminating
				}
				r.server.ResetCalls()
				_, err := r.next(cidr.IPv4)
				if !errors.Is(err, ErrNotReady) || errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "terminating") {
					t.Errorf("%v", err)
				}
				if left := stored(r.server); len(left) > 0 {
					t.Errorf("left %v", left)
				}
				if n := r.calls("create", "ipaddresses"); n != 1 {
					t.Errorf("%d creates: a CIDR that verification refused was tried again", n)
				}
				if _, err := r.at("10.0.0.7"); !errors.Is(err, ErrNotReady) || len(stored(r.server)) > 0 {
					t.Errorf("static: %v, left %v", err, stored(r.server))
				}
				// Another CIDR serves.
				add(r.server, "b", "10.1.0.0/29")
				r.server.DeliverResource("r", "servicecidrs", -1)
				r.server.Hold("r")
				synctest.Wait()
				if a := r.must(r.next(cidr.IPv4)); a.Range.String() != "10.1.0.0/29" {
					t.Errorf("%s", a.Range)
				}
			})
		})
	}
}

// The lease counts from before the list until after the create was answered: a
// create that is answered later is verified by a read.
func TestLeaseMustHoldWhenTheCreateIsAnswered(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
		// No renewal succeeds from here on.
		r.server.Fail(simapi.Fault{Replica: "r", Verb: "list", Resource: "servicecidrs", Times: simapi.Forever, Err: simapi.Unavailable()})
		for _, c := range []struct {
			slow time.Duration
			gets int
		}{{0, 0}, {DefaultLease + time.Second, 1}, {0, 0}} { // the read itself is a new lease
			block := make(chan struct{})
			if c.slow > 0 {
				r.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", When: simapi.After, Block: block})
				go func() { time.Sleep(c.slow); close(block) }()
			}
			r.server.ResetCalls()
			r.must(r.next(cidr.IPv4))
			if n := r.calls("get", "servicecidrs"); n != c.gets {
				t.Errorf("create of %v: %d reads, want %d", c.slow, n, c.gets)
			}
		}
	})
}

// A ServiceCIDR that was deleted and made again is another one: the lease of
// the first does not vouch for it.
func TestLeaseIsOfOneObject(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
		terminate(t, r.server, "a")
		r.server.RemoveFinalizer("a", informer.Finalizer)
		add(r.server, "a", "10.0.0.0/24")
		synctest.Wait()
		r.server.ResetCalls()
		r.must(r.next(cidr.IPv4))
		if n := r.calls("get", "servicecidrs"); n != 1 {
			t.Errorf("%d reads, want 1", n)
		}
	})
}

// A CIDR of which the lease has not heard, or whose Ready is False at the
// server, is read.
func TestVerifyReadsReadiness(t *testing.T) {
	withReplica(t, func(c *Config) { c.Verification = VerifyAlways }, having("10.0.0.0/24", "10.0.0.0/16"), func(t *testing.T, r *replica) {
		r.server.Hold("r")
		r.server.SetReady("b", metav1.ConditionFalse)
		// The address is in the /16 only, or in both.
		if _, err := r.at("10.0.9.9"); !errors.Is(err, ErrNotReady) {
			t.Errorf("%v", err)
		}
		r.must(r.at("10.0.0.9"))
	})
}

// An error of the verifying read reaches the caller, and undoes the create.
func TestVerificationErrorUndoes(t *testing.T) {
	withReplica(t, func(c *Config) { c.Verification = VerifyAlways }, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
		r.server.Fail(simapi.Fault{Verb: "get", Resource: "servicecidrs", Err: simapi.Forbidden("no")})
		if _, err := r.next(cidr.IPv4); !apierrors.IsForbidden(err) || len(stored(r.server)) > 0 {
			t.Errorf("%v, left %v", err, stored(r.server))
		}
	})
}

// I9: what a failed call leaves is removed in the background, however often
// that fails.
func TestI9_JanitorRemovesWhatFailedCallsLeft(t *testing.T) {
	withReplica(t, nil, having("10.0.0.0/24"), func(t *testing.T, r *replica) {
		for range 5 {
			r.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
			r.server.Fail(simapi.Fault{Verb: "get", Resource: "ipaddresses", Err: simapi.ConnectionCut()})
			if _, err := r.next(cidr.IPv4); err == nil {
				t.Fatal("no error")
			}
		}
		r.server.Fail(simapi.Fault{Verb: "delete", Resource: "ipaddresses", Times: 12, Err: simapi.Unavailable()})
		keep := r.must(r.next(cidr.IPv4))
		time.Sleep(10 * time.Minute) // one object may meet all of the failures, at up to 30 s each
		synctest.Wait()
		left := stored(r.server)
		if _, ok := left[keep.Address.String()]; !ok || len(left) != 1 {
			t.Errorf("left %v, want %s", left, keep.Address)
		}
		if s := r.row("a", "10.0.0.0/24"); s.Dynamic.Taken != cidr.U128(uint(1)) {
			t.Errorf("taken %s", s.Dynamic.Taken)
		}
	})
}
