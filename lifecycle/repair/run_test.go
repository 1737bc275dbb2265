// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", errors.New("modified"))
}

// inBubble runs a controller over a damaged cluster in a bubble, where time
// passes only when the test sleeps.
func inBubble(t *testing.T, change func(*Config), test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, server: simapi.New(simapi.WithClock(clock.RealClock{})), events: &recorder{}}
		w.change = func(c *Config) {
			c.Clock = nil
			if change != nil {
				change(c)
			}
		}
		w.widgets = &widgets{objects: map[string]Claims{}, now: time.Now}
		defer w.server.Close()
		w.server.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.0.0.0/16")
		w.restart()
		test(t, w)
	})
}

// run runs the controller until the test calls stop.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}()
	return func() { cancel(); <-done }
}

// passTimes notes when passes begin, from the start.
func (w *world) passTimes() func() []time.Duration {
	var out []time.Duration
	begin := time.Now()
	w.server.OnCall(func(c simapi.Call) {
		if c.Verb == "list" && c.Resource == "services" && c.Phase == simapi.Before {
			out = append(out, time.Since(begin))
		}
	})
	return func() []time.Duration { return out }
}

// At the start nothing may be answered yet: the controller waits, as long as it
// is told to, and then does its work.
func TestRun_StartsWhenTheServerDoes(t *testing.T) {
	for name, err := range map[string]error{
		"Forbidden": simapi.Forbidden("RBAC is not there yet"), "Conflict": conflict(), "TooManyRequests": simapi.TooManyRequests(25),
		"Timeout": simapi.Timeout(), "ServerTimeout": simapi.ServerTimeout(), "refused": simapi.ConnectionRefused(), "Unavailable": simapi.Unavailable(),
	} {
		for _, resource := range []string{"services", "servicecidrs", "ipaddresses"} {
			t.Run(name+" "+resource, func(t *testing.T) {
				inBubble(t, nil, func(t *testing.T, w *world) {
					times := w.passTimes()
					w.service("a", "10.0.0.5")
					w.server.Fail(simapi.Fault{Replica: "r", Verb: "list", Resource: resource, Times: 3, Err: err})
					stop := w.run()
					time.Sleep(3 * time.Minute)
					stop()
					want(t, "holders", w.stored(), hold("10.0.0.5=a"))
					least := DefaultMinSpacing
					if name == "TooManyRequests" {
						least = 25 * time.Second
					}
					for i := 1; i < 3; i++ {
						if got := times()[i] - times()[i-1]; got < least {
							t.Errorf("a pass %v after the last one, want at least %v", got, least)
						}
					}
				})
			})
		}
	}
}

// A call that is never answered is given up.
func TestRun_HungCallIsGivenUp(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		w.service("a", "10.0.0.5")
		never := make(chan struct{})
		w.server.Fail(simapi.Fault{Replica: "r", Verb: "create", Block: never})
		stop := w.run()
		time.Sleep(DefaultCallTimeout + DefaultMinSpacing + time.Second)
		want(t, "holders", w.stored(), hold("10.0.0.5=a"))
		stop()
	})
}

// Regular passes keep to their times; a grace period that ends has a pass of its
// own, and no two passes are closer than the spacing.
func TestRun_Rhythm(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		times := w.passTimes()
		stop := w.run()
		time.Sleep(DefaultInterval - time.Second)
		w.allocate("10.0.0.5", service("gone"))
		w.allocate("10.0.0.6", service("gone"))
		w.service("a", "10.0.0.6")
		time.Sleep(2 * DefaultInterval)
		stop()
		want(t, "passes", times(), []time.Duration{0, 3 * time.Minute, 3*time.Minute + DefaultMinSpacing, 4 * time.Minute, 6 * time.Minute})
		want(t, "holders", w.stored(), hold("10.0.0.6=a"))
	})
}

// Failures double the spacing, up to the interval.
func TestRun_BacksOff(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		times := w.passTimes()
		w.widgets.listErr = errors.New("no")
		stop := w.run()
		time.Sleep(10 * time.Minute)
		stop()
		want(t, "passes", times(), []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second, 180 * time.Second, 360 * time.Second, 540 * time.Second})
	})
}

func TestRun_OnceAndNotBesideSync(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, w *world) {
		var inner error
		w.once(simapi.Before, "list", "services", func() { _, inner = w.Sync(quiet()) })
		stop := w.run()
		synctest.Wait()
		stop()
		if !errors.Is(inner, ErrBusy) {
			t.Errorf("Sync beside a pass: %v", inner)
		}
		if err := w.Run(quiet()); err == nil {
			t.Error("Run twice")
		}
	})
}

// withView is a test with a running View, whose watches the test may hold.
func withView(t *testing.T, test func(t *testing.T, w *world, v *informer.View)) {
	var view *informer.View
	inBubble(t, func(c *Config) {
		var err error
		if view, err = informer.NewView(informer.Config{Client: c.Client}); err != nil {
			panic(err)
		}
		c.View = view
	}, func(t *testing.T, w *world) {
		if _, err := w.Sync(quiet()); !errors.Is(err, ErrNotSynced) {
			t.Errorf("before the view runs: %v", err)
		}
		ctx, cancel := context.WithCancel(quiet())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := view.Run(ctx); err != nil {
				t.Errorf("view: %v", err)
			}
		}()
		defer func() { cancel(); <-done }()
		synctest.Wait()
		test(t, w, view)
	})
}

// With a View a pass lists no IPAddresses.
func TestView_IsTheSourceOfCandidates(t *testing.T) {
	withView(t, func(t *testing.T, w *world, _ *informer.View) {
		w.service("a", "10.0.0.5")
		w.allocate("10.0.0.6", service("gone"))
		w.create(labelled(object("10.0.0.7", service("b")), informer.LabelManagedBy, informer.DefaultManager))
		w.service("b", "10.0.0.7")
		synctest.Wait()
		w.server.ResetCalls()
		want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.6 gone pending", "missing 10.0.0.5 a repaired", "wrong_label 10.0.0.7 b repaired"})
		want(t, "lists", w.server.Calls("r")[simapi.Op{Verb: "list", Resource: "ipaddresses"}], 0)
		time.Sleep(DefaultLeakGrace)
		want(t, "findings", brief(w.pass()), []string{"leaked 10.0.0.6 gone repaired"})
		synctest.Wait()
		checkOneToOne(t, w.server, w.widgets)
	})
}

// A stale View costs reads, and nobody an address; nothing false is reported.
func TestView_Stale(t *testing.T) {
	withView(t, func(t *testing.T, w *world, _ *informer.View) {
		w.allocate("10.0.0.5", service("old"))
		w.service("old", "10.0.0.5")
		w.allocate("10.0.0.6", service("gone"))
		synctest.Wait()
		w.pass()
		w.server.Hold("r")
		w.deleteService("old")
		w.remove("10.0.0.5")
		w.allocate("10.0.0.5", service("new"))
		w.service("new", "10.0.0.5")
		w.remove("10.0.0.6")
		w.server.CreateServiceCIDR("more", "", "10.7.0.0/16")
		w.allocate("10.7.0.1", service("far"))
		w.service("far", "10.7.0.1")
		holders := w.stored()
		for range 3 {
			time.Sleep(DefaultLeakGrace)
			r := w.pass()
			if len(r.Counts) > 0 {
				t.Errorf("findings %v", r.Findings)
			}
		}
		want(t, "holders", w.stored(), holders)
	})
}
