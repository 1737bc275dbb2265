// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
)

// Mutant is one broken thing.
type Mutant struct {
	// Name is short, in lower case with dashes.
	Name string
	// Broken says what is wrong with it.
	Broken string
	// CaughtBy is the name of the property that must notice.
	CaughtBy string
	// Factory makes the allocator, broken or not.
	Factory proptest.Factory
	// Options bring in a controller, if that is what is broken.
	Options []proptest.Option
}

// All are the mutants, allocators first.
func All() []Mutant {
	return append(allocators(), controllers()...)
}

// Sound is the allocator that the mutants are made of.
func Sound(env proptest.Env) (proptest.Allocator, error) { return newSubject(env, nil) }

// wrapped is a mutant whose methods are wrong.
func wrapped(wrap func(subject, proptest.Env) proptest.Allocator) proptest.Factory {
	return func(env proptest.Env) (proptest.Allocator, error) {
		s, err := newSubject(env, nil)
		return wrap(s, env), err
	}
}

// configured is a mutant whose configuration is wrong.
func configured(change func(*meta.Config)) proptest.Factory {
	return func(env proptest.Env) (proptest.Allocator, error) { return newSubject(env, change) }
}

// misled is a mutant whose client is wrong.
func misled(mislead func(*client)) proptest.Factory {
	return func(env proptest.Env) (proptest.Allocator, error) {
		env.Client = newClient(env.Client, mislead)
		return newSubject(env, nil)
	}
}
