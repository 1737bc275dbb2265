// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// On a terminal and off it, every line is shown, and the end leaves nothing running.
func TestProgress(t *testing.T) {
	plan := &renumber.Plan{Steps: []renumber.Step{{ID: 1, Kind: renumber.MoveServices, Title: "move the Services"}}}
	for _, terminal := range []bool{false, true} {
		var out, err bytes.Buffer
		p := newProgress(deps{streams: streams{&out, &err}, terminal: func() bool { return terminal }}, plan)
		step := plan.Steps[0]
		p.observe(renumber.Event{Step: step, Entry: &renumber.Entry{Type: renumber.StepBegun}, Message: step.Title})
		for i := range 5 {
			p.observe(renumber.Event{Step: step, Message: fmt.Sprintf("web/s-%d: a -> b", i), Done: i + 1, Total: 5})
		}
		p.observe(renumber.Event{Step: step, Entry: &renumber.Entry{Type: renumber.Told, Service: "web/s-1"}, Message: "its label was changed"})
		p.observe(renumber.Event{Step: step, Entry: &renumber.Entry{Type: renumber.StepDone}})
		p.end()
		p.end()
		p.observe(renumber.Event{Step: step, Message: "too late"})
		all := out.String() + err.String()
		for _, want := range []string{"[1/1] move the Services", "web/s-0: a -> b", "web/s-4: a -> b", "web/s-1: its label was changed", "[1/1] done"} {
			if !strings.Contains(all, want) {
				t.Errorf("terminal %v: no %q in %q", terminal, want, all)
			}
		}
		if strings.Contains(all, "too late") {
			t.Errorf("terminal %v: a line after the end", terminal)
		}
	}
}
