// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

const readyTrue = "True Ready: its addresses may be allocated"

func TestSync_FinalizerAtFirstSightThenReady(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		var order []string
		c.server.OnCall(func(call simapi.Call) {
			if call.Replica == "c" && call.Verb == "patch" && call.Phase == simapi.After {
				order = append(order, call.Resource)
			}
		})
		if after := c.step("a"); after != "0s" {
			t.Errorf("wants to be called after %s", after)
		}
		if got := fmt.Sprint(order); got != "[servicecidrs servicecidrs/status]" {
			t.Errorf("patched %s: ready before it is kept", got)
		}
		c.wantReady("a", readyTrue)
		obj := c.get("a")
		if !slices.Contains(obj.Finalizers, informer.Finalizer) {
			t.Error("no finalizer")
		}
		if cond := obj.Status.Conditions[0]; cond.ObservedGeneration != obj.Generation || cond.LastTransitionTime.IsZero() {
			t.Errorf("condition %+v of generation %d", cond, obj.Generation)
		}
		before := c.server.Revision()
		c.server.ResetCalls()
		c.step("a")
		if n := c.server.Calls("c").Total(); n != 0 || c.server.Revision() != before {
			t.Errorf("a second sync made %d calls", n)
		}
	})
}

func TestSync_KeepsOthersFinalizersAndConditions(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		c.server.AddFinalizer("a", "example.com/other")
		obj := c.get("a")
		obj.Status.Conditions = append(obj.Status.Conditions, metav1.Condition{Type: "example.com/Seen", Status: "True", Reason: "Yes", LastTransitionTime: metav1.Now()})
		if _, err := c.server.Client("other").ServiceCIDRs().UpdateStatus(quiet(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.step("a")
		obj = c.get("a")
		if len(obj.Finalizers) != 2 || len(obj.Status.Conditions) != 2 {
			t.Errorf("finalizers %v, conditions %v", obj.Finalizers, obj.Status.Conditions)
		}
		c.remove("a")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		c.step("a")
		if obj = c.get("a"); obj == nil || fmt.Sprint(obj.Finalizers) != "[example.com/other]" {
			t.Errorf("after the deletion: %v", obj)
		}
		c.server.ResetCalls()
		if after := c.step("a"); after != "0s" || c.server.Calls("c").Total() != 0 {
			t.Errorf("what others keep is still worked on: after %s", after)
		}
	})
}

func TestSync_TakesReadyOverFromAnotherWriter(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		c.server.SetReady("a", metav1.ConditionFalse)
		c.step("a")
		c.wantReady("a", readyTrue)
	})
}

func TestSync_NothingUsable(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.7/32")
		c.step("a")
		c.wantReady("a", `False NoUsableAddress: "10.0.0.7/32" skipped: it has no usable address: create another ServiceCIDR`)
	})
}

func TestSync_ASecondFamilyIsObserved(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		c.step("a")
		obj := c.get("a")
		obj.Spec.CIDRs = append(obj.Spec.CIDRs, "2001:db8::/112")
		if _, err := c.server.Client("admin").ServiceCIDRs().Update(quiet(), obj, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.step("a")
		if obj = c.get("a"); obj.Status.Conditions[0].ObservedGeneration != obj.Generation || obj.Generation != 2 {
			t.Errorf("generation %d, observed %d", obj.Generation, obj.Status.Conditions[0].ObservedGeneration)
		}
	})
}

func TestS32_TheConditionNamesTheBlockers(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		c.hold("10.0.0.9", "10.0.0.7")
		synctest.Wait()
		c.remove("a")
		c.step("a")
		const two = "2 addresses block the deletion: 10.0.0.7 (services/default/web1), 10.0.0.9 (services/default/web0)" +
			". To go on, release them, or create another ServiceCIDR that contains 10.0.0.0/28"
		c.wantReady("a", "False Terminating: "+two)
		time.Sleep(time.Hour)
		c.step("a")
		c.wantReady("a", "False Terminating: "+two)
		c.free("10.0.0.9")
		c.step("a")
		c.wantReadyPrefix("a", "False Terminating: 1 address blocks the deletion: 10.0.0.7 (services/default/web1). To go on, release them")
		c.free("10.0.0.7")
		c.step("a")
		c.wantReady("a", "gone")
		want := []string{
			"Normal TerminationBlocked: " + two,
			"Normal Released: Nothing depends on it any more: no managed address depends on it alone",
		}
		if got := c.events.all(); !slices.Equal(got, want) {
			t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestSync_GracePeriodIsCountedByThisProcess(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		c.remove("a")
		time.Sleep(time.Hour) // the deletionTimestamp is old, but nobody has seen it
		if after := c.step("a"); after != "10s" {
			t.Errorf("wants to be called after %s", after)
		}
		c.wantReady("a", "False Terminating: no managed address depends on it alone; it goes after a grace period of 10s")
		time.Sleep(DefaultGracePeriod - time.Second)
		if after := c.step("a"); after != "1s" {
			t.Errorf("wants to be called after %s", after)
		}
		time.Sleep(time.Second)
		c.step("a")
		c.wantReady("a", "gone")
	})
}

func TestSync_ADeletionThatWasNeverKeptIsNotHeld(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		c.server.AddFinalizer("a", "example.com/other")
		c.remove("a")
		c.step("a")
		if obj := c.get("a"); len(obj.Finalizers) != 1 {
			t.Errorf("finalizers %v", obj.Finalizers)
		}
	})
}

func TestS23_TwinsAndNestedOnesNeverVouchForEachOther(t *testing.T) {
	for name, cidrs := range map[string][2]string{"twins": {"10.0.1.0/24", "10.0.1.0/24"}, "nested": {"10.0.1.0/24", "10.0.0.0/16"}} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, c *cluster) {
				c.kept("a", cidrs[0])
				c.kept("b", cidrs[1])
				c.hold("10.0.1.7")
				synctest.Wait()
				c.remove("a")
				c.remove("b")
				c.step("a")
				c.step("b")
				time.Sleep(time.Hour)
				c.step("a")
				c.step("b")
				c.wantReadyPrefix("a", "False Terminating: 1 address blocks the deletion: 10.0.1.7 (services/default/web0). To go on, release them, "+
					"or create another ServiceCIDR that contains 10.0.1.0/28")
				if !strings.HasSuffix(c.ready("a"), "; no cover: b is terminating too") {
					t.Error(c.ready("a"))
				}
				c.wantReadyPrefix("b", "False Terminating: 1 address blocks")
				c.kept("c", "10.0.1.0/24") // the remedy
				c.step("a")
				c.step("b")
				c.wantReady("a", "gone")
				c.wantReady("b", "gone")
			})
		})
	}
}

// The other cover goes between the two lists: it stays, because of the address.
func TestS23_CoverThatIsDeletedBetweenTheLists(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.1.0/24")
		c.kept("b", "10.0.0.0/16")
		c.hold("10.0.1.7")
		c.remove("a")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		c.server.OnCall(func(call simapi.Call) {
			if call.Replica == "c" && call.Verb == "list" && call.Phase == simapi.After && c.get("b").DeletionTimestamp == nil {
				c.remove("b")
			}
		})
		c.step("a")
		c.wantReady("a", "gone") // b was cover when it was asked
		for range 3 {
			c.step("b")
			time.Sleep(time.Minute)
		}
		c.wantReadyPrefix("b", "False Terminating: 1 address blocks the deletion: 10.0.1.7")
	})
}

// The view does not show the address; the list does.
func TestS24_AnAddressThatTheViewDoesNotShowBlocks(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		synctest.Wait()
		c.server.Hold("c")
		c.hold("10.0.0.7")
		c.remove("a")
		c.server.DeliverResource("c", "servicecidrs", -1)
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		if after := c.step("a"); after != recheck.String() {
			t.Errorf("wants to be called after %s", after)
		}
		c.wantReadyPrefix("a", "False Terminating: 1 address blocks the deletion: 10.0.0.7")
		c.server.Release("c")
		c.free("10.0.0.7")
		c.step("a")
		c.wantReady("a", "gone")
	})
}

// The view shows a cover that is terminating in truth.
func TestS23_ACoverThatOnlyTheViewBelievesIn(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.1.0/24")
		c.kept("b", "10.0.0.0/16")
		c.hold("10.0.1.7")
		c.remove("a")
		synctest.Wait()
		c.server.Hold("c")
		c.remove("b")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		c.step("a")
		c.wantReadyPrefix("a", "False Terminating: 1 address blocks the deletion: 10.0.1.7")
	})
}

func TestS26_AnUnmanagedAddressIsReportedAndDoesNotBlock(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		c.put("10.0.0.7", "", informer.ServiceOwner("default", "web"))
		synctest.Wait()
		c.remove("a")
		c.step("a")
		c.wantReady("a", "False Terminating: no managed address depends on it alone; not waited for: 1 without a managed-by label of ours; it goes after a grace period of 10s")
		time.Sleep(DefaultGracePeriod)
		c.step("a")
		c.wantReady("a", "gone")
		if got := c.events.all(); !strings.HasSuffix(got[len(got)-1], "not waited for: 1 without a managed-by label of ours") {
			t.Errorf("events %q", got)
		}
	})
}

// Whatever changed the object since it was read keeps the finalizer on.
func TestSync_RemovalIsGuardedByTheResourceVersion(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/24")
		c.remove("a")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		disturb := true
		c.server.OnCall(func(call simapi.Call) {
			if call.Replica == "c" && call.Verb == "patch" && call.Resource == "servicecidrs" && call.Phase == simapi.Before && disturb {
				disturb = false
				obj := c.get("a")
				obj.Labels = map[string]string{"a": "b"}
				if _, err := c.server.Client("admin").ServiceCIDRs().Update(quiet(), obj, metav1.UpdateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
		if _, err := c.Sync(quiet(), "a"); err == nil || !strings.Contains(err.Error(), "removing the finalizer from ServiceCIDR a") {
			t.Errorf("error %v", err)
		}
		if c.get("a") == nil {
			t.Fatal("removed in spite of the change")
		}
		c.step("a")
		c.wantReady("a", "gone")
	})
}

// A ServiceCIDR made anew under the name is none of the old one's business.
func TestSync_AnotherOneOfTheName(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		synctest.Wait()
		c.server.Hold("c")
		c.remove("a")
		c.server.CreateServiceCIDR("a", "", "10.9.0.0/24")
		c.step("a") // by the old row: it reads, and serves the one that is there
		c.wantReady("a", readyTrue)

		c.remove("a")
		c.server.Release("c")
		c.step("a")
		time.Sleep(DefaultGracePeriod)
		synctest.Wait()
		c.server.Hold("c")
		c.server.RemoveFinalizer("a", informer.Finalizer)
		c.server.CreateServiceCIDR("a", metav1.ConditionTrue, "10.9.0.0/24")
		c.server.AddFinalizer("a", informer.Finalizer)
		c.step("a") // by the row of one that was terminating
		if obj := c.get("a"); obj == nil || obj.DeletionTimestamp != nil || len(obj.Finalizers) != 1 {
			t.Errorf("the new one is %v", obj)
		}
	})
}

func TestSync_BeforeTheViewIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		c, err := New(Config{Client: server.Client("c")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Sync(quiet(), "a"); !errors.Is(err, ErrNotSynced) {
			t.Errorf("error %v", err)
		}
	})
}

func TestNew_RefusesWhatCannotWork(t *testing.T) {
	client := simapi.New().Client("c")
	view, err := informer.NewView(informer.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	for want, config := range map[string]Config{
		"invalid configuration: Client is nil: give a clientset's NetworkingV1()":   {},
		"invalid configuration: GracePeriod -1s is negative: leave it 0 for 10s":    {Client: client, GracePeriod: -time.Second},
		"invalid configuration: PageSize -1 is negative: leave it 0 for 2000":       {Client: client, PageSize: -1},
		"invalid configuration: Workers -1 is negative: leave it 0 for 4":           {Client: client, Workers: -1},
		"invalid configuration: Managers beside View: the view's own Managers hold": {Client: client, View: view, Managers: []string{"a"}},
	} {
		if _, err := New(config); !errors.Is(err, ErrInvalidConfig) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// run starts a controller by Run, with a view of its own.
func run(t *testing.T, server *simapi.Server, name string) (stop func()) {
	t.Helper()
	c, err := New(Config{Client: server.Client(name)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func TestRun_TheWholeLife(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("old", "", "10.0.0.0/24")
		defer run(t, c.server, "runner")()
		time.Sleep(time.Second)
		c.wantReady("old", readyTrue)
		c.server.CreateServiceCIDR("new", "", "10.0.1.0/24")
		time.Sleep(time.Second)
		c.wantReady("new", readyTrue)

		c.hold("10.0.0.7")
		c.remove("old")
		time.Sleep(time.Minute)
		c.wantReadyPrefix("old", "False Terminating: 1 address blocks the deletion: 10.0.0.7")
		c.free("10.0.0.7")
		time.Sleep(2 * time.Second)
		c.wantReady("old", "gone")

		c.hold("10.0.1.7")
		c.remove("new")
		time.Sleep(time.Minute)
		c.wantReadyPrefix("new", "False Terminating: 1 address blocks the deletion: 10.0.1.7")
		c.server.CreateServiceCIDR("cover", "", "10.0.0.0/16")
		time.Sleep(3 * time.Second)
		c.wantReady("new", "gone")
	})
}

func TestRun_WaitsOutFailures(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.server.CreateServiceCIDR("a", "", "10.0.0.0/24")
		c.server.Fail(simapi.Fault{Replica: "runner", Verb: "patch", Err: simapi.Forbidden("no"), Times: 3})
		c.server.Fail(simapi.Fault{Replica: "runner", Verb: "patch", Resource: "servicecidrs/status", Err: simapi.TooManyRequests(30)})
		defer run(t, c.server, "runner")()
		time.Sleep(8 * time.Second)
		if n := c.server.Calls("runner")[simapi.Op{Verb: "patch", Resource: "servicecidrs"}]; n != 4 {
			t.Errorf("%d tries to add the finalizer, want 4: after 0, 1, 3 and 7 s", n)
		}
		time.Sleep(28 * time.Second)
		if c.ready("a") == readyTrue {
			t.Error("the server asked for 30 s")
		}
		time.Sleep(4 * time.Second)
		c.wantReady("a", readyTrue)
	})
}

// Thousands of addresses that come and go in a terminating ServiceCIDR cost one
// sync a second.
func TestRun_ManyAddressesCostOneSyncASecond(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		c.kept("a", "10.0.0.0/16")
		c.hold("10.0.0.1")
		synctest.Wait()
		c.remove("a")
		defer run(t, c.server, "runner")()
		time.Sleep(5 * time.Second)
		c.server.ResetCalls()
		for i := range 2000 {
			a := fmt.Sprintf("10.0.%d.%d", 1+i/250, 1+i%250)
			c.hold(a)
			time.Sleep(5 * time.Millisecond)
			c.free(a)
		}
		time.Sleep(2 * time.Second)
		if n := c.server.Calls("runner")[simapi.Op{Verb: "get", Resource: "servicecidrs"}]; n < 5 || n > 20 {
			t.Errorf("%d updates in 12 s, in which 4000 addresses came or went", n)
		}
	})
}

func TestRun_TwoReplicasAgree(t *testing.T) {
	in(t, func(t *testing.T, c *cluster) {
		defer run(t, c.server, "runner1")()
		defer run(t, c.server, "runner2")()
		for i := range 20 {
			c.server.CreateServiceCIDR(fmt.Sprint("c", i), "", fmt.Sprintf("10.0.%d.0/24", i))
		}
		time.Sleep(10 * time.Second)
		before := c.server.Revision()
		time.Sleep(time.Hour)
		if c.server.Revision() != before {
			t.Error("they go on writing")
		}
		for i := range 20 {
			c.wantReady(fmt.Sprint("c", i), readyTrue)
			c.remove(fmt.Sprint("c", i))
		}
		time.Sleep(time.Minute)
		if n := len(c.server.TrueServiceCIDRs()); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}
