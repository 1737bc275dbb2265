// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/proptest"
)

// Every property is run against upstream, both ways.
func TestRows_AreAllProperties(t *testing.T) {
	type key struct {
		property string
		visible  bool
	}
	have := map[key]bool{}
	for _, r := range rows() {
		if proptest.ByName(r.Property).Name == "" {
			t.Errorf("there is no property %q", r.Property)
		}
		have[key{r.Property, r.Visible}] = have[key{r.Property, r.Visible}] || r.Allocator == upstreams
	}
	for _, p := range proptest.Properties() {
		for _, visible := range []bool{true, false} {
			if !have[key{p.Name, visible}] {
				t.Errorf("%s is not run, visible %v", p.Name, visible)
			}
		}
	}
}

// A property that fails is a result; one that could not be run is an error.
func TestPrint_OnlyWhatWasNotRunIsAnError(t *testing.T) {
	var out strings.Builder
	results := []result{
		{row: row{Property: "Scan", Visible: true}, Rule: "I6", Verdict: holds, Cases: 100},
		{row: row{Property: "Uniqueness", Visible: true}, Rule: "I1", Verdict: fails, Found: []found{{Message: "twice", Story: "  1. a step\n"}}, Cases: 3},
	}
	if err := print(&out, results); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"Scan", "holds", "[1] I1 Uniqueness", "1. a step"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	results[0].Verdict, results[0].Found = broken, []found{{Message: "no end"}}
	if err := print(&out, results); err == nil || !strings.Contains(err.Error(), "could not be run: no end") {
		t.Errorf("error %v", err)
	}
}

func TestMerge_TakesTheShortestStoryOfEachKind(t *testing.T) {
	r := result{Rule: "I1", row: row{Property: "Uniqueness"}, Found: []found{{Message: "10.0.0.1 is twice", Story: "1. 0s a step\n2. 0s a step"}}}
	r.merge(attempts(`--- FAIL: seed3-steps4 (0.10s)
    one.go:1: I1 Uniqueness does not hold: 10.0.0.2 is twice
        
          1.    0s  a step
        
        To reproduce, specify -run
--- FAIL: seed4-steps2 (0.10s)
    one.go:1: I1 Uniqueness does not hold: 10.0.0.2 is gone
        
          1.    0s  a step
          2.    0s  a step
        
        To reproduce, specify -run
--- FAIL: seed5-steps2 (0.10s)
panic: no story
`))
	want := []found{
		{Message: "10.0.0.2 is twice", Story: "1.    0s  a step", Seed: 3, Steps: 4},
		{Message: "10.0.0.2 is gone", Story: "1.    0s  a step\n  2.    0s  a step", Seed: 4, Steps: 2},
	}
	if !slices.Equal(r.Found, want) {
		t.Errorf("%+v", r.Found)
	}
}

// What the watch looks for is the text of a stack.
func TestWatch_NamesWhoHoldsAndWhoWaits(t *testing.T) {
	f, ok := mutexWait(`goroutine 1 [sleep, synctest bubble 1]:
time.Sleep(0x1)
adapter.addresses.Create({0x1})
k8s.io/kubernetes/pkg/registry/core/service/ipallocator.(*MetaAllocator).AllocateNextService(0x1)

goroutine 2 [sync.Mutex.Lock, synctest bubble 1]:
k8s.io/kubernetes/pkg/registry/core/service/ipallocator.(*MetaAllocator).getAllocator(0x1)`)
	if want := "holds its lock across the call: AllocateNextService is in its create, and getAllocator waits for the mutex"; !ok || f.Message != want {
		t.Errorf("%v, %q", ok, f.Message)
	}
	if _, ok := mutexWait("goroutine 1 [sleep]:\nmain.main()"); ok {
		t.Error("nobody waits")
	}
}
