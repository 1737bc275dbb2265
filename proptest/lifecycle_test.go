// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest_test

import (
	"testing"

	"github.com/metacidr/metacidr/lifecycle/servicecidr"
	"github.com/metacidr/metacidr/proptest"
)

// I7 for our allocator beside our controller, instead of the reference one. For
// more cases: proptest.FinalizerSafety(t, newMeta, proptest.WithController(...)).
func TestI7_MetaBesideTheServiceCIDRController(t *testing.T) {
	controller := func(env proptest.Env) (proptest.Controller, error) {
		return servicecidr.New(servicecidr.Config{Client: env.Client, Clock: env.Clock})
	}
	if f := proptest.ByName("FinalizerSafety").Find(t, newMeta, 25, proptest.WithController(controller)); f != nil {
		t.Fatal(f)
	}
}
