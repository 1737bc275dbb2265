// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/metacidr/metacidr/proptest"
	"github.com/metacidr/metacidr/proptest/mutants"
)

func TestMain(m *testing.M) {
	// client-go waits between two errors by the time of the last one, which may
	// have been in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// cases is how many cases a property has to find its mutant in, as many as a run of
// it has by default.
const cases = 100

// Every mutant is noticed by the property that it names, by no other check.
func TestNoMutantSurvives(t *testing.T) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-32s %-16s %6s  %s\n", "mutant", "caught by", "case", "what is broken; what was noticed")
	for _, m := range mutants.All() {
		property := proptest.ByName(m.CaughtBy)
		if property.Name == "" {
			t.Errorf("%s: there is no property %q", m.Name, m.CaughtBy)
			continue
		}
		begin := time.Now()
		f := property.Find(t, m.Factory, cases, m.Options...)
		if f == nil {
			t.Errorf("%s survives %s: %s", m.Name, m.CaughtBy, m.Broken)
			fmt.Fprintf(&table, "%-32s %-16s %6s  %s\n", m.Name, "SURVIVES", "-", m.Broken)
			continue
		}
		if f.Property != m.CaughtBy {
			t.Errorf("%s was to be caught by %s, and was by %s: %s\n%s", m.Name, m.CaughtBy, f.Property, f.Message, f.Story)
		}
		fmt.Fprintf(&table, "%-32s %-16s %6d  %s; %s\n", m.Name, f.Property, f.Cases, m.Broken, shortened(f.Message))
		if testing.Verbose() {
			t.Logf("%s: %v", m.Name, time.Since(begin))
		}
	}
	t.Log(table.String())
}

func shortened(s string) string {
	if len(s) > 150 {
		return s[:150] + "..."
	}
	return s
}

// What the mutants are made of is sound: the same cases find nothing in it.
func TestTheSubjectIsSound(t *testing.T) {
	for _, p := range proptest.Properties() {
		if f := p.Find(t, mutants.Sound, cases/10); f != nil {
			t.Error(f)
		}
	}
}
