// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"fmt"
	"strings"
)

// How a run ends before its plan does. What was begun of a Service is finished first,
// and the run can be resumed or rolled back. errors.Is finds them.
var (
	// ErrBlocked: the plan has blockers, or the cluster has moved since it was made.
	// Nothing was written.
	ErrBlocked = errors.New("blocked")
	// ErrHeld: another runner works on the cluster.
	ErrHeld = errors.New("another runner works on this cluster")
	// ErrInterrupted: Interrupt was called.
	ErrInterrupted = errors.New("interrupted")
	// ErrPaused: somebody asked for a pause.
	ErrPaused = errors.New("paused")
	// ErrWaiting: a step waits for the operator.
	ErrWaiting = errors.New("waiting for you")
	// ErrGate: what must be seen before the next step was not seen in time.
	ErrGate = errors.New("gate not passed")
	// ErrLeftovers: something is left in a range that should be empty.
	ErrLeftovers = errors.New("not all is moved")
	// ErrWrongCluster: the plan was made from another cluster.
	ErrWrongCluster = errors.New("the plan is for another cluster")
)

// StepError tells in which step a run ended.
type StepError struct {
	Step Step
	Err  error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("step %d, %s: %v", e.Step.ID, e.Step.Title, e.Err)
}

func (e *StepError) Unwrap() error { return e.Err }

// LeftoverError lists what is left. It is an ErrLeftovers.
type LeftoverError struct{ Left []Leftover }

func (e *LeftoverError) Error() string {
	const shown = 5
	var names []string
	for i, l := range e.Left {
		if i == shown {
			names = append(names, fmt.Sprintf("and %d more", len(e.Left)-shown))
			break
		}
		names = append(names, l.String())
	}
	return fmt.Sprintf("%v: %s", ErrLeftovers, strings.Join(names, "; "))
}

// Is makes it an ErrLeftovers.
func (e *LeftoverError) Is(target error) bool { return target == ErrLeftovers }
