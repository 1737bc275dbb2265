// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/proptest"
)

// one runs one row in this process, and does not return. The result goes to a file,
// for upstream may take the process with it; the shorter story goes to the output,
// as that of any failed test.
func one(r row, path string, cases int) {
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
	go watch.run(func(why, stack string) {
		if out.Verdict != fails { // it may hang while the story is made shorter
			out.Verdict, out.Message, out.Story = hangs, why, stack
			write()
		}
		os.Exit(0)
	})
	test := func(t *testing.T) {
		factory, options := r.subject(watch.moved)
		f := p.Find(t, factory, cases, options...)
		if f == nil {
			write()
			return
		}
		out.Verdict, out.Message, out.Story, out.Cases = fails, f.Message, f.Story, f.Cases
		if f.Property != p.Name {
			out.Message = f.Property + ": " + f.Message
		}
		write()
		p.Check(t, factory, options...)
	}
	testing.Init()
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "6s", "rapid.checks": "100"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: r.Property, F: test}}, nil, nil)
}
