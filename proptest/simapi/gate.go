// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/watch"
)

// gate is what stands between the server and the watches of one replica: open, or
// held with the events lined up in the order in which they happened, whatever
// their resource.
//
//	change -> gate -+- open --------------------> stream -> reader
//	                +- held -> pending -Deliver-> stream -> reader
//
// Guarded by server.mu.
type gate struct {
	held    bool
	pending []delivery
	streams map[*stream]struct{}
}

type delivery struct {
	to    *stream
	event watch.Event
}

// gate returns that of a replica. The caller holds s.mu.
func (s *Server) gate(replica string) *gate {
	g := s.gates[replica]
	if g == nil {
		g = &gate{streams: make(map[*stream]struct{})}
		s.gates[replica] = g
	}
	return g
}

func (g *gate) send(w *stream, ev watch.Event) {
	if g.held {
		g.pending = append(g.pending, delivery{w, ev})
		return
	}
	w.push(ev)
}

// deliver lets the first n pending events of a resource ("" for any) through; a
// negative n means all.
func (g *gate) deliver(resource string, n int) int {
	delivered := 0
	g.pending = slices.DeleteFunc(g.pending, func(d delivery) bool {
		if n >= 0 && delivered == n || resource != "" && d.to.resource != resource {
			return false
		}
		d.to.push(d.event)
		delivered++
		return true
	})
	return delivered
}

// drop forgets a stream and what is pending for it.
func (g *gate) drop(w *stream) {
	delete(g.streams, w)
	g.pending = slices.DeleteFunc(g.pending, func(d delivery) bool { return d.to == w })
}

// Hold makes the events for the replica's watches, present and future, wait for
// Deliver or Release: the replica's caches go stale. Initial events and bookmarks
// wait too, so an informer started now does not sync.
func (s *Server) Hold(replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate(replica).held = true
}

// Deliver lets the first n held events of the replica through, over all its watches
// in the order in which they happened, and returns how many there were. A negative
// n means all. The replica stays held. Delivered means on the way: the reader
// takes them from its channel in its own time.
func (s *Server) Deliver(replica string, n int) int {
	return s.DeliverResource(replica, "", n)
}

// DeliverResource is Deliver for the watches of one resource ("ipaddresses"): one
// cache moves on while another stays stale.
func (s *Server) DeliverResource(replica, resource string, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gate(replica).deliver(resource, n)
}

// Release delivers all held events of the replica, and holds no more.
func (s *Server) Release(replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(replica)
	g.deliver("", -1)
	g.held = false
}

// Pending returns how many events are held for the replica.
func (s *Server) Pending(replica string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.gate(replica).pending)
}

// Watches returns how many watches the replica has open.
func (s *Server) Watches(replica string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.gate(replica).streams)
}

// CutWatches ends the replica's watches, as a lost connection does: what was not
// delivered is lost to them. New watches may be opened at once.
func (s *Server) CutWatches(replica string) {
	s.mu.Lock()
	var open []*stream
	for w := range s.gate(replica).streams {
		open = append(open, w)
	}
	s.mu.Unlock()
	for _, w := range open {
		w.Stop()
	}
}

// Bookmark sends a bookmark of the present revision to the replica's watches that
// allow them.
func (s *Server) Bookmark(replica string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(replica)
	for w := range g.streams {
		if w.bookmark != nil {
			g.send(w, w.bookmark(s.revision))
		}
	}
}
