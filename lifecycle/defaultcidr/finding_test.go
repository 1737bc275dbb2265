// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/internal/note"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// A letter is a range: a and A are IPv4, s and S are IPv6.
//
//	=  as configured       d  downgrade    x  mismatch
//	+  extended            w  swapped
const matrix = `
stored | configured
       | a A s S as aS As AS sa sA Sa SA
a      | = x x x +  +  x  x  w  x  w  x
A      | x = x x x  x  +  +  x  w  x  w
s      | x x = x w  x  w  x  +  +  x  x
S      | x x x = x  w  x  w  x  x  +  +
as     | d x w x =  x  x  x  w  x  x  x
aS     | d x x w x  =  x  x  x  x  w  x
As     | x d w x x  x  =  x  x  w  x  x
AS     | x d x w x  x  x  =  x  x  x  w
sa     | w x d x w  x  x  x  =  x  x  x
sA     | x w d x x  x  w  x  x  =  x  x
Sa     | w x x d x  w  x  x  x  x  =  x
SA     | x w x d x  x  x  w  x  x  x  =
`

var letters = map[rune]string{'a': v4, 'A': other4, 's': v6, 'S': other6}

// odd is another spelling of each, as objects of older servers have.
var odd = map[rune]string{'a': "10.096.0.1/16", 'A': "::ffff:10.0.0.0/112", 's': "FD00:0::/108", 'S': "fd01:0:0:0:0:0:0:0/108"}

func spell(word string, in map[rune]string) []string {
	var out []string
	for _, l := range word {
		out = append(out, in[l])
	}
	return out
}

var symbols = map[string]Kind{"=": Consistent, "+": Extended, "d": Downgrade, "w": Swapped, "x": Mismatch}

// cell is one of the matrix.
type cell struct {
	stored, configured string
	want               Kind
}

func cells() []cell {
	lines := strings.Split(strings.TrimSpace(matrix), "\n")
	columns := strings.Fields(lines[1])[1:]
	var out []cell
	for _, line := range lines[2:] {
		fields := strings.Fields(line)
		for i, symbol := range fields[2:] {
			out = append(out, cell{fields[0], columns[i], symbols[symbol]})
		}
	}
	return out
}

// S34: every stored pair of ranges against every configured one. Nothing but a
// second family is ever written, once; the rest is reported once, with a remedy.
func TestS34_StoredAgainstConfigured(t *testing.T) {
	if n := len(cells()); n != 144 {
		t.Fatalf("%d cells", n)
	}
	for _, tc := range cells() {
		t.Run(tc.stored+" as "+tc.configured, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			rec := &recorder{}
			put(server, spell(tc.stored, letters)...)
			before := stored(t, server)
			c := controller(t, server, rec, spell(tc.configured, letters)...)

			f := find(t, c, tc.want)
			after := stored(t, server)
			want := spell(tc.stored, letters)
			if tc.want == Extended {
				want = spell(tc.configured, letters)
				tc.want = Consistent
			} else if after.ResourceVersion != before.ResourceVersion {
				t.Error("written")
			}
			if !slices.Equal(after.Spec.CIDRs, want) || after.UID != before.UID {
				t.Errorf("stored %q, want %q", after.Spec.CIDRs, want)
			}
			for range 3 {
				find(t, c, tc.want)
			}
			if got := stored(t, server).ResourceVersion; got != after.ResourceVersion {
				t.Error("written again")
			}

			var events []string
			if !tc.want.AsConfigured() {
				events = []string{ReasonInconsistent}
				for _, s := range []string{strings.Join(want, ","), DefaultFlag + "=" + strings.Join(want, ","), "create another ServiceCIDR"} {
					if !strings.Contains(f.Message+f.Remedy, s) {
						t.Errorf("%q is not in %v", s, f)
					}
				}
			} else if f.Remedy != "" {
				t.Errorf("a remedy for nothing: %v", f)
			}
			if got := rec.reasons(); !slices.Equal(got, events) {
				t.Errorf("events %q, want %q", got, events)
			}
			if f.UID != before.UID {
				t.Errorf("UID %q, want %q", f.UID, before.UID)
			}
		})
	}
}

// Spellings of older servers are compared by value, and never rewritten: what is
// to be extended is refused by the server, which takes no such spelling anew.
func TestS53_StoredInAnotherSpelling(t *testing.T) {
	for _, tc := range cells() {
		t.Run(tc.stored+" as "+tc.configured, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			rec := &recorder{}
			put(server, spell(tc.stored, odd)...)
			before := stored(t, server)
			c := controller(t, server, rec, spell(tc.configured, letters)...)
			if tc.want == Extended {
				for range 3 {
					f, err := c.Sync(quiet())
					if f.Kind != FamilyMissing || err == nil || !strings.Contains(f.Remedy, "spelling") {
						t.Fatalf("%v, %v", f, err)
					}
				}
				if got := rec.reasons(); !slices.Equal(got, []string{ReasonError}) {
					t.Errorf("events %q", got)
				}
			} else {
				find(t, c, tc.want)
			}
			if got := stored(t, server); got.ResourceVersion != before.ResourceVersion {
				t.Errorf("written: %q", got.Spec.CIDRs)
			}
		})
	}
}

// A terminating ServiceCIDR is reported and left alone, whatever its ranges; when
// it is gone it is created as configured, finalizer and all.
func TestS34_TerminatingIsCreatedAgainOnlyWhenGone(t *testing.T) {
	for _, tc := range cells() {
		t.Run(tc.stored+" as "+tc.configured, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			rec := &recorder{}
			put(server, spell(tc.stored, letters)...)
			terminate(t, server)
			before := stored(t, server)
			c := controller(t, server, rec, spell(tc.configured, letters)...)
			for range 3 {
				find(t, c, Terminating)
			}
			if got := stored(t, server); got.ResourceVersion != before.ResourceVersion {
				t.Errorf("written: %q", got.Spec.CIDRs)
			}
			if calls(server, "r", "create")+calls(server, "r", "update") != 0 {
				t.Error("tried to write")
			}
			if got := rec.reasons(); !slices.Equal(got, []string{ReasonError}) {
				t.Errorf("events %q", got)
			}

			server.RemoveFinalizer(DefaultName, informer.Finalizer)
			find(t, c, Created)
			got := stored(t, server)
			if !slices.Equal(got.Spec.CIDRs, spell(tc.configured, letters)) || !slices.Equal(got.Finalizers, []string{informer.Finalizer}) || got.UID == before.UID {
				t.Errorf("created %+v", got)
			}
		})
	}
}

// What is not there is created, with its finalizer from the first moment.
func TestS34_AbsentIsCreated(t *testing.T) {
	for _, configured := range strings.Fields("a A s S as aS As AS sa sA Sa SA") {
		for _, omit := range []bool{false, true} {
			t.Run(fmt.Sprint(configured, " omit ", omit), func(t *testing.T) {
				server := simapi.New()
				defer server.Close()
				c, err := New(Config{Client: server.Client("r"), Ranges: spell(configured, letters), Name: "mine", OmitFinalizer: omit})
				if err != nil {
					t.Fatal(err)
				}
				find(t, c, Created)
				obj := stored(t, server)
				finalizers := []string{informer.Finalizer}
				if omit {
					finalizers = nil
				}
				if obj.Name != "mine" || !slices.Equal(obj.Spec.CIDRs, spell(configured, letters)) || !slices.Equal(obj.Finalizers, finalizers) {
					t.Errorf("created %+v", obj)
				}
				if len(obj.Status.Conditions) != 0 {
					t.Errorf("wrote conditions %+v", obj.Status.Conditions)
				}
				find(t, c, Consistent)
			})
		}
	}
}

// Entries that nothing can be allocated from, or too many of them, are no reason
// to write over them.
func TestS34_UnreadableIsNeverWritten(t *testing.T) {
	for _, cidrs := range [][]string{nil, {"garbage"}, {v4, "garbage"}, {v4, v4}, {v4, "10.096.0.0/16"}, {v4, "fd00::/128"}, {v4, v6, other4}} {
		for _, configured := range [][]string{{v4}, {v4, v6}} {
			t.Run(fmt.Sprint(cidrs, " as ", configured), func(t *testing.T) {
				server := simapi.New()
				defer server.Close()
				put(server, cidrs...)
				f := find(t, controller(t, server, nil, configured...), Mismatch)
				if calls(server, "r", "update")+calls(server, "r", "create") != 0 {
					t.Error("tried to write")
				}
				if f.Remedy == "" {
					t.Errorf("no remedy: %v", f)
				}
			})
		}
	}
}

// Text for operators.
func TestFinding_Text(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	put(server, v4, v6)
	c, err := New(Config{Client: server.Client("r"), Ranges: []string{v4}, Flag: "--ranges"})
	if err != nil {
		t.Fatal(err)
	}
	got := find(t, c, Downgrade).String()
	want := `Downgrade: ServiceCIDR "kubernetes" has 10.96.0.0/16,fd00::/108, and 10.96.0.0/16 is configured; ` +
		`a family cannot be taken away from a ServiceCIDR. ` +
		`If the stored ranges are right, start this API server with --ranges=10.96.0.0/16,fd00::/108. ` +
		`To come to the configured ones, create another ServiceCIDR with 10.96.0.0/16, so that addresses in it stay covered; ` +
		`start every API server with --ranges=10.96.0.0/16; then delete ServiceCIDR kubernetes. ` +
		`Addresses that no other ServiceCIDR covers hold it: move their Services. ` +
		`The first API server that sees it gone creates it again; then delete the other one`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := (Finding{}).String(); got != "it has not been read yet" {
		t.Error(got)
	}
	for _, k := range kinds() {
		if k.String() != string(k) || k == Unknown {
			t.Error(k)
		}
	}
}

// A recreated object with the same fault is news; the same fault again is not.
func TestEvents_OnChangeOnly(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	rec := &recorder{}
	c := controller(t, server, rec, v4)
	var uids []types.UID
	for range 2 {
		put(server, other4)
		uids = append(uids, stored(t, server).UID)
		for range 3 {
			find(t, c, Mismatch)
		}
		server.SetReady(DefaultName, "True") // another version of it
		find(t, c, Mismatch)
		terminate(t, server)
		find(t, c, Terminating)
		server.RemoveFinalizer(DefaultName, informer.Finalizer)
	}
	find(t, c, Created)
	var got []event
	for _, e := range rec.all() {
		got = append(got, event{e.uid, e.reason, ""})
	}
	want := []event{{uids[0], ReasonInconsistent, ""}, {uids[0], ReasonError, ""}, {uids[1], ReasonInconsistent, ""}, {uids[1], ReasonError, ""}}
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// A note fits into an Event, whatever is stored or answered.
func TestEvents_NoteIsClipped(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	rec := &recorder{}
	put(server, strings.Repeat("ä", 2000))
	find(t, controller(t, server, rec, v4), Mismatch)
	if got := rec.all()[0].note; len(got) > note.Max || !strings.HasSuffix(got, "...") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}
