// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// story is what has happened so far, for a person to read.
type story struct {
	begin time.Time
	lines []string
	step  int
}

// next begins a step.
func (s *story) next(format string, args ...any) {
	s.step++
	s.lines = append(s.lines, fmt.Sprintf("%3d. %6s  ", s.step, time.Since(s.begin).Truncate(time.Millisecond*10))+fmt.Sprintf(format, args...))
}

// add tells more of the step.
func (s *story) add(format string, args ...any) {
	s.lines = append(s.lines, strings.Repeat(" ", 13)+fmt.Sprintf(format, args...))
}

func (s *story) String() string { return strings.Join(s.lines, "\n") }

// Failure is a property that does not hold, and how it came to that.
type Failure struct {
	// Property is its name, Rule that of its invariant: "Uniqueness", "I1".
	Property, Rule string
	// Message says what is wrong.
	Message string
	// Story has a numbered line per step, then what each replica believed and
	// what was true.
	Story string
	// Cases is how many cases were run until it was found.
	Cases int

	// picture, if there is one, draws it to a file.
	picture func(*testing.T) (path string, err error)
}

// Error is the message and the story.
func (f *Failure) Error() string {
	return fmt.Sprintf("%s %s does not hold: %s\n\n%s", f.Rule, f.Property, f.Message, f.Story)
}
