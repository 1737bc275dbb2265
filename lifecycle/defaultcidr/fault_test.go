// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// states are what the first look may find, and what must come of it for a
// replica with both families.
var states = []struct {
	name  string
	setUp func(*simapi.Server)
	verbs []string // calls of an undisturbed look
}{
	{"absent", func(*simapi.Server) {}, []string{"get", "create"}},
	{"single", func(s *simapi.Server) { put(s, v4) }, []string{"get", "update"}},
	{"as configured", func(s *simapi.Server) { put(s, v4, v6) }, []string{"get"}},
}

// atEachCall runs a test for every state, every call of its look, and either
// side of the moment at which the server applies it.
func atEachCall(t *testing.T, test func(t *testing.T, server *simapi.Server, verb string, when simapi.Phase)) {
	for _, state := range states {
		for _, verb := range state.verbs {
			for _, when := range []simapi.Phase{simapi.Before, simapi.After} {
				t.Run(fmt.Sprintf("%s, %s %s", state.name, when, verb), func(t *testing.T) {
					server := simapi.New()
					defer server.Close()
					state.setUp(server)
					test(t, server, verb, when)
					if got := stored(t, server); got == nil || !slices.Equal(got.Spec.CIDRs, []string{v4, v6}) || !slices.Equal(got.Finalizers, []string{informer.Finalizer}) {
						t.Errorf("stored %+v", got)
					}
				})
			}
		}
	}
}

func faults() map[string]error {
	return map[string]error{
		"forbidden":   simapi.Forbidden("no role yet"),
		"too many":    simapi.TooManyRequests(3),
		"time-out":    simapi.Timeout(),
		"server time": simapi.ServerTimeout(),
		"unavailable": simapi.Unavailable(),
		"internal":    simapi.InternalError("broken"),
		"invalid":     simapi.Invalid("not like this"),
		"refused":     simapi.ConnectionRefused(),
		"reset":       simapi.ConnectionReset(),
		"cut":         simapi.ConnectionCut(),
	}
}

// A call that is refused, or applied without an answer, is an error with the API
// server's own in it; the next look puts things right, with no write too many.
func TestFaults_AtEachCall(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			atEachCall(t, func(t *testing.T, server *simapi.Server, verb string, when simapi.Phase) {
				rec := &recorder{}
				c := controller(t, server, rec, v4, v6)
				server.Fail(simapi.Fault{Replica: "r", Verb: verb, When: when, Err: fault})
				f, err := c.Sync(quiet())
				if !errors.Is(err, fault) || c.Status().Err != err || c.Status().Finding != f {
					t.Fatalf("got %v, %v; status %+v", f, err, c.Status())
				}
				want := map[string]Kind{"get": Unknown, "create": Absent, "update": FamilyMissing}[verb]
				if f.Kind != want || (f.Remedy == "") != (want == Unknown) {
					t.Errorf("found %v, want %s", f, want)
				}
				if f, err = c.Sync(quiet()); err != nil || !f.Kind.AsConfigured() {
					t.Errorf("then found %v, %v", f, err)
				}
				find(t, c, Consistent)
				applied := 0
				for _, v := range []string{"create", "update"} {
					applied += calls(server, "r", v)
				}
				if verb != "get" && when == simapi.After && applied != 1 {
					t.Errorf("%d writes", applied)
				}
				// An Event tells of a refusal, not of a lost answer.
				var events []string
				if verb == "update" && slices.Contains([]string{"forbidden", "internal", "invalid"}, name) {
					events = []string{ReasonError}
				}
				if got := rec.reasons(); !slices.Equal(got, events) {
					t.Errorf("events %q, want %q", got, events)
				}
			})
		})
	}
}

// A process that ends at any instant leaves nothing that the next one cannot use.
// Its last look changes no finding: the end of the process says nothing of the object.
func TestFaults_CrashAtEachCall(t *testing.T) {
	atEachCall(t, func(t *testing.T, server *simapi.Server, verb string, when simapi.Phase) {
		ctx, crash := context.WithCancel(quiet())
		defer crash()
		remove := server.OnCall(func(c simapi.Call) {
			if c.Verb == verb && c.Phase == when {
				crash()
			}
		})
		rec := &recorder{}
		c := controller(t, server, rec, v4, v6)
		if f, err := c.Sync(ctx); !errors.Is(err, context.Canceled) || f.Kind != Unknown {
			t.Fatalf("got %v, %v", f, err)
		}
		if s := c.Status(); s.Finding.Kind != Unknown || s.Err != nil || len(rec.all()) != 0 {
			t.Errorf("status %+v, events %v", s, rec.all())
		}
		remove()
		next := controller(t, server, rec, v4, v6)
		if f, err := next.Sync(quiet()); err != nil || !f.Kind.AsConfigured() {
			t.Errorf("the next process found %v, %v", f, err)
		}
	})
}

// A ServiceCIDR that cannot be read keeps its last finding, beside the error.
func TestFaults_LastFindingStays(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	rec := &recorder{}
	put(server, other4)
	c := controller(t, server, rec, v4)
	before := find(t, c, Mismatch)
	server.Fail(simapi.Fault{Verb: "get", Err: simapi.Unavailable()})
	after, err := c.Sync(quiet())
	if err == nil || after != before || c.Status().Finding != before {
		t.Errorf("got %v, %v", after, err)
	}
	find(t, c, Mismatch)
	if n := len(rec.all()); n != 1 {
		t.Errorf("%d events", n)
	}
}

// A standing refusal is one Event, with the permission that lifts it, however the
// errors in between differ.
func TestFaults_StandingRefusalIsOneEvent(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	rec := &recorder{}
	put(server, v4)
	c := controller(t, server, rec, v4, v6)
	for _, err := range []error{simapi.Forbidden("no"), simapi.Timeout(), simapi.Forbidden("still not"), simapi.InternalError("broken"), simapi.Forbidden("no")} {
		server.Fail(simapi.Fault{Verb: "update", Err: err})
		if _, got := c.Sync(quiet()); !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	if got := rec.all(); len(got) != 1 || !strings.Contains(got[0].note, "allow this API server to update servicecidrs.networking.k8s.io") {
		t.Errorf("events %+v", got)
	}
	find(t, c, Extended)
}

// Two replicas that find nothing: one creates, the other reads and judges that.
func TestS34_CreatedByAnotherMeanwhile(t *testing.T) {
	for _, tc := range cells() {
		t.Run(tc.stored+" as "+tc.configured, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			other := replica(t, server, "other", nil, spell(tc.stored, letters)...)
			server.OnCall(func(call simapi.Call) {
				if call.Replica == "r" && call.Phase == simapi.Before && call.Verb == "create" {
					find(t, other, Created)
				}
			})
			c := controller(t, server, nil, spell(tc.configured, letters)...)
			find(t, c, tc.want)
			then := Consistent
			if tc.want == Extended {
				then = Downgrade
			}
			find(t, other, then)
		})
	}
}

// What changes between the read and the update wins; the next look judges it.
func TestS34_ExtensionLosesEveryRace(t *testing.T) {
	for _, tc := range []struct {
		name      string
		meanwhile func(*simapi.Server)
		then      Kind
		want      string
	}{
		{"another family was added", func(s *simapi.Server) {
			c, _ := New(Config{Client: s.Client("other"), Ranges: []string{v4, other6}})
			_, _ = c.Sync(quiet())
		}, Mismatch, v4 + "," + other6},
		{"the same family was added", func(s *simapi.Server) {
			c, _ := New(Config{Client: s.Client("other"), Ranges: []string{v4, v6}})
			_, _ = c.Sync(quiet())
		}, Consistent, v4 + "," + v6},
		{"its status was written", func(s *simapi.Server) { s.SetReady(DefaultName, metav1.ConditionTrue) }, Extended, v4 + "," + v6},
		{"it was deleted", func(s *simapi.Server) {
			_ = s.Client("admin").ServiceCIDRs().Delete(context.Background(), DefaultName, metav1.DeleteOptions{})
		}, Terminating, v4},
		{"it is gone", func(s *simapi.Server) {
			_ = s.Client("admin").ServiceCIDRs().Delete(context.Background(), DefaultName, metav1.DeleteOptions{})
			s.RemoveFinalizer(DefaultName, informer.Finalizer)
		}, Created, v4 + "," + v6},
		{"it is another", func(s *simapi.Server) {
			_ = s.Client("admin").ServiceCIDRs().Delete(context.Background(), DefaultName, metav1.DeleteOptions{})
			s.RemoveFinalizer(DefaultName, informer.Finalizer)
			put(s, other4)
		}, Mismatch, other4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			rec := &recorder{}
			put(server, v4)
			once := false
			server.OnCall(func(call simapi.Call) {
				if call.Replica == "r" && call.Phase == simapi.Before && call.Verb == "update" && !once {
					once = true
					tc.meanwhile(server)
				}
			})
			c := controller(t, server, rec, v4, v6)
			if f, err := c.Sync(quiet()); f.Kind != FamilyMissing || err == nil {
				t.Fatalf("found %v, %v", f, err)
			}
			if len(rec.all()) != 0 {
				t.Errorf("a lost race made events %v", rec.all())
			}
			find(t, c, tc.then)
			if got := ranges(t, server); got != tc.want {
				t.Errorf("stored %s, want %s", got, tc.want)
			}
		})
	}
}

// spy keeps what is sent as an update.
type spy struct {
	networkingv1client.ServiceCIDRInterface
	sent *networkingv1.ServiceCIDR
}

func (s *spy) ServiceCIDRs() networkingv1client.ServiceCIDRInterface { return s }

func (s *spy) Update(ctx context.Context, obj *networkingv1.ServiceCIDR, opts metav1.UpdateOptions) (*networkingv1.ServiceCIDR, error) {
	s.sent = obj.DeepCopy()
	return s.ServiceCIDRInterface.Update(ctx, obj, opts)
}

// The update is the object that was read, in that version, with the second range
// appended. The first keeps its stored spelling: a server takes another one for a
// change of what must not change.
func TestS34_ExtensionIsTheObjectReadAndOneRange(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	put(server, odd['a'])
	server.SetReady(DefaultName, metav1.ConditionTrue)
	client := &spy{ServiceCIDRInterface: server.Client("r").ServiceCIDRs()}
	c, err := New(Config{Client: client, Ranges: []string{v4, v6}})
	if err != nil {
		t.Fatal(err)
	}
	want := stored(t, server)
	want.Spec.CIDRs = append(want.Spec.CIDRs, v6)
	_, _ = c.Sync(quiet())
	if !apiequality.Semantic.DeepEqual(client.sent, want) || want.ResourceVersion == "" || want.UID == "" {
		t.Errorf("sent %+v\nwant %+v", client.sent, want)
	}
}

// A look that began earlier and ends later does not put its finding over a newer one.
func TestStatus_OlderLookDoesNotOverwrite(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	put(server, other4)
	c := controller(t, server, nil, v4)
	nested := false
	server.OnCall(func(call simapi.Call) {
		if call.Phase == simapi.After && call.Verb == "get" && !nested {
			nested = true
			put(server, v4)
			find(t, c, Consistent)
		}
	})
	if f, err := c.Sync(quiet()); f.Kind != Mismatch || err != nil {
		t.Errorf("the older look found %v, %v", f, err)
	}
	if got := c.Status().Finding.Kind; got != Consistent {
		t.Errorf("status %v", got)
	}
}
