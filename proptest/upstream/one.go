// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/proptest"
)

// one runs one row in this process, and does not return. The result goes to a file,
// for upstream may take the process with it. Shorter stories go to the output, as
// those of failed tests.
func one(r row, path string, cases int, effort time.Duration) {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // they wait, by the clock of another bubble
	p := proptest.ByName(r.Property)
	out := result{row: r, Rule: p.Rule, Verdict: holds, Cases: cases}
	begin := time.Now()
	write := func() {
		out.Took = time.Since(begin)
		raw, err := json.Marshal(out)
		if err == nil {
			err = os.WriteFile(path, raw, 0o600)
		}
		if err != nil {
			panic(err)
		}
	}
	watch := newWatch()
	factory, options := r.subject(watch.moved)
	go watch.run(func(f found) {
		if out.Verdict != fails { // it may hang while stories are made shorter
			out.Verdict, out.Found = hangs, []found{f}
			write()
		}
		os.Exit(0)
	})
	find := func(t *testing.T) {
		if f := p.Find(t, factory, cases, options...); f != nil {
			if f.Property != p.Name { // what every property wants: that Run does not end, say
				f.Message = f.Property + ": " + f.Message
			}
			out.Verdict, out.Cases = fails, f.Cases
			out.Found = []found{{Message: f.Message, Story: f.Story}}
		}
		write()
	}
	tests := []testing.InternalTest{{Name: r.Property, F: find}}
	if r.shrinks() {
		end := begin.Add(effort)
		for seed := 1; seed <= 300; seed++ {
			// Few steps make short stories, but not of all failures.
			steps := []int{2, 4, 6, 10}[seed%4]
			shrink := func(t *testing.T) {
				if out.Verdict == holds || time.Now().After(end) {
					t.SkipNow()
				}
				set("rapid.seed", strconv.Itoa(seed))
				set("rapid.steps", strconv.Itoa(steps))
				p.Check(t, factory, options...)
			}
			tests = append(tests, testing.InternalTest{Name: fmt.Sprintf("seed%d-steps%d", seed, steps), F: shrink})
		}
	}
	testing.Init()
	set("rapid.nofailfile", "true")
	set("rapid.shrinktime", "2s")
	set("rapid.checks", "50")
	testing.Main(func(string, string) (bool, error) { return true, nil }, tests, nil, nil)
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}
