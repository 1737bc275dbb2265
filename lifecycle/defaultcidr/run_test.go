// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// run runs a controller until stop. In a bubble, time passes only when all wait.
func run(t failer, c *Controller) (stop func()) {
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// Run looks at once, then every Interval: what is deleted comes back, with no
// restart.
func TestRun_KeepsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		c := controller(t, server, nil, v4, v6)
		defer run(t, c)()
		synctest.Wait()
		if got := c.Status().Finding.Kind; got != Created {
			t.Fatal(got)
		}
		time.Sleep(10 * DefaultInterval)
		synctest.Wait()
		if got := calls(server, "r", "get"); got != 11 {
			t.Errorf("%d reads in ten intervals", got)
		}
		terminate(t, server)
		time.Sleep(DefaultInterval)
		synctest.Wait()
		if got := c.Status(); got.Finding.Kind != Terminating || got.Looked != time.Now() {
			t.Errorf("%+v", got)
		}
		server.RemoveFinalizer(DefaultName, informer.Finalizer)
		time.Sleep(DefaultInterval)
		synctest.Wait()
		if got := c.Status().Finding.Kind; got != Created {
			t.Error(got)
		}
		if err := c.Run(quiet()); err == nil {
			t.Error("Run ran twice")
		}
	})
}

// The start-up waits out whatever the API server answers, with pauses that grow
// up to Interval, and goes on within one Interval when the answers change.
func TestRun_WaitsOutFailures(t *testing.T) {
	for name, fault := range faults() {
		for _, verb := range []string{"get", "create"} {
			t.Run(verb+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := simapi.New()
					defer server.Close()
					remove := server.Fail(simapi.Fault{Verb: verb, Err: fault, Times: simapi.Forever})
					c := controller(t, server, nil, v4)
					defer run(t, c)()
					time.Sleep(10 * time.Minute)
					synctest.Wait()
					if got := calls(server, "r", verb); got < 60 || got > 210 {
						t.Errorf("%d calls in ten minutes", got)
					}
					remove()
					time.Sleep(DefaultInterval)
					synctest.Wait()
					if got := c.Status(); got.Finding.Kind != Created || got.Err != nil {
						t.Errorf("%+v", got)
					}
				})
			})
		}
	}
}

// Retry-After is waited for, even beyond Interval.
func TestRun_HonoursRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		server.Fail(simapi.Fault{Verb: "create", Err: simapi.TooManyRequests(60)})
		c := controller(t, server, nil, v4)
		defer run(t, c)()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := server.Calls("r").Total(); got != 2 {
			t.Errorf("%d calls before it is time", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := c.Status().Finding.Kind; got != Created {
			t.Error(got)
		}
	})
}

// A call that gets no answer ends, and is tried again; so does Run in the midst of one.
func TestRun_CallWithoutAnswer(t *testing.T) {
	for _, when := range []simapi.Phase{simapi.Before, simapi.After} {
		t.Run(when.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := simapi.New()
				defer server.Close()
				never := make(chan struct{})
				server.Fail(simapi.Fault{Verb: "create", When: when, Block: never})
				c := controller(t, server, nil, v4)
				stop := run(t, c)
				time.Sleep(callTimeout + firstPause)
				synctest.Wait()
				if got := c.Status(); !got.Finding.Kind.AsConfigured() || got.Err != nil {
					t.Errorf("%+v", got)
				}
				server.Fail(simapi.Fault{Verb: "get", Block: never})
				time.Sleep(DefaultInterval)
				synctest.Wait()
				stop()
				if got := c.Status(); !got.Finding.Kind.AsConfigured() || got.Err != nil {
					t.Errorf("at the end %+v", got)
				}
			})
		})
	}
}

// The pause doubles up to the interval, and begins anew after a success.
func TestRetry_Pauses(t *testing.T) {
	r := retry{first: 100 * time.Millisecond, most: time.Second}
	fault := simapi.ConnectionReset()
	var got []time.Duration
	for range 6 {
		got = append(got, r.after(fault))
	}
	r.reset()
	got = append(got, r.after(fault), r.after(simapi.TooManyRequests(7)), (&retry{first: 100, most: 10}).after(fault))
	want := []time.Duration{100e6, 200e6, 400e6, 800e6, 1e9, 1e9, 100e6, 7e9, 10}
	if !slices.Equal(got, want) {
		t.Errorf("pauses %v, want %v", got, want)
	}
	r.failures = 1 << 40 // an outage of thousands of years
	if got := r.after(fault); got != time.Second {
		t.Error(got)
	}
}

// WaitConsistent returns when the ranges are as configured, by whoever's doing.
func TestWaitConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		put(server, other4)
		c := controller(t, server, nil, v4)
		defer run(t, c)()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		waited := make(chan error, 1)
		go func() { waited <- c.WaitConsistent(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("returned with %v", err)
		default:
		}
		put(server, v4)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if err := c.WaitConsistent(ctx); err != nil {
			t.Error(err)
		}
	})
}

// The one who waits in vain gets what was found, why, and what to do.
func TestWaitConsistent_InVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		server.Fail(simapi.Fault{Verb: "create", Err: simapi.Forbidden("no role yet"), Times: simapi.Forever})
		c := controller(t, server, nil, v4)
		defer run(t, c)()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		err := c.WaitConsistent(ctx)
		if !errors.Is(err, ErrNotConsistent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for _, s := range []string{"Absent", "does not exist", "allow this API server to create servicecidrs", "no role yet"} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q is not in %v", s, err)
			}
		}
		// Nobody looks: that is said as well.
		idle := controller(t, server, nil, v4)
		if err := idle.WaitConsistent(ctx); !errors.Is(err, ErrNotConsistent) || !strings.Contains(err.Error(), "not been read yet") {
			t.Error(err)
		}
	})
}

func TestMetrics(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	c := controller(t, server, nil, v4, v6)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) != 0 {
		t.Error(problems, err)
	}
	server.Fail(simapi.Fault{Verb: "create", Err: simapi.Unavailable()})
	_, _ = c.Sync(quiet())
	find(t, c, Created)
	put(server, v4, other6)
	find(t, c, Mismatch)
	want := `
# HELP metacidr_default_service_cidr_calls_total Calls to the API server about the default ServiceCIDR, by verb and by outcome: ok, raced (another was faster) or error.
# TYPE metacidr_default_service_cidr_calls_total counter
metacidr_default_service_cidr_calls_total{outcome="error",verb="create"} 1
metacidr_default_service_cidr_calls_total{outcome="ok",verb="create"} 1
metacidr_default_service_cidr_calls_total{outcome="ok",verb="get"} 3
# HELP metacidr_default_service_cidr_finding 1 for what the default ServiceCIDR was last found to be, by kind, and 0 for the other kinds; all 0 before it was first read.
# TYPE metacidr_default_service_cidr_finding gauge
metacidr_default_service_cidr_finding{kind="Absent"} 0
metacidr_default_service_cidr_finding{kind="Consistent"} 0
metacidr_default_service_cidr_finding{kind="Created"} 0
metacidr_default_service_cidr_finding{kind="Downgrade"} 0
metacidr_default_service_cidr_finding{kind="Extended"} 0
metacidr_default_service_cidr_finding{kind="FamilyMissing"} 0
metacidr_default_service_cidr_finding{kind="Mismatch"} 1
metacidr_default_service_cidr_finding{kind="Swapped"} 0
metacidr_default_service_cidr_finding{kind="Terminating"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
