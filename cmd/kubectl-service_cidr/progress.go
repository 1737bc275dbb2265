// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// progress shows a run: a line for each thing that happens, and a bar on a terminal
// while Services move.
type progress struct {
	d     deps
	steps int

	mu       sync.Mutex
	bars     *mpb.Progress // nil where there is no terminal
	bar      *mpb.Bar
	finished bool
}

func newProgress(d deps, plan *renumber.Plan) *progress {
	p := &progress{d: d, steps: len(plan.Steps)}
	if d.terminal() {
		p.bars = mpb.New(mpb.WithOutput(d.err), mpb.WithWidth(40), mpb.WithAutoRefresh())
	}
	return p
}

func (p *progress) observe(e renumber.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	switch {
	case e.Entry == nil:
		p.line(e.Step.ID, e.Message)
		p.advance(e)
	case e.Entry.Type == renumber.StepBegun:
		p.line(e.Step.ID, e.Message)
	case e.Entry.Type == renumber.StepDone:
		p.drop()
		p.line(e.Step.ID, "done")
	case e.Entry.Type == renumber.Told, e.Entry.Type == renumber.Left:
		p.line(e.Step.ID, fmt.Sprintf("%s: %s", e.Entry.Service, e.Message))
	}
}

func (p *progress) line(step int, message string) {
	text := fmt.Sprintf("[%d/%d] %s\n", step, p.steps, message)
	if p.bar != nil {
		_, _ = p.bars.Write([]byte(text))
		return
	}
	fmt.Fprint(p.d.out, text)
}

// advance moves the bar.
func (p *progress) advance(e renumber.Event) {
	if p.bars == nil || e.Total == 0 {
		return
	}
	if p.bar == nil {
		p.bar = p.bars.AddBar(int64(e.Total), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("[%d/%d] ", e.Step.ID, p.steps)), decor.CountersNoUnit("%d of %d Services ")),
			mpb.AppendDecorators(decor.Percentage(), decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
	}
	p.bar.SetCurrent(int64(e.Done))
}

func (p *progress) drop() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bar = nil
	}
}

// end leaves the terminal as it was. It may be called twice.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	p.finished = true
	p.drop()
	if p.bars != nil {
		p.bars.Wait()
	}
}
