// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest_test

import (
	"testing"

	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
)

// bare has none of the optional methods.
type bare struct{ proptest.Allocator }

// An allocator with no optional method is tested by all properties, in all but what
// it cannot do.
func TestOptionalMethodsAreOptional(t *testing.T) {
	factory := func(env proptest.Env) (proptest.Allocator, error) {
		a, err := newMeta(env)
		return bare{a}, err
	}
	for _, p := range proptest.Properties() {
		if f := p.Find(t, factory, 2); f != nil {
			t.Error(f)
		}
	}
}

// The properties hold without a freshness lease too, and then for no lease at all.
func TestMeta_VerifyAlwaysNeedsNoLease(t *testing.T) {
	factory := func(env proptest.Env) (proptest.Allocator, error) {
		m, err := meta.New(meta.Config{Client: env.Client, Clock: env.Clock, Random: env.Random, Verification: meta.VerifyAlways})
		return metaAdapter{m}, err
	}
	for _, p := range proptest.Properties() {
		if f := p.Find(t, factory, 4, proptest.WithLease(0)); f != nil {
			t.Error(f)
		}
	}
}
