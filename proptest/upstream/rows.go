// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"github.com/metacidr/metacidr/proptest"
	"github.com/metacidr/metacidr/proptest/upstream/adapter"
)

// row is one property against one combination.
type row struct {
	Property string
	// Controller is whose ServiceCIDR controller acts, Allocator whose allocator.
	Controller, Allocator whose
	// Visible and Careful are those of adapter.Options.
	Visible, Careful bool
}

type whose string

const (
	upstreams  whose = "upstream's"
	references whose = "the reference" // proptest.ReferenceController
	metacidrs  whose = "metacidr's"
)

// seeded are the properties that are no state machine: they do the same each time,
// and nothing makes their stories shorter.
var seeded = [...]string{"Linearizable", "Weighted", "Scan"}

// rows are all there are, in the order of the table; for each that is as upstream is,
// the one with a visible lock is right before it.
func rows() []row {
	var out []row
	for _, p := range proptest.Properties() {
		both := func(r row) {
			r.Property, r.Visible = p.Name, true
			out = append(out, r)
			r.Visible = false
			out = append(out, r)
		}
		both(row{Allocator: upstreams, Controller: references})
		switch p.Name {
		case "Uniqueness", "Linearizable", "Fenced":
			both(row{Allocator: upstreams, Controller: references, Careful: true})
		case "FinalizerSafety":
			both(row{Allocator: upstreams, Controller: upstreams})
			out = append(out, row{Property: p.Name, Allocator: metacidrs, Controller: upstreams, Visible: true})
		}
	}
	return out
}

// subject is what the row is about.
func (r row) subject(onCall func()) (proptest.Factory, []proptest.Option) {
	factory := adapter.Options{Visible: r.Visible, Careful: r.Careful, OnCall: onCall}.New
	if r.Allocator == metacidrs {
		factory = newMeta
	}
	if r.Controller == upstreams {
		return factory, []proptest.Option{proptest.WithController(adapter.NewController)}
	}
	return factory, nil
}

// who says in a few words what the row is about.
func (r row) who() string {
	switch {
	case r.Careful:
		return "with careful releases"
	case r.Allocator == metacidrs:
		return "metacidr's allocator, its controller"
	case r.Controller == upstreams:
		return "with its controller"
	}
	return "its allocator"
}

// asItIs reports that the row is other, but with upstream's mutex as it is.
func (r row) asItIs(other row) bool {
	other.Visible = false
	return r == other
}

// shrinks reports that there may be shorter stories than the first.
func (r row) shrinks() bool { return r.Visible && !slices.Contains(seeded[:], r.Property) }

// longestFirst orders the rows so that two workers end at about the same time.
func longestFirst(a, b row) int {
	cost := func(r row) int {
		if r.shrinks() {
			return 0
		}
		return 1
	}
	return cmp.Compare(cost(a), cost(b))
}
