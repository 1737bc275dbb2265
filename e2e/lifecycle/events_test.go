// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// noteLimit is how many bytes kube-apiserver takes in the note of an event; it refuses a longer one.
const noteLimit = 1024

// TestLongNames deletes a ServiceCIDR under addresses whose owners have names as long as names may be. The condition
// has room for them all; the event has not, and is there all the same.
func TestLongNames(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "")
	runOurs(t, c)
	m := c.runAllocator(t)
	c.create(t, "crowd", []string{"10.130.0.0/24"})
	c.waitReady(t, "crowd")
	for i := range servicecidr.MaxNamed + 2 {
		owner := widget(fmt.Sprintf("%s%d", strings.Repeat("x", 252), i))
		c.allocate(t, m, owner, fmt.Sprintf("10.130.0.%d", 20+i))
	}
	c.delete(t, "crowd")

	obj := c.waitBlocked(t, "crowd", fmt.Sprintf("%d addresses block the deletion", servicecidr.MaxNamed+2), "and 2 more")
	if message := readyOf(obj).Message; len(message) <= noteLimit {
		t.Fatalf("the message has %d bytes; the test needs more than %d", len(message), noteLimit)
	}
	event := c.waitEvent(t, "ServiceCIDR", "crowd", servicecidr.EventBlocked)
	if len(event.Note) > noteLimit || !strings.Contains(event.Note, "10.130.0.20") {
		t.Errorf("the note of %d bytes is %q; want the first address in it", len(event.Note), event.Note)
	}
}
