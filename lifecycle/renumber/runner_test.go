// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
)

const (
	oldRange = "10.96.0.0/24"
	newRange = "10.112.0.0/24"
	oldSix   = "fd00:10:96::/112"
)

// playbooks are one request of each, with the flags before and after.
func playbooks() []struct {
	name          string
	before, after []string
	request       Request
	families      bool // stay
} {
	return []struct {
		name          string
		before, after []string
		request       Request
		families      bool
	}{
		{"replace", []string{oldRange, oldSix}, []string{newRange, oldSix}, Request{Playbook: Replace, To: []string{newRange}}, true},
		{"replace-both", []string{oldRange, oldSix}, []string{newRange, "fd00:10:112::/112"}, Request{Playbook: Replace, To: []string{newRange, "fd00:10:112::/112"}}, true},
		{"replace-second", []string{oldRange, oldSix}, []string{oldRange, "fd00:10:112::/112"}, Request{Playbook: Replace, To: []string{"fd00:10:112::/112"}}, true},
		{"replace-single", []string{oldRange}, []string{newRange}, Request{Playbook: Replace, To: []string{newRange}}, true},
		{"shrink", []string{oldRange}, []string{"10.96.0.0/26"}, Request{Playbook: Shrink, To: []string{"10.96.0.0/26"}}, true},
		{"shrink-end", []string{oldRange}, []string{"10.96.0.128/25"}, Request{Playbook: Shrink, To: []string{"10.96.0.128/25"}}, true},
		{"expand", []string{oldRange}, []string{"10.96.0.0/20"}, Request{Playbook: Expand, To: []string{"10.96.0.0/20"}}, true},
		{"expand-down", []string{"10.96.4.0/24"}, []string{"10.96.0.0/20"}, Request{Playbook: Expand, To: []string{"10.96.0.0/20"}}, true},
		{"add-family", []string{oldRange}, []string{oldRange, oldSix}, Request{Playbook: AddFamily, To: []string{oldSix}}, false},
		{"drop-second", []string{oldRange, oldSix}, []string{oldRange}, Request{Playbook: DropFamily, Family: corev1.IPv6Protocol}, false},
		{"drop-first", []string{oldRange, oldSix}, []string{oldSix}, Request{Playbook: DropFamily, Family: corev1.IPv4Protocol}, false},
		{"swap-family", []string{oldRange, oldSix}, []string{oldSix, oldRange}, Request{Playbook: SwapFamily}, false},
	}
}

// Every playbook to its end, and back; both strategies.
func TestRunner_EveryPlaybookThereAndBack(t *testing.T) {
	for _, p := range playbooks() {
		for _, strategy := range []Strategy{InPlace, Recreate} {
			t.Run(fmt.Sprintf("%s/%s", p.name, strategy), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, p.before...)
					c.populate(t, len(p.before) == 2)
					originals := c.byKey()
					p.request.Strategy = strategy
					plan := c.plan(t, p.request)
					there := &memory{}
					c.next = p.after
					if err := c.run(t, plan, there, nil, 0); err != nil {
						t.Fatal(err)
					}
					c.check(t, originals, strategy, p.families)
					c.allIn(t, p.after...)

					back, err := Inverse(plan, there.entries, 0, "back-1", metav1.Now())
					if err != nil {
						t.Fatal(err)
					}
					c.next = p.before
					if err := c.run(t, back, &memory{}, there, 0); err != nil {
						t.Fatal(err)
					}
					c.check(t, originals, strategy, true)
					c.allIn(t, p.before...)
					for k, o := range originals {
						if got := c.byKey()[k]; got.Spec.ClusterIP != o.Spec.ClusterIP {
							t.Errorf("Service %s has %s, and had %s", k, got.Spec.ClusterIP, o.Spec.ClusterIP)
						}
					}
				})
			})
		}
	}
}

// A migration of families has three hand-overs.
func TestRunner_MigrateFamilyThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, oldRange)
		c.populate(t, false)
		originals := c.byKey()
		plan := c.plan(t, Request{Playbook: MigrateFamily, To: []string{oldSix}})
		there := &memory{}
		restarts := func(cfg *Config) {
			cfg.Observe = func(e Event) {
				if e.Entry != nil && e.Entry.Type == StepBegun && e.Step.Kind == HandOver {
					c.mu.Lock()
					c.next = e.Step.Ranges
					c.mu.Unlock()
				}
			}
		}
		if err := c.run(t, plan, there, nil, 0, restarts); err != nil {
			t.Fatal(err)
		}
		c.check(t, originals, InPlace, false)
		c.allIn(t, oldSix)
		back, err := Inverse(plan, there.entries, 0, "back-1", metav1.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.run(t, back, &memory{}, there, 0, restarts); err != nil {
			t.Fatal(err)
		}
		c.check(t, originals, InPlace, true)
		c.allIn(t, oldRange)
	})
}

// The runner is killed before and after every call and every write of the journal, of
// a whole run; then it is resumed, or rolled back.
func TestI12_KilledAnywhere(t *testing.T) {
	for _, strategy := range []Strategy{InPlace, Recreate} {
		for _, way := range []string{"resume", "rollback", "rollback, killed again"} {
			t.Run(fmt.Sprintf("%s/%s", strategy, way), func(t *testing.T) {
				cuts, every := 0, stride(t)
				for cut := 1 + len(way)%every; ; cut += every {
					done := false
					synctest.Test(t, func(t *testing.T) { done = killedAt(t, strategy, way, cut) })
					if t.Failed() {
						t.Fatalf("at cut %d", cut)
					}
					if done {
						break
					}
					cuts++
				}
				t.Logf("%d cuts", cuts)
				if cuts < 80/every {
					t.Errorf("%d cuts: the run has more calls than that", cuts)
				}
			})
		}
	}
}

// stride is how many cuts are passed over: METACIDR_KILL_STRIDE=1 tries all of them, and takes three times as long.
func stride(t *testing.T) int {
	t.Helper()
	text := os.Getenv("METACIDR_KILL_STRIDE")
	if text == "" {
		return 3
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("METACIDR_KILL_STRIDE=%q: give a number of 1 or more", text)
	}
	return n
}

// killedAt reports whether the run ended before the cut.
func killedAt(t *testing.T, strategy Strategy, way string, cut int) (done bool) {
	before, after := []string{oldRange, oldSix}, []string{newRange, oldSix}
	c := newCluster(t, before...)
	c.populate(t, true)
	originals := c.byKey()
	plan := c.plan(t, Request{Playbook: Replace, To: []string{newRange}, Strategy: strategy})
	there := &memory{}
	c.next = after
	err := c.run(t, plan, there, nil, cut)
	if err == nil {
		return true
	}
	if !errors.Is(err, errDead) {
		t.Fatalf("cut %d, %s: %v", cut, c.lastCut, err)
	}
	killed := c.lastCut
	defer func() {
		if t.Failed() {
			t.Logf("cut %d, %s", cut, killed)
		}
	}()
	if way == "resume" {
		if err := c.run(t, plan, there, nil, 0); err != nil {
			t.Error(err)
		}
		c.check(t, originals, strategy, true)
		c.allIn(t, after...)
		return false
	}
	back, err := Inverse(plan, there.entries, 0, "back-1", metav1.Now())
	if errors.Is(err, ErrNothingToUndo) {
		c.check(t, originals, strategy, true)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if c.next != nil {
		c.next = nil // never handed over
	} else {
		c.next = before
	}
	journal := &memory{}
	if way != "rollback" {
		// Somewhere else each time.
		if err := c.run(t, back, journal, there, 1+cut*7%97); err != nil && !errors.Is(err, errDead) {
			t.Fatal(err)
		}
	}
	if err := c.run(t, back, journal, there, 0); err != nil {
		t.Error(err)
	}
	c.check(t, originals, strategy, true)
	c.allIn(t, before...)
	for k, o := range originals {
		if got := c.byKey()[k]; got != nil && got.Spec.ClusterIP != o.Spec.ClusterIP {
			t.Errorf("Service %s has %s, and had %s", k, got.Spec.ClusterIP, o.Spec.ClusterIP)
		}
	}
	return false
}
