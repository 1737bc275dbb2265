// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/proptest"
)

// controllers are ServiceCIDR controllers that are broken, each beside the sound
// allocator.
func controllers() []Mutant {
	var out []Mutant
	for _, c := range []struct {
		name, broken string
		mislead      func(*client)
		rush         time.Duration
	}{
		{name: "controller-no-grace", broken: "it removes the finalizer at once, not a grace period after the deletion", rush: time.Hour},
		{name: "controller-terminating-covers", broken: "it takes a terminating ServiceCIDR for cover: two of them vouch for each other",
			mislead: func(c *client) {
				c.listed = func(obj *networkingv1.ServiceCIDR, read string) {
					if obj.Name != read {
						obj.DeletionTimestamp = nil
					}
				}
			}},
		{name: "controller-blind", broken: "it does not look for addresses",
			mislead: func(c *client) {
				c.addresses = func(list *networkingv1.IPAddressList) { list.Items = nil }
			}},
		{name: "controller-stale-list", broken: "it decides by the list of addresses that it made the time before",
			mislead: func(c *client) {
				var before []networkingv1.IPAddress
				c.addresses = func(list *networkingv1.IPAddressList) { list.Items, before = before, list.Items }
			}},
	} {
		out = append(out, Mutant{Name: c.name, Broken: c.broken, CaughtBy: "FinalizerSafety", Factory: Sound, Options: []proptest.Option{
			proptest.WithController(func(env proptest.Env) (proptest.Controller, error) {
				if c.mislead != nil {
					env.Client = newClient(env.Client, c.mislead)
				}
				if c.rush > 0 {
					env.Clock = rushed{env.Clock, c.rush}
				}
				return proptest.ReferenceController(env)
			}),
		}})
	}
	return out
}

// rushed is a clock that is ahead.
type rushed struct {
	clock.WithTickerAndDelayedExecution
	ahead time.Duration
}

func (r rushed) Now() time.Time                  { return r.WithTickerAndDelayedExecution.Now().Add(r.ahead) }
func (r rushed) Since(t time.Time) time.Duration { return r.Now().Sub(t) }
