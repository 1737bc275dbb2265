// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/metacidr/metacidr/e2e/history"
)

// record begins a history of the cluster. It ends with the test.
func (c *cluster) record(t *testing.T) *history.History {
	t.Helper()
	return history.Record(t, c.client.NetworkingV1())
}

// all waits until the history has what the server has by now, and returns it.
func all(t *testing.T, h *history.History) []history.Event {
	t.Helper()
	eventually(t, "the history is up to date", h.UpToDate)
	return h.Events()
}

// orphans says of each address that existed at a moment at which no ServiceCIDR made it usable
// (I7), at which revision that began.
func orphans(t *testing.T, h *history.History) map[string]uint64 {
	t.Helper()
	found := map[string]uint64{}
	history.Replay(all(t, h), func(e history.Event, w history.World) {
		if e.Revision == 0 {
			return // the begin is one moment, and this is in the midst of it
		}
		for addr, obj := range w.Addresses {
			if _, known := found[obj.Name]; !known && !w.Covers(addr) {
				found[obj.Name] = e.Revision
			}
		}
	})
	return found
}
