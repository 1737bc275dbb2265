// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// The reference controller: a finalizer at first sight; after the grace period it
// goes, unless a managed address is usable here and in no other that stays.
func TestReferenceController(t *testing.T) {
	for _, c := range []struct {
		name    string
		manager string   // of 10.0.0.5; "" means nobody manages it
		others  []string // ServiceCIDRs
		deleted bool     // they too
		goes    bool
	}{
		{name: "managed, no other", manager: "someone", goes: false},
		{name: "not managed", manager: "", goes: true},
		{name: "another covers it", manager: "someone", others: []string{"10.0.0.0/16"}, goes: true},
		{name: "another has it as broadcast address", manager: "someone", others: []string{"10.0.0.4/31"}, goes: false},
		{name: "another that is deleted too", manager: "someone", others: []string{"10.0.0.0/24"}, deleted: true, goes: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := simapi.New(simapi.WithClock(clock.RealClock{}))
				defer server.Close()
				controller, err := ReferenceController(Env{Client: server.Client("controller"), Clock: newSkewedClock(0, 1)})
				if err != nil {
					t.Fatal(err)
				}
				sync := func() time.Duration {
					after, err := controller.Sync(t.Context(), "a")
					if err != nil {
						t.Fatal(err)
					}
					return after
				}
				server.CreateServiceCIDR("a", "", "10.0.0.0/24")
				sync()
				if !informer.NewServiceCIDR(&server.TrueServiceCIDRs()[0]).HasFinalizer {
					t.Fatal("it has no finalizer")
				}
				obj := ipAddress(cidr.MustParse("10.0.0.0/24").Usable().At(cidr.U128(uint(4))), informer.ServiceOwner("default", "mine"))
				if c.manager != "" {
					obj.Labels = map[string]string{informer.LabelManagedBy: c.manager}
				}
				server.PutRaw(obj)
				names := []string{"a"}
				for i, o := range c.others {
					name := string(rune('b' + i))
					server.CreateServiceCIDR(name, "", o)
					server.AddFinalizer(name, informer.Finalizer)
					if c.deleted {
						names = append(names, name)
					}
				}
				for _, name := range names {
					if err := server.Client("admin").ServiceCIDRs().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if after := sync(); after != DefaultGrace {
					t.Errorf("it wants to look again after %v", after)
				}
				time.Sleep(DefaultGrace)
				sync()
				if gone := len(server.TrueServiceCIDRs()) == len(c.others); gone != c.goes {
					t.Errorf("gone: %v", gone)
				}
				sync() // that it is gone is no error
			})
		})
	}
}
