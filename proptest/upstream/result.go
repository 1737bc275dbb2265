// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"
)

// result is what came of a row.
type result struct {
	row
	Rule    string
	Verdict verdict
	// Message is what is wrong, Story how it came to that, Cases how many it took, or
	// how many were run.
	Message, Story string
	Cases          int
	Took           time.Duration
}

type verdict string

const (
	holds  verdict = "holds"
	fails  verdict = "FAILS"
	hangs  verdict = "HANGS"
	broken verdict = "not run" // the only one that is an error
)

// shorter takes the message and story that rapid's shrinking has ended with, from
// the output of the test, if that is shorter.
func (r *result) shorter(output string) {
	mark := fmt.Sprintf("%s %s does not hold: ", r.Rule, r.Property)
	_, text, ok := strings.Cut(output, mark)
	if !ok {
		return
	}
	message, rest, ok := strings.Cut(text, "\n")
	if !ok {
		return
	}
	var story []string
	for line := range strings.Lines(rest) {
		inner, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "        ") // as package testing does
		if !indented && inner != "" || strings.HasPrefix(inner, "To reproduce") || strings.HasPrefix(inner, "To try to") {
			break
		}
		story = append(story, inner)
	}
	short := strings.TrimSpace(strings.Join(story, "\n"))
	if short != "" && len(short) < len(r.Story) {
		r.Message, r.Story = message, short
	}
}
