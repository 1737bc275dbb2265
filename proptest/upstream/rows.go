// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/metacidr/metacidr/proptest"
	"github.com/metacidr/metacidr/proptest/upstream/adapter"
)

// row is one property against one combination.
type row struct {
	Property string
	// Controller is whose ServiceCIDR controller acts, Allocator whose allocator.
	Controller, Allocator string
	// Visible is adapter.Options.Visible.
	Visible bool
}

// Whose it is.
const (
	upstreams = "upstream"
	reference = "reference" // proptest.ReferenceController
	metacidrs = "metacidr"
)

// rows are all there are, those that take long first.
func rows() []row {
	var out []row
	for _, visible := range []bool{true, false} {
		for _, p := range proptest.Properties() {
			out = append(out, row{Property: p.Name, Allocator: upstreams, Controller: reference, Visible: visible})
			if p.Name == "FinalizerSafety" {
				out = append(out, row{Property: p.Name, Allocator: upstreams, Controller: upstreams, Visible: visible})
				if visible {
					out = append(out, row{Property: p.Name, Allocator: metacidrs, Controller: upstreams, Visible: visible})
				}
			}
		}
	}
	return out
}

// subject is what the row is about.
func (r row) subject(onCall func()) (proptest.Factory, []proptest.Option) {
	factory := adapter.Options{Visible: r.Visible, OnCall: onCall}.New
	if r.Allocator == metacidrs {
		factory = newMeta
	}
	if r.Controller == upstreams {
		return factory, []proptest.Option{proptest.WithController(adapter.NewController)}
	}
	return factory, nil
}
