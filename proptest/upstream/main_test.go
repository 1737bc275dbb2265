// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
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
		{row: row{Property: "Scan"}, Rule: "I6", Verdict: holds, Cases: 100},
		{row: row{Property: "Uniqueness"}, Rule: "I1", Verdict: fails, Message: "twice", Story: "  1. a step\n", Cases: 3},
	}
	if err := print(&out, results); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"Scan", "holds", "[2] twice", "1. a step"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	results[0].Verdict, results[0].Message = broken, "no end"
	if err := print(&out, results); err == nil || !strings.Contains(err.Error(), "Scan could not be run: no end") {
		t.Errorf("error %v", err)
	}
}

func TestShorter_TakesTheStoryThatShrinkingEndedWith(t *testing.T) {
	long := result{Rule: "I1", row: row{Property: "Uniqueness"}, Message: "long", Story: strings.Repeat("a step\n", 9)}
	long.shorter("    one.go:1: I1 Uniqueness does not hold: short\n          1. a step\n\n        To reproduce, specify -run\n")
	if long.Message != "short" || long.Story != "1. a step" {
		t.Errorf("%q, %q", long.Message, long.Story)
	}
	same := long
	same.shorter("panic")
	if same != long {
		t.Error(errors.New("changed without a story"))
	}
}
