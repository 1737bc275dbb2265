// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/meta"
)

// grant is one address that somebody was told is his.
type grant struct {
	address netip.Addr
	owner   meta.Owner

	// by is the replica that said so, nil for kube-apiserver's allocator, of whose grants the rest is not known.
	by       *replica
	fixed    bool      // it was asked for
	uid      types.UID // of the IPAddress
	revision uint64    // of its creation
	from, to uint64    // sequence numbers of the replica's view, before and after the call
}

// ledger is who was told what. A grant enters it after the answer, and leaves it before its release is
// sent, so at no time may two grants be for one address.
type ledger struct {
	mu     sync.Mutex // guards what follows
	held   map[netip.Addr]grant
	all    []grant // ever
	peak   int     // the most held at one time
	faults []string
}

func newLedger() *ledger { return &ledger{held: map[netip.Addr]grant{}} }

// enter takes a grant that was answered just now.
func (l *ledger) enter(g grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if other, ok := l.held[g.address]; ok {
		l.faults = append(l.faults, fmt.Sprintf("I1: %s was granted to %s while %s has it", g.address, g.owner, other.owner))
	}
	l.held[g.address] = g
	l.all = append(l.all, g)
	l.peak = max(l.peak, len(l.held))
}

// leave takes a grant out whose release is about to be sent.
func (l *ledger) leave(g grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[g.address].owner == g.owner {
		delete(l.held, g.address)
	}
}

// fault notes what must not be.
func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// state returns copies of the grants that are held and of all that ever were.
func (l *ledger) state() (held map[netip.Addr]grant, all []grant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.held), append([]grant(nil), l.all...)
}

// count returns how many addresses are held now, and the most that ever were.
func (l *ledger) count() (now, peak int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held), l.peak
}

// maxFaults bounds what a test says of one kind of fault.
const maxFaults = 10

// report fails the test for each fault.
func (l *ledger) report(t interface {
	Helper()
	Errorf(string, ...any)
}) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, fault := range l.faults {
		if i == maxFaults {
			t.Errorf("and %d more faults", len(l.faults)-maxFaults)
			return
		}
		t.Errorf("%s", fault)
	}
}

// allocationsOf makes grants of what an Allocate returned.
func allocationsOf(r *replica, request meta.Request, from uint64, allocations []meta.Allocation) []grant {
	to := r.View().Snapshot().Sequence()
	grants := make([]grant, len(allocations))
	for i, a := range allocations {
		grants[i] = grant{address: a.Address, owner: a.Owner, by: r, uid: a.UID, revision: revision(a.ResourceVersion), from: from, to: to}
		for _, fixed := range request.Addresses {
			grants[i].fixed = grants[i].fixed || fixed == a.Address
		}
	}
	return grants
}

// revision is etcd's, which a resourceVersion of kube-apiserver is.
func revision(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		panic("resourceVersion is no revision: " + resourceVersion)
	}
	return n
}
