// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StatePending StepState = "Pending"
	StateBegun   StepState = "Begun"
	StateDone    StepState = "Done"
)

// RunState is how far a plan is.
type RunState string

// The states of a plan.
const (
	RunPending  RunState = "Pending"  // nothing was begun
	RunBegun    RunState = "Begun"    // a runner works on it, or was killed
	RunStopped  RunState = "Stopped"  // resume or rollback
	RunFinished RunState = "Finished" // verify proves it
	RunUndone   RunState = "Undone"   // another plan takes it back
)

// Status is how far a plan is, by its journal.
type Status struct {
	Plan     string       `json:"plan"`
	Playbook Playbook     `json:"playbook"`
	Undoes   string       `json:"undoes,omitempty"`
	State    RunState     `json:"state"`
	Steps    []StepStatus `json:"steps"`
	// Begun and Ended are of the journal's first and last entry.
	Begun *metav1.MicroTime `json:"begun,omitempty"`
	Ended *metav1.MicroTime `json:"ended,omitempty"`
	// Moved counts Services; OnTheWay are those whose move was cut, Left those that were
	// not moved, with the reason.
	Moved    int               `json:"moved"`
	OnTheWay []string          `json:"onTheWay,omitempty"`
	Left     map[string]string `json:"left,omitempty"`
	// Told is what the operator should know.
	Told []string `json:"told,omitempty"`
	// Message says why a run has stopped.
	Message string `json:"message,omitempty"`
	// UndoneBy is the plan that takes this one back.
	UndoneBy string `json:"undoneBy,omitempty"`
	// GapMedian and Gap99 are how long Services had no address.
	GapMedian time.Duration `json:"gapMedianNanoseconds,omitempty"`
	Gap99     time.Duration `json:"gap99Nanoseconds,omitempty"`
}

// StepStatus is how far a step is.
type StepStatus struct {
	Step  int       `json:"step"`
	Title string    `json:"title"`
	State StepState `json:"state"`
	Moved int       `json:"moved,omitempty"`
}

// ReadStatus derives it from a plan and its journal.
func ReadStatus(p *Plan, entries []Entry) Status {
	s := Status{Plan: p.Name, Playbook: p.Request.Playbook, Undoes: p.Undoes, State: RunPending}
	s.Steps = make([]StepStatus, len(p.Steps))
	for i, step := range p.Steps {
		s.Steps[i] = StepStatus{Step: step.ID, Title: step.Title, State: StatePending}
	}
	h := readHistory(entries)
	var gaps []time.Duration
	for i := range entries {
		e := &entries[i]
		if s.Begun == nil {
			s.Begun = &e.Time
		}
		s.Ended = &e.Time
		var step *StepStatus
		if e.Step > 0 && e.Step <= len(s.Steps) {
			step = &s.Steps[e.Step-1]
		}
		switch e.Type {
		case StepBegun:
			if s.State != RunUndone {
				s.State, s.Message = RunBegun, ""
			}
			if step != nil && step.State == StatePending {
				step.State = StateBegun
			}
		case StepDone:
			if step != nil {
				step.State = StateDone
			}
		case Moved:
			s.Moved++
			if step != nil {
				step.Moved++
			}
			if e.Gap > 0 {
				gaps = append(gaps, time.Duration(e.Gap)*time.Microsecond)
			}
		case Left:
			if s.Left == nil {
				s.Left = map[string]string{}
			}
			s.Left[e.Service] = e.Message
		case Told:
			s.Told = append(s.Told, fmt.Sprintf("Service %s: %s", e.Service, e.Message))
		case Stopped:
			if s.State != RunUndone {
				s.State, s.Message = RunStopped, e.Message
			}
		case Finished:
			s.State, s.Message = RunFinished, ""
		case Undone:
			s.State, s.UndoneBy = RunUndone, e.Message
		}
	}
	for _, step := range p.Steps {
		for k := range h.open(step.ID) {
			s.OnTheWay = append(s.OnTheWay, k)
		}
	}
	slices.Sort(s.OnTheWay)
	s.OnTheWay = slices.Compact(s.OnTheWay)
	if len(gaps) > 0 {
		slices.Sort(gaps)
		s.GapMedian, s.Gap99 = gaps[len(gaps)/2], gaps[min(len(gaps)-1, len(gaps)*99/100)]
	}
	return s
}
