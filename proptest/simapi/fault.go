// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Forever, as the Times of a Fault, keeps it until it is removed.
const Forever = -1

// Fault is something that goes wrong. Empty selectors match everything. One call
// meets at most one fault: the oldest that matches.
type Fault struct {
	Replica  string
	Verb     string // as in Call
	Resource string // as in Call
	Name     string

	// Times is how many matching calls it strikes, counted from now. 0 means 1;
	// Forever has no end.
	Times int
	// When: Before, the server never sees the call. After, it has applied it, and
	// the answer is lost.
	When Phase
	// Block, if not nil, holds the call until the channel is closed (or receives),
	// the call's context ends, or the server closes. Err comes after it.
	Block <-chan struct{}
	// Err is what the caller gets. Nil, with Block: the call is slow, and then goes on.
	Err error
}

type armed struct {
	Fault
	left int
}

func (f *armed) matches(c Call) bool {
	ok := func(want, have string) bool { return want == "" || want == have }
	return ok(f.Replica, c.Replica) && ok(f.Verb, c.Verb) && ok(f.Resource, c.Resource) && ok(f.Name, c.Name)
}

// Fail arms a fault. The function returned disarms it; calls that it already blocks
// stay blocked.
func (s *Server) Fail(f Fault) (remove func()) {
	a := &armed{Fault: f, left: f.Times}
	if f.Times == 0 {
		a.left = 1
	}
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.faults = append(s.calls.faults, a)
	return func() {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		s.calls.disarm(a)
	}
}

// ClearFaults disarms all faults.
func (s *Server) ClearFaults() {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.faults = nil
}

// disarm forgets a fault. The caller holds i.mu.
func (i *interceptor) disarm(a *armed) {
	i.faults = slices.DeleteFunc(i.faults, func(f *armed) bool { return f == a })
}

// match returns the fault that this call meets, or nil, and uses it once.
func (i *interceptor) match(c Call) *armed {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.faults {
		if !f.matches(c) {
			continue
		}
		if f.left > 0 {
			if f.left--; f.left == 0 {
				i.disarm(f)
			}
		}
		return f
	}
	return nil
}

// inject lets f act if this is its phase.
func (s *Server) inject(ctx context.Context, c Call, f *armed) error {
	if f == nil || f.When != c.Phase {
		return nil
	}
	if f.Block != nil {
		select {
		case <-f.Block:
		case <-ctx.Done():
			return requestError(c, ctx.Err())
		case <-s.closing:
			return errClosed()
		}
	}
	return f.Err
}

// Errors to give a Fault, as a client sees them.

// Forbidden is 403: apierrors.IsForbidden.
func Forbidden(reason string) error {
	return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New(reason))
}

// TooManyRequests is 429 with Retry-After in seconds: apierrors.IsTooManyRequests,
// apierrors.SuggestsClientDelay.
func TooManyRequests(retryAfterSeconds int) error {
	return apierrors.NewTooManyRequests("the server has received too many requests and has asked us to try again later", retryAfterSeconds)
}

// Invalid is 422: apierrors.IsInvalid.
func Invalid(reason string) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("spec"), nil, reason),
	})
}

// Timeout is 504, outcome unknown: apierrors.IsTimeout.
func Timeout() error {
	return apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1)
}

// ServerTimeout is 500 with reason ServerTimeout, try again: apierrors.IsServerTimeout.
func ServerTimeout() error {
	return apierrors.NewServerTimeout(schema.GroupResource{}, "", 1)
}

// InternalError is 500: apierrors.IsInternalError.
func InternalError(reason string) error { return apierrors.NewInternalError(errors.New(reason)) }

// Unavailable is 503: apierrors.IsServiceUnavailable.
func Unavailable() error { return apierrors.NewServiceUnavailable("the server is starting") }

// ConnectionCut is a connection that ended within the answer: outcome unknown,
// errors.Is io.ErrUnexpectedEOF.
func ConnectionCut() error { return transportError(io.ErrUnexpectedEOF) }

// ConnectionReset is a connection that the peer reset: outcome unknown, errors.Is
// syscall.ECONNRESET.
func ConnectionReset() error {
	return transportError(&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)})
}

// ConnectionRefused is a server that is not there: errors.Is syscall.ECONNREFUSED.
func ConnectionRefused() error {
	return transportError(&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})
}

func transportError(err error) error {
	return &url.Error{Op: "Post", URL: "https://simapi.invalid/", Err: err}
}
