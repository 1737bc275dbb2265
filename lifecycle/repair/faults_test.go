// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// damaged is a cluster with everything that can be put right, beside what must
// stay as it is.
func damaged(t *testing.T) *world {
	w := newWorld(t, nil)
	w.service("missing", "10.0.0.1", "2001:db8::1")
	w.service("robbed", "10.0.0.2")
	w.allocate("10.0.0.2", widget("gone"))
	w.allocate("10.0.0.3", service("gone"))
	w.service("labels", "10.0.0.4")
	w.create(labelled(object("10.0.0.4", service("labels")), informer.LabelManagedBy, informer.DefaultManager))
	w.service("healthy", "10.0.0.5")
	w.allocate("10.0.0.5", service("healthy"))
	w.widgets.put("healthy", "10.0.0.6")
	w.allocate("10.0.0.6", widget("healthy"))
	w.allocate("10.0.0.7", widget("healthy"))
	guard(t, w.server, w.widgets, func(replica string) bool { return replica == "r" })
	return w
}

// repairAll makes passes until all grace periods are over.
func (w *world) repairAll(ctx context.Context, each func(error)) {
	for _, wait := range []time.Duration{0, DefaultMismatchGrace, DefaultLeakGrace} {
		w.clock.Step(wait)
		_, err := w.Sync(ctx)
		each(err)
	}
}

// I9: whatever call goes wrong, and however: refused, carried out with the
// answer lost, or the process ends before it or right after it. After a restart
// all comes right, and no owner loses an address on the way.
func TestI9_EachFaultAtEachCall(t *testing.T) {
	w := damaged(t)
	w.server.ResetCalls()
	w.repairAll(quiet(), func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	checkOneToOne(t, w.server, w.widgets)
	calls := w.server.Calls("r").Total()
	if calls < 25 {
		t.Fatalf("only %d calls in a clean run", calls)
	}
	t.Logf("%d calls", calls)
	for name, strike := range map[string]struct {
		phase simapi.Phase
		err   error // nil: the process ends
	}{
		"refused":      {simapi.Before, simapi.Forbidden("no")},
		"unavailable":  {simapi.Before, simapi.Unavailable()},
		"conflict":     {simapi.Before, conflict()},
		"answer lost":  {simapi.After, simapi.ConnectionCut()},
		"time-out":     {simapi.After, simapi.Timeout()},
		"ends before":  {simapi.Before, nil},
		"ends after":   {simapi.After, nil},
		"never passed": {simapi.Before, simapi.Timeout()},
	} {
		for at := 1; at <= calls; at++ {
			t.Run(fmt.Sprintf("%s at call %d", name, at), func(t *testing.T) {
				w := damaged(t)
				ctx, cancel := context.WithCancel(quiet())
				defer cancel()
				n, struck := 0, false
				defer w.server.OnCall(func(c simapi.Call) {
					if c.Replica != "r" {
						return
					}
					if c.Phase == simapi.Before {
						n++
					}
					if n != at || c.Phase != strike.phase && strike.err == nil || struck {
						return
					}
					struck = true
					if strike.err == nil {
						cancel()
					} else {
						w.server.Fail(simapi.Fault{Replica: "r", When: strike.phase, Err: strike.err})
					}
				})()
				w.repairAll(ctx, func(err error) {
					if ctx.Err() != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("ended, and says %v", err)
					}
				})
				if !struck {
					t.Fatal("never struck")
				}
				w.server.ClearFaults()
				w.restart()
				w.repairAll(quiet(), func(err error) {
					if err != nil {
						t.Error(err)
					}
				})
				w.repairAll(quiet(), func(error) {})
				checkOneToOne(t, w.server, w.widgets)
			})
		}
	}
}

// Two replicas whose passes meet at each call of one of them. Either the other
// one is new, or the waits of both began together.
func TestTwoReplicas_MeetAtEachCall(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for _, phase := range []simapi.Phase{simapi.Before, simapi.After} {
			for at := 1; ; at++ {
				met := false
				t.Run(fmt.Sprintf("other fresh %v, %s call %d", fresh, phase, at), func(t *testing.T) {
					w := damaged(t)
					other := *w
					other.restart()
					if !fresh {
						other.pass()
						w.pass()
						w.clock.Step(DefaultLeakGrace)
					}
					n, busy := 0, false
					w.server.OnCall(func(c simapi.Call) {
						if busy || c.Replica != "r" || c.Phase != phase {
							return
						}
						if n++; n == at {
							busy, met = true, true
							other.pass()
							busy = false
						}
					})
					w.repairAll(quiet(), func(err error) {
						if err != nil {
							t.Error(err)
						}
					})
					checkOneToOne(t, w.server, w.widgets)
				})
				if !met {
					break
				}
			}
		}
	}
}
