// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// Property is one invariant with the cases that try to break it.
type Property struct {
	// Name is that of the function which checks it, Rule that of the invariant.
	Name, Rule string
	// Says is the invariant in a sentence.
	Says string

	// Either a state machine, driven by rapid, each case by one of the profiles,
	profiles []profile
	checks   []check
	worlds   int // in each case, one after the other; 0 means 1
	// or rounds of a test that needs no more than a seed.
	seeded func(t *testing.T, s settings, seed uint64) *Failure
	rounds int
}

// Check fails the test if the property does not hold, with the shortest story that
// rapid finds. The flags of rapid apply: -rapid.checks, -rapid.steps, -rapid.seed,
// -rapid.failfile.
func (p Property) Check(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	s := newSettings(factory, options)
	if p.seeded != nil {
		for i := range p.rounds {
			if f := p.seeded(t, s, uint64(i)); f != nil {
				f.Cases = i + 1
				if f.picture != nil {
					if path, err := f.picture(t); err != nil {
						t.Errorf("drawing the history: %v", err)
					} else {
						t.Logf("a picture of it, for a browser: %s", path)
					}
				}
				t.Fatal(f.Error())
			}
		}
		return
	}
	// Rapid shrinks by whatever fails; stay with the check that failed first.
	first := ""
	report := &report{TB: t}
	ended := make(chan struct{})
	go func() { // it ends with Goexit if the property does not hold
		defer close(ended)
		rapid.Check(report, func(rt *rapid.T) {
			f := p.runCase(t, s, rt)
			if f == nil {
				return
			}
			if first == "" {
				first = f.Property + f.Rule
			}
			if f.Property+f.Rule != first {
				rt.Skip("another property fails as well")
			}
			report.failure = f
			rt.Fatal(f.Message)
		})
	}()
	<-ended
	switch {
	case report.failure != nil:
		t.Fatalf("%v\n%s", report.failure, report.hint())
	case len(report.errors) > 0:
		t.Fatal(report.errors[0])
	}
	t.Logf("%d actions", s.actions.Load())
}

// Find looks for a failure in the given number of cases, the same ones each time, and
// returns the first, not shortened; nil if there is none. It does not fail the test.
// It is for tests of the properties themselves: see package mutants.
func (p Property) Find(t *testing.T, factory Factory, cases int, options ...Option) *Failure {
	t.Helper()
	s := newSettings(factory, options)
	if p.seeded != nil {
		for i := range min(cases, p.rounds) {
			if f := p.seeded(t, s, uint64(i)); f != nil {
				f.Cases = i + 1
				return f
			}
		}
		return nil
	}
	// Custom, for its Example takes a seed, and logs nothing.
	aCase := rapid.Custom(func(rt *rapid.T) *Failure {
		return p.runCase(t, s, rt)
	})
	for i := range cases {
		if f := aCase.Example(i + 1); f != nil {
			f.Cases = i + 1
			return f
		}
	}
	return nil
}

// Fuzz is a fuzz target of the property, for testing.F.Fuzz. The statistical ones
// have none: it skips.
func (p Property) Fuzz(factory Factory, options ...Option) func(*testing.T, []byte) {
	s := newSettings(factory, options)
	return func(t *testing.T, input []byte) {
		if p.seeded != nil {
			t.Skip(p.Name + " is no state machine")
		}
		rapid.MakeFuzz(func(rt *rapid.T) {
			if f := p.runCase(t, s, rt); f != nil {
				rt.Fatal(f.Error())
			}
		})(t, input)
	}
}

// runCase runs one case of a state machine.
func (p Property) runCase(t *testing.T, s settings, rt *rapid.T) *Failure {
	for range max(1, p.worlds) {
		if f := p.runWorld(t, s, rt); f != nil {
			return f
		}
	}
	return nil
}

// runWorld runs one world in a bubble of its own.
func (p Property) runWorld(t *testing.T, s settings, rt *rapid.T) *Failure {
	return inBubble(t, func() *Failure {
		w := newWorld(s, rapid.Uint64().Draw(rt, "seed"))
		defer w.close()
		w.checks = p.checks
		return w.tell(func() {
			like := &p.profiles[0]
			if len(p.profiles) > 1 {
				like = &p.profiles[rapid.IntRange(0, len(p.profiles)-1).Draw(rt, "profile")]
			}
			w.begin(like, rt)
			rt.Repeat(w.actions(like))
			w.settle()
		})
	})
}

// tell runs a case until it ends or gives up.
func (w *world) tell(run func()) (f *Failure) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopped:
			synctest.Wait() // what is in the middle of something comes to rest
			f = w.conclude()
		default:
			panic(p)
		}
	}()
	run()
	return nil
}

// inBubble runs f in a bubble: time passes only when all goroutines wait, and all of
// them have ended when it returns. A panic of f is one of inBubble.
func inBubble(t *testing.T, f func() *Failure) (failure *Failure) {
	t.Helper()
	watch := watchdog()
	defer watch.Stop()
	var panicked any
	synctest.Test(t, func(*testing.T) {
		defer func() { panicked = recover() }()
		failure = f()
	})
	if panicked != nil {
		panic(panicked)
	}
	return failure
}
