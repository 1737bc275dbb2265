// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

var (
	// ErrInvalidConfig is wrapped by what New returns when its Config cannot work.
	ErrInvalidConfig = errors.New("invalid repair configuration")
	// ErrBusy: Sync was called while another pass is under way. Step a
	// controller with Sync or run it with Run, not both.
	ErrBusy = errors.New("a repair pass is under way")
	// ErrNotSynced: the View given has no complete state yet. Run it, and wait
	// for its Synced.
	ErrNotSynced = errors.New("the view is not synced yet")
	// ErrOverloaded: the API server turned down so many calls in a row that the
	// pass was ended early. The next one goes on.
	ErrOverloaded = errors.New("the API server is overloaded: the pass was ended early")
)

const (
	// maxErrors bounds the errors that a PassError holds.
	maxErrors = 10
	// maxOverloads is how many calls in a row the API server may turn down
	// before a pass ends.
	maxOverloads = 3
)

// PassError is what went wrong in a pass that otherwise went on. errors.Is and
// errors.As look into all of Errors.
type PassError struct {
	// Errors are the first few.
	Errors []error
	// More is how many others there were.
	More int
	// RetryAfter is the longest wait that the API server asked for.
	RetryAfter time.Duration
}

func (e *PassError) Error() string {
	texts := make([]string, len(e.Errors), len(e.Errors)+1)
	for i, err := range e.Errors {
		texts[i] = err.Error()
	}
	if e.More > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", e.More))
	}
	return "repair: " + strings.Join(texts, "; ")
}

// Unwrap gives the errors to errors.Is and errors.As.
func (e *PassError) Unwrap() []error { return e.Errors }

func (e *PassError) add(err error) {
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		e.RetryAfter = max(e.RetryAfter, time.Duration(seconds)*time.Second)
	}
	if len(e.Errors) == maxErrors {
		e.More++
		return
	}
	e.Errors = append(e.Errors, err)
}

// superseded reports that a fenced write met another object than the one that
// was read: somebody was faster, and the next pass sees what is there now.
func superseded(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// overloaded reports an error that more calls would only make worse.
func overloaded(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded)
}
