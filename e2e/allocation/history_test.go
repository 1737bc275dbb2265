// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/metacidr/metacidr/e2e/history"
)

// deletion returns the event that gave the ServiceCIDR its deletionTimestamp.
func deletion(t *testing.T, h *history.History, name string) history.Event {
	t.Helper()
	for _, e := range h.Events() {
		if e.CIDR != nil && e.CIDR.Name == name && e.CIDR.DeletionTimestamp != nil {
			return e
		}
	}
	t.Fatalf("the history knows of no deletion of ServiceCIDR %s", name)
	return history.Event{}
}

// created returns the creations of IPAddresses.
func created(h *history.History) map[types.UID]history.Event {
	out := map[types.UID]history.Event{}
	for _, e := range h.Events() {
		if e.Address != nil && e.Kind == watch.Added {
			out[e.Address.UID] = e
		}
	}
	return out
}
