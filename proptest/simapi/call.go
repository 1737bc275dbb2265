// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Phase is where in a call a hook or a fault acts.
type Phase int

const (
	// Before: nothing has been applied.
	Before Phase = iota
	// After: the server has applied the call (or refused it); the caller has no
	// answer yet.
	After
)

func (p Phase) String() string {
	if p == Before {
		return "before"
	}
	return "after"
}

// Call is what a hook sees.
type Call struct {
	Replica   string
	Verb      string // create, get, list, watch, update, patch, delete, deletecollection
	Resource  string // as in RBAC: "ipaddresses", "services", "servicecidrs/status"
	Namespace string
	Name      string // "" for list, watch and deletecollection
	Phase     Phase
	Err       error // After: what the server answered, before any fault; else nil
}

// Op is a kind of call, for counting.
type Op struct{ Verb, Resource string }

// Counts says how many calls of each kind there were.
type Counts map[Op]int

// Total returns the number of all calls.
func (c Counts) Total() int {
	total := 0
	for _, n := range c {
		total += n
	}
	return total
}

// interceptor is what a call passes on its way in and out.
type interceptor struct {
	mu     sync.Mutex // guards all below; never held while one of them acts
	hooks  []*func(Call)
	faults []*armed
	counts map[string]Counts // by replica
}

// OnCall has hook observe every call of every replica, before and after it is
// applied, on the caller's goroutine and without a lock: the hook may use the server,
// block, or cancel a context. Hooks run in the order in which they were added. The
// function returned removes this one.
func (s *Server) OnCall(hook func(Call)) (remove func()) {
	p := &hook
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.hooks = append(slices.Clip(s.calls.hooks), p)
	return func() {
		s.calls.mu.Lock()
		defer s.calls.mu.Unlock()
		s.calls.hooks = slices.DeleteFunc(slices.Clone(s.calls.hooks), func(h *func(Call)) bool { return h == p })
	}
}

// Calls returns the counts of a replica's calls since the start or ResetCalls. Every
// call that the typed client makes counts, whatever its outcome. Replica "" means
// all of them.
func (s *Server) Calls(replica string) Counts {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	if replica != "" {
		return maps.Clone(s.calls.counts[replica])
	}
	sum := make(Counts)
	for _, c := range s.calls.counts {
		for op, n := range c {
			sum[op] += n
		}
	}
	return sum
}

// ResetCalls sets the counts of all replicas to zero.
func (s *Server) ResetCalls() {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.calls.counts = nil
}

func (i *interceptor) count(c Call) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.counts == nil {
		i.counts = make(map[string]Counts)
	}
	if i.counts[c.Replica] == nil {
		i.counts[c.Replica] = make(Counts)
	}
	i.counts[c.Replica][Op{c.Verb, c.Resource}]++
}

func (i *interceptor) observe(c Call) {
	i.mu.Lock()
	hooks := i.hooks
	i.mu.Unlock()
	for _, hook := range hooks {
		(*hook)(c)
	}
}

// do takes one call through its stations:
//
//	count, hook before, fault before, apply, hook after, fault after
//
// A context that ends before the call is applied prevents it; one that ends after
// loses the answer. Either way the caller sees the context's error.
func (s *Server) do(ctx context.Context, c Call, apply func() error) error {
	if err := ctx.Err(); err != nil {
		return requestError(c, err)
	}
	s.calls.count(c)

	c.Phase = Before
	s.calls.observe(c)
	f := s.calls.match(c)
	if err := s.inject(ctx, c, f); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return requestError(c, err)
	}
	select {
	case <-s.closing:
		return errClosed()
	default:
	}

	err := apply()

	c.Phase, c.Err = After, err
	s.calls.observe(c)
	if err := s.inject(ctx, c, f); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return requestError(c, err)
	}
	return err
}

// requestError wraps err as net/http does: errors.Is sees through it.
func requestError(c Call, err error) error {
	resource, subresource, _ := strings.Cut(c.Resource, "/")
	u := "https://simapi.invalid/apis/networking.k8s.io/v1"
	switch resource {
	case "services":
		u = "https://simapi.invalid/api/v1"
	case "leases":
		u = "https://simapi.invalid/apis/coordination.k8s.io/v1"
	}
	if c.Namespace != "" {
		u += "/namespaces/" + c.Namespace
	}
	u += "/" + resource
	if c.Name != "" {
		u += "/" + c.Name
	}
	if subresource != "" {
		u += "/" + subresource
	}
	return &url.Error{Op: httpVerb(c.Verb), URL: u, Err: err}
}

// httpVerb is the verb as url.Error spells it.
func httpVerb(verb string) string {
	switch verb {
	case "create":
		return "Post"
	case "update":
		return "Put"
	case "patch":
		return "Patch"
	case "delete", "deletecollection":
		return "Delete"
	default:
		return "Get"
	}
}

func errClosed() error {
	return apierrors.NewServiceUnavailable("simapi: the server is closed: call Close after all clients are done")
}
