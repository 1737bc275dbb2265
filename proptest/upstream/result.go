// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// result is what came of a row.
type result struct {
	row
	Rule    string
	Verdict verdict
	// Found are the ways in which it fails, that with the shortest story first.
	Found []found
	// Cases is how many it took to fail, or how many were run.
	Cases int
	// Took is until it failed, held or hung, by the wall clock.
	Took time.Duration
}

// found is one failure: what is wrong, and how it came to that.
type found struct {
	Message, Story string
	// Seed and Steps are rapid's flags for it, 0 if it is no case of rapid's.
	Seed, Steps int
}

type verdict string

const (
	holds  verdict = "holds"
	fails  verdict = "FAILS"
	hangs  verdict = "HANGS"
	broken verdict = "not run" // the only one that is an error
)

// kind is what is wrong without names and numbers.
func (f found) kind() string {
	return numbers.ReplaceAllString(details.ReplaceAllString(f.Message, "X"), "N")
}

var (
	details = regexp.MustCompile(`([0-9a-f]*[:.][0-9a-f:.]+[0-9a-f](/[0-9]+)?|\b(widgets\.example\.com|services)/[\w/]+|\b[rcw][0-9]+\b|\([0-9a-f-]{36}\))`)
	numbers = regexp.MustCompile(`[0-9]+`)
)

// shorter reports that the story is easier to read.
func (f found) shorter(than found) bool { return f.length() < than.length() }

func (f found) length() int { return len(steps.FindAllString(f.Story, -1))*10_000 + len(f.Story) }

var steps = regexp.MustCompile(`(?m)^ *[0-9]+\. +[0-9]`)

// attempts are the failures of tests named as rapid's seed and steps, as package
// testing prints them.
func attempts(output string) []found {
	var out []found
	for _, part := range strings.Split(output, "--- FAIL: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		var f found
		if n, _ := fmt.Sscanf(name, "seed%d-steps%d", &f.Seed, &f.Steps); n != 2 {
			continue
		}
		_, text, ok := strings.Cut(text, " does not hold: ")
		if !ok {
			continue
		}
		message, rest, _ := strings.Cut(text, "\n")
		var story strings.Builder
		for line := range strings.Lines(rest) {
			line, indented := strings.CutPrefix(line, "        ")
			if !indented && strings.TrimSpace(line) != "" || strings.HasPrefix(line, "To reproduce") || strings.HasPrefix(line, "To try to") {
				break
			}
			story.WriteString(line)
		}
		f.Message, f.Story = message, strings.Trim(story.String(), "\n ")
		if f.Story != "" {
			out = append(out, f)
		}
	}
	return out
}

// merge takes the shortest of each kind.
func (r *result) merge(more []found) {
	best := map[string]found{}
	var kinds []string
	for _, f := range append(r.Found, more...) {
		k := f.kind()
		old, ok := best[k]
		if !ok {
			kinds = append(kinds, k)
		}
		if !ok || f.shorter(old) {
			best[k] = f
		}
	}
	r.Found = nil
	for _, k := range kinds {
		r.Found = append(r.Found, best[k])
	}
	for i := range r.Found {
		if r.Found[i].shorter(r.Found[0]) {
			r.Found[0], r.Found[i] = r.Found[i], r.Found[0]
		}
	}
}
