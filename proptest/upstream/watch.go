// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// patience is for how long nothing may move, by the wall clock.
const patience = 3 * time.Second

// watch notices that a bubble stands still because of upstream's mutex.
type watch struct{ moves atomic.Int64 }

func newWatch() *watch { return &watch{} }

// moved is told of anything that shows that the bubble moves.
func (w *watch) moved() { w.moves.Add(1) }

// run calls hang when nothing has moved and goroutines wait for upstream's mutex.
func (w *watch) run(hang func(found)) {
	last, since := w.moves.Load(), time.Now()
	for range time.Tick(patience / 10) {
		if now := w.moves.Load(); now != last {
			last, since = now, time.Now()
			continue
		}
		if time.Since(since) < patience {
			continue
		}
		buf := make([]byte, 8<<20)
		buf = buf[:runtime.Stack(buf, true)]
		if f, ok := mutexWait(string(buf)); ok {
			hang(f)
			return
		}
	}
}

var method = regexp.MustCompile(`ipallocator\.\(\*MetaAllocator\)\.(\w+)\(`)

// mutexWait finds a goroutine that waits for the mutex of a MetaAllocator, and one
// that has it while its API call waits for time.
func mutexWait(stacks string) (found, bool) {
	var waits, has, waiting, having string
	for g := range strings.SplitSeq(stacks, "\n\n") {
		m := method.FindStringSubmatch(g)
		if m == nil {
			continue
		}
		head, _, _ := strings.Cut(g, "\n")
		switch {
		case strings.Contains(head, "sync.Mutex.Lock"):
			waits, waiting = m[1], g
		case strings.Contains(g, "addresses.Create"):
			has, having = m[1], g
		}
	}
	if waits == "" {
		return found{}, false
	}
	if has == "" {
		return found{Message: fmt.Sprintf("%s waits for the mutex for ever", waits), Story: frames(waiting)}, true
	}
	return found{
		Message: fmt.Sprintf("holds its lock across the call: %s is in its create, and %s waits for the mutex", has, waits),
		Story:   "has the mutex:\n" + frames(having) + "\nwaits for it:\n" + frames(waiting),
	}, true
}

// frames are the functions of a stack, innermost first, from below the runtime's to
// the adapter's.
func frames(stack string) string {
	var b strings.Builder
	lines := strings.Split(stack, "\n")
	for _, line := range lines[1:] {
		if strings.HasPrefix(line, "created by") || strings.Contains(line, "adapter.(*section)") {
			break
		}
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "runtime.") || strings.HasPrefix(line, "internal/") {
			continue
		}
		if i := strings.LastIndex(line, "("); i > 0 {
			line = line[:i]
		}
		b.WriteString("  " + line[strings.LastIndex(line, "/")+1:] + "\n")
	}
	return b.String()
}
