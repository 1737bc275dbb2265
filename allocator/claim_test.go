// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// S1: an error that is not AlreadyExists reaches the caller as it is, after one
// create, never as ErrFull, and leaves nothing.
func TestS1_ErrorsOfTheAPIServerStopAtOnce(t *testing.T) {
	for name, fault := range map[string]struct {
		err     error
		is      func(error) bool
		maxGets int // an answer that leaves the outcome open is read back once
	}{
		"Forbidden":       {simapi.Forbidden("no"), apierrors.IsForbidden, 0},
		"Invalid":         {simapi.Invalid("no"), apierrors.IsInvalid, 0},
		"TooManyRequests": {simapi.TooManyRequests(1), apierrors.IsTooManyRequests, 0},
		"ServerTimeout":   {simapi.ServerTimeout(), apierrors.IsServerTimeout, 1},
		"Timeout":         {simapi.Timeout(), apierrors.IsTimeout, 1},
		"refused":         {simapi.ConnectionRefused(), utilnet.IsConnectionRefused, 0},
		"InternalError":   {simapi.InternalError("no"), apierrors.IsInternalError, 1},
	} {
		for _, static := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s static=%v", name, static), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					f := newFixture(t, nil)
					defer f.stop()
					a := f.track("10.0.0.0/24")[0]
					f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", Err: fault.err})
					f.server.ResetCalls()
					var err error
					if static {
						_, err = a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
					} else {
						_, err = a.AllocateNext(t.Context(), owner)
					}
					if !fault.is(err) || errors.Is(err, ErrFull) {
						t.Errorf("error %v", err)
					}
					if c, g := f.calls("create"), f.calls("get"); c != 1 || g > fault.maxGets {
						t.Errorf("%d creates, %d gets", c, g)
					}
					if got := f.trueNames(); len(got) > 0 {
						t.Errorf("left behind: %v", got)
					}
					if free := a.Free(cidr.BandDynamic).Add(a.Free(cidr.BandStatic)); fault.maxGets == 0 && free != a.rng.Size() {
						t.Errorf("%s of %s free after an answer that refuses", free, a.rng.Size())
					}
					f.clock.Step(2 * time.Hour) // holds of open outcomes end
					if _, err := a.AllocateNext(t.Context(), owner); err != nil {
						t.Error(err)
					}
					f.checkInvariants()
				})
			})
		}
	}
}

// S1: bad input is refused before any call.
func TestS1_BadInputMakesNoCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		f.server.ResetCalls()
		for _, bad := range []informer.Owner{{}, {Resource: "services"}, {Name: "x"}} {
			if _, err := a.AllocateNext(t.Context(), bad); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%+v: %v", bad, err)
			}
			if err := a.Release(t.Context(), bad, netip.MustParseAddr("10.0.0.5")); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("release for %+v: %v", bad, err)
			}
		}
		// S53: spellings that are no canonical name.
		for _, addr := range []netip.Addr{{}, netip.MustParseAddr("::ffff:10.0.0.5"), netip.MustParseAddr("fe80::1%eth0")} {
			if _, err := f.pool.AllocateAt(t.Context(), owner, addr); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%v: %v", addr, err)
			}
			if err := f.pool.Release(t.Context(), owner, addr); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("release %v: %v", addr, err)
			}
		}
		for _, addr := range []string{"10.0.0.0", "10.0.0.255", "10.0.1.1", "2001:db8::1"} {
			if _, err := a.Allocate(t.Context(), owner, netip.MustParseAddr(addr)); !errors.Is(err, ErrNotInRange) {
				t.Errorf("%s: %v", addr, err)
			}
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.AllocateNext(cancelled, owner); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := f.server.Calls(replica).Total(); got != 0 {
			t.Errorf("%d calls", got)
		}
	})
}

func TestS53_OneCanonicalNameForAnAddress(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		if _, err := f.pool.AllocateAt(t.Context(), owner, netip.MustParseAddr("2001:DB8::0005")); err != nil {
			t.Fatal(err)
		}
		if got := f.trueNames(); !slices.Equal(got, []string{"2001:db8::5"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// S4: the view says taken, the API server says free: a static request succeeds
// after one call.
func TestS4_StaleViewDoesNotRefuseStaticRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		f.foreign("10.0.0.5")
		synctest.Wait()
		f.server.Hold(replica)
		f.foreignDelete("10.0.0.5")
		f.server.ResetCalls()
		got, err := a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
		if err != nil || got.Address.String() != "10.0.0.5" {
			t.Fatal(got, err)
		}
		if n := f.server.Calls(replica).Total(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		f.server.Release(replica)
		synctest.Wait()
		f.checkInvariants()
		if got := f.trueNames(); len(got) != 1 {
			t.Errorf("stored %v", got)
		}
	})
}

func TestStaticRequestNamesTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		f.foreign("10.0.0.5")
		_, err := a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
		var taken *AllocatedError
		if !errors.As(err, &taken) || taken.Owner != informer.ServiceOwner("default", "theirs") || !errors.Is(err, ErrAllocated) {
			t.Error(err)
		}
		f.checkInvariants()
	})
}

// S6: a second allocation of an owner, given back, is net zero; a release with
// another owner's reference does nothing.
func TestS6_ReleaseIsByOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		first, err := a.AllocateNext(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		second, err := a.AllocateNext(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Release(t.Context(), owner, second.Address); err != nil {
			t.Fatal(err)
		}
		if err := a.Release(t.Context(), informer.ServiceOwner("default", "stranger"), first.Address); err != nil {
			t.Errorf("a stranger's release: %v", err)
		}
		if err := a.Release(t.Context(), owner, netip.MustParseAddr("10.0.0.77")); err != nil {
			t.Errorf("release of a free address: %v", err)
		}
		if got := f.trueNames(); !slices.Equal(got, []string{first.Address.String()}) {
			t.Errorf("stored %v", got)
		}
	})
}

// I8: between the release's read and its delete the object is replaced by
// another's: that one stays.
func TestI8_ReleaseNeverRemovesAnother(t *testing.T) {
	for _, who := range []string{"theirs", "mine"} { // another owner, and the same owner come back
		t.Run(who, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				defer f.stop()
				a := f.track("10.0.0.0/24")[0]
				got, err := a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
				if err != nil {
					t.Fatal(err)
				}
				f.server.OnCall(func(c simapi.Call) {
					if c.Replica == replica && c.Verb == "delete" && c.Phase == simapi.Before {
						f.foreignDelete("10.0.0.5")
						f.foreign("10.0.0.5")
					}
				})
				if err := a.Release(t.Context(), owner, got.Address); err != nil {
					t.Errorf("release: %v", err)
				}
				if o := f.server.TrueIPAddresses(); len(o) != 1 || o[0].UID == got.UID {
					t.Errorf("stored %v", f.trueNames())
				}
			})
		})
	}
}

// A create whose answer is lost is recognised by its nonce.
func TestLostAnswerIsReadBack(t *testing.T) {
	for _, static := range []bool{false, true} {
		t.Run(fmt.Sprint("static=", static), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				defer f.stop()
				a := f.track("10.0.0.0/24")[0]
				f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
				f.server.ResetCalls()
				var got Allocation
				var err error
				if static {
					got, err = a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
				} else {
					got, err = a.AllocateNext(t.Context(), owner)
				}
				if err != nil {
					t.Fatal(err)
				}
				if o := f.server.TrueIPAddresses(); len(o) != 1 || o[0].UID != got.UID {
					t.Errorf("stored %v, allocated %v", f.trueNames(), got)
				}
				if c, g := f.calls("create"), f.calls("get"); c != 1 || g != 1 {
					t.Errorf("%d creates, %d gets", c, g)
				}
				synctest.Wait()
				f.checkInvariants()
			})
		})
	}
}

// A create whose answer is lost, and that cannot be read back: the caller has
// the error, and the object is reported as a stray once the watch shows it,
// whether that is after the call or in its midst.
func TestI9_WhatAFailedCallLeftIsReported(t *testing.T) {
	for _, watch := range []string{"after", "in the midst"} {
		t.Run(watch, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFixture(t, nil)
				defer f.stop()
				a := f.track("10.0.0.0/24")[0]
				if watch == "after" {
					f.server.Hold(replica)
				} else {
					f.server.OnCall(func(c simapi.Call) {
						if c.Verb == "create" && c.Phase == simapi.After {
							synctest.Wait()
						}
					})
				}
				f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
				f.server.Fail(simapi.Fault{Verb: "get", Resource: "ipaddresses", Err: simapi.ConnectionReset()})
				if _, err := a.AllocateNext(t.Context(), owner); err == nil {
					t.Fatal("no error")
				}
				f.server.Release(replica)
				synctest.Wait()
				left := f.server.TrueIPAddresses()
				if len(left) != 1 || len(f.strays()) != 1 || f.strays()[0].UID != left[0].UID {
					t.Fatalf("left %v, strays %v", f.trueNames(), f.strays())
				}
				if err := f.pool.Remove(t.Context(), f.strays()[0]); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := f.trueNames(); len(got) != 0 {
					t.Errorf("left %v", got)
				}
				f.checkInvariants()
			})
		})
	}
}

// I3: calls whose answers are lost hold their addresses, but when nothing else
// is free those are tried once each before ErrFull: an outage does not leave a
// small range full.
func TestI3_LostCallsDoNotMakeARangeFull(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/29")[0]
		f.server.Hold(replica)
		// Five never arrive, one is carried out.
		f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", When: simapi.After, Err: simapi.ConnectionCut()})
		f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", Times: 5, Err: simapi.ConnectionCut()})
		f.server.Fail(simapi.Fault{Verb: "get", Resource: "ipaddresses", Times: 6, Err: simapi.ConnectionCut()})
		for range 6 {
			if _, err := a.AllocateNext(t.Context(), owner); err == nil || errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
		}
		for range 5 {
			if _, err := a.AllocateNext(t.Context(), owner); err != nil {
				t.Fatal(err)
			}
		}
		f.server.ResetCalls()
		if _, err := a.AllocateNext(t.Context(), owner); !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if n := f.calls("create"); n > 1 {
			t.Errorf("%d creates for a full range", n)
		}
		f.server.Release(replica)
		synctest.Wait()
		if len(f.strays()) != 1 {
			t.Errorf("strays %v", f.strays())
		}
		f.checkInvariants()
	})
}

// client-go sends a create twice when the first answer asks it to: the second
// meets the object of the first. A dynamic call goes on and reports the object;
// a static one recognises it.
func TestCreateSentTwice(t *testing.T) {
	sendTwice := func(f *fixture) {
		twice := true
		f.server.OnCall(func(c simapi.Call) {
			if c.Verb == "create" && c.Phase == simapi.Before && c.Replica == replica && twice {
				twice = false
				// The first of the two, which this replica's client sent.
				f.pool.mu.Lock()
				nonce := f.pool.nonceString(f.pool.counter)
				f.pool.mu.Unlock()
				obj := f.pool.object(Reservation{Addr: netip.MustParseAddr(c.Name)}, owner)
				obj.Annotations[informer.AnnotationNonce] = nonce
				if _, err := f.server.Client("first").IPAddresses().Create(context.Background(), obj, metav1.CreateOptions{}); err != nil {
					f.t.Errorf("%v", err)
				}
			}
		})
	}
	t.Run("dynamic", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil)
			defer f.stop()
			a := f.track("10.0.0.0/24")[0]
			sendTwice(f)
			got, err := a.AllocateNext(t.Context(), owner)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if len(f.strays()) != 1 || f.strays()[0].Name == got.Address.String() {
				t.Fatalf("strays %v, allocated %v", f.strays(), got)
			}
		})
	})
	t.Run("static", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, nil)
			defer f.stop()
			a := f.track("10.0.0.0/24")[0]
			sendTwice(f)
			got, err := a.Allocate(t.Context(), owner, netip.MustParseAddr("10.0.0.5"))
			if err != nil || len(f.trueNames()) != 1 || got.UID == "" {
				t.Fatal(got, err, f.trueNames())
			}
			synctest.Wait()
			if len(f.strays()) > 0 {
				t.Errorf("strays %v", f.strays())
			}
			f.checkInvariants()
		})
	})
}

// A hold ends when the view shows its object: afterwards the address is as free
// as the view says.
func TestHoldEndsWhenTheViewShowsItsObject(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.ReuseDelay = -1 })
		defer f.stop()
		a := f.track("10.0.0.0/28")[0]
		f.server.Hold(replica)
		got, err := a.AllocateNext(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(13)) {
			t.Errorf("%s free before the view shows the object, want 13", free)
		}
		f.server.Deliver(replica, -1)
		f.foreignDelete(got.Address.String())
		f.server.Deliver(replica, -1)
		synctest.Wait()
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(14)) {
			t.Errorf("%s free after somebody deleted the object, want 14", free)
		}
		f.checkInvariants()
	})
}

// A pick meets another's object, which the view shows and sees vanish while the
// call is in flight: the address is not held for it. And whatever is held after
// its call counts no longer than the time-out, even if nothing else happens.
func TestNoHoldOutlivesItsReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config) { c.ReuseDelay = -1 })
		defer f.stop()
		a := f.track("10.0.0.0/28")[0]
		once := true
		f.server.OnCall(func(c simapi.Call) {
			if once && c.Replica == replica && c.Verb == "create" {
				if c.Phase == simapi.Before {
					f.foreign(c.Name)
				} else {
					once = false
					synctest.Wait() // the view shows it
					f.foreignDelete(c.Name)
					synctest.Wait()
				}
			}
		})
		if _, err := a.AllocateNext(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(13)) {
			t.Errorf("%s free after one allocation, want 13", free)
		}
		synctest.Wait()
		// Now one that the view never shows.
		f.server.Hold(replica)
		f.server.Fail(simapi.Fault{Verb: "create", Err: simapi.ConnectionCut()})
		if _, err := a.AllocateNext(t.Context(), owner); err == nil {
			t.Fatal("no error")
		}
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(12)) {
			t.Errorf("%s free while an outcome is unknown, want 12", free)
		}
		f.clock.Step(DefaultHoldTimeout)
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(13)) {
			t.Errorf("%s free after the time-out, want 13", free)
		}
		f.checkInvariants()
	})
}

// S48: one call that hangs for long delays no other allocation or release, and
// ends when its context does.
func TestS48_ASlowCallDelaysNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/24")[0]
		f.server.Fail(simapi.Fault{Verb: "create", Resource: "ipaddresses", Block: make(chan struct{})})
		ctx, cancel := context.WithCancel(t.Context())
		slow := make(chan error, 1)
		go func() {
			_, err := a.AllocateNext(ctx, owner)
			slow <- err
		}()
		synctest.Wait() // it hangs
		for range 100 {
			got, err := a.AllocateNext(t.Context(), owner)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Release(t.Context(), owner, got.Address); err != nil {
				t.Fatal(err)
			}
		}
		_ = a.Free(cidr.BandDynamic)
		select {
		case err := <-slow:
			t.Fatalf("the slow call ended: %v", err)
		default:
		}
		cancel()
		if err := <-slow; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled call: %v", err)
		}
		synctest.Wait()
		f.checkInvariants()
	})
}

// Nothing is allocated before the initial lists are complete.
func TestNothingBeforeSync(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := simapi.New()
		defer s.Close()
		view, err := informer.NewView(informer.Config{Client: s.Client(replica)})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := NewPool(Config{View: view, Client: s.Client(replica)})
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		if _, err := pool.Range(cidr.MustParse("10.0.0.0/24")).AllocateNext(t.Context(), owner); !errors.Is(err, ErrNotSynced) {
			t.Error(err)
		}
		if got := s.Calls(replica).Total(); got != 0 {
			t.Errorf("%d calls", got)
		}
	})
}

func TestNewPool_BadConfigIsRefused(t *testing.T) {
	for name, c := range map[string]Config{"nothing": {}, "no view": {Client: simapi.New().Client("r")}} {
		if _, err := NewPool(c); !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Verification that fails gives the address back, even if the caller's context
// is done; one that says ErrNotCovered makes the allocation go on.
func TestVerificationThatFailsUndoesTheCreate(t *testing.T) {
	t.Run("not covered", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			var refuse netip.Addr
			f := newFixture(t, func(c *Config) {
				c.Verify = func(_ context.Context, addr netip.Addr) error {
					if !refuse.IsValid() {
						refuse = addr
						return fmt.Errorf("%w: gone", ErrNotCovered)
					}
					return nil
				}
			})
			defer f.stop()
			got, err := f.track("10.0.0.0/24")[0].AllocateNext(t.Context(), owner)
			if err != nil || !slices.Equal(f.trueNames(), []string{got.Address.String()}) {
				t.Error(got, err, f.trueNames())
			}
			synctest.Wait()
			f.checkInvariants()
		})
	})
	t.Run("another error, context done", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			f := newFixture(t, func(c *Config) {
				c.Verify = func(context.Context, netip.Addr) error { cancel(); return ctx.Err() }
			})
			defer f.stop()
			_, err := f.track("10.0.0.0/24")[0].AllocateNext(ctx, owner)
			if !errors.Is(err, context.Canceled) || len(f.trueNames()) > 0 {
				t.Error(err, f.trueNames())
			}
			synctest.Wait()
			f.checkInvariants()
		})
	})
	t.Run("the undo fails too", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			f := newFixture(t, func(c *Config) {
				c.Verify = func(context.Context, netip.Addr) error { return errors.New("no answer") }
			})
			defer f.stop()
			f.server.Fail(simapi.Fault{Verb: "delete", Resource: "ipaddresses", Err: simapi.ConnectionCut()})
			ctx := klog.NewContext(t.Context(), logr.Discard())
			if _, err := f.track("10.0.0.0/24")[0].AllocateNext(ctx, owner); err == nil {
				t.Fatal("no error")
			}
			if len(f.strays()) != 1 || len(f.trueNames()) != 1 || f.strays()[0].Name != f.trueNames()[0] {
				t.Errorf("strays %v, stored %v", f.strays(), f.trueNames())
			}
		})
	})
}

func TestDryRunWritesNothingAndAnswersTruly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		a := f.track("10.0.0.0/30")[0]
		f.foreign("10.0.0.1")
		synctest.Wait()
		revision := f.server.Revision()
		got, err := f.pool.DryRunNext(t.Context(), owner, &rangePicker{Allocator: a})
		if err != nil || got.Address.String() != "10.0.0.2" {
			t.Error(got, err)
		}
		if _, err := f.pool.DryRunAt(t.Context(), owner, netip.MustParseAddr("10.0.0.1")); !errors.Is(err, ErrAllocated) {
			t.Error(err)
		}
		if _, err := f.pool.DryRunAt(t.Context(), owner, netip.MustParseAddr("10.0.0.2")); err != nil {
			t.Error(err)
		}
		f.server.Fail(simapi.Fault{Verb: "create", Err: simapi.Forbidden("no")})
		if _, err := f.pool.DryRunNext(t.Context(), owner, &rangePicker{Allocator: a}); !apierrors.IsForbidden(err) {
			t.Error(err)
		}
		if f.server.Revision() != revision {
			t.Error("a dry run wrote")
		}
		f.checkInvariants()
		if free := a.Free(cidr.BandDynamic); free != cidr.U128(uint(1)) {
			t.Errorf("%s free after dry runs, want 1", free)
		}
	})
}

func TestLabelsSayWhoCollects(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFixture(t, nil)
		defer f.stop()
		for addr, o := range map[string]informer.Owner{"10.0.0.5": owner, "2001:db8::5": {Group: "example.com", Resource: "widgets", Name: "w"}} {
			if _, err := f.pool.AllocateAt(t.Context(), o, netip.MustParseAddr(addr)); err != nil {
				t.Fatal(err)
			}
		}
		objs := f.server.TrueIPAddresses()
		for i, want := range []map[string]string{
			{informer.LabelManagedBy: "ipallocator.k8s.io", informer.LabelIPFamily: "IPv4"},
			{informer.LabelManagedBy: "metacidr.io", informer.LabelIPFamily: "IPv6"},
		} {
			for k, v := range want {
				if objs[i].Labels[k] != v {
					t.Errorf("%s: label %s=%q, want %q", objs[i].Name, k, objs[i].Labels[k], v)
				}
			}
		}
		if got := objs[1].Spec.ParentRef; *got != *(informer.Owner{Group: "example.com", Resource: "widgets", Name: "w"}).Reference() {
			t.Errorf("parent %+v", got)
		}
	})
}
