// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// timeline is the topologies that a replica's view went through, with the sequence numbers of the
// snapshots that they began with.
//
//	sequence   1      5            9                    14
//	topology   |--T1--|-----T2-----|---------T3---------|----T4---
//	call                    |-- from 7      to 11 --|        => T2, T3
type timeline struct {
	mu    sync.Mutex // guards steps
	steps []step
}

type step struct {
	sequence uint64
	topology *informer.Topology
}

func follow(view *informer.View) *timeline {
	l := &timeline{}
	view.Subscribe(func(d informer.Delta) {
		if d.Topology {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.steps = append(l.steps, step{d.Snapshot.Sequence(), d.Snapshot.Topology()})
		}
	})
	return l
}

// during returns the topologies of the snapshots with sequence numbers from `from` to `to`. Ask when the
// view has gone beyond `to`: it numbers a snapshot a moment before it tells of it.
func (l *timeline) during(from, to uint64) []*informer.Topology {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*informer.Topology
	for i, s := range l.steps {
		if s.sequence > to {
			break
		}
		if i+1 == len(l.steps) || l.steps[i+1].sequence > from {
			out = append(out, s.topology)
		}
	}
	return out
}

// readyFor reports whether the address was usable in a prefix that the topology says is ready.
func readyFor(t *informer.Topology, addr netip.Addr) bool {
	return slices.ContainsFunc(t.Covering(addr), func(p *informer.Prefix) bool { return p.Ready })
}

// bandOf is the band of the maximal prefix that the address is usable in, BandNone if there is no such prefix.
func bandOf(t *informer.Topology, addr netip.Addr) cidr.Band {
	for _, p := range t.Covering(addr) {
		if p.Maximal {
			return p.Range.Band(addr)
		}
	}
	return cidr.BandNone
}
