// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"fmt"
	"slices"
	"sort"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// change is one entry of the history of a resource.
type change[T object] struct {
	revision uint64
	kind     watch.EventType // Added, Modified or Deleted
	object   T               // as the change left it, or as it last was
	previous T               // nil for Added
}

// record appends c to the history and sends it to the watches. The caller holds
// the server's lock.
func (st *store[T]) record(c change[T]) {
	st.history = append(st.history, c)
	for w, sel := range st.watches {
		if ev, ok := eventFor(c, sel); ok && c.revision > w.after {
			w.gate.send(w, ev)
		}
	}
}

// eventFor is the event that a watch with a selector sees: an object that starts or
// ceases to match comes or goes.
func eventFor[T object](c change[T], sel selector[T]) (watch.Event, bool) {
	now := c.kind != watch.Deleted && sel.matches(c.object)
	before := c.kind != watch.Added && sel.matches(c.previous)
	switch {
	case now && before:
		return watch.Event{Type: watch.Modified, Object: c.object}, true
	case now:
		return watch.Event{Type: watch.Added, Object: c.object}, true
	case before:
		gone := c.object
		if c.kind != watch.Deleted {
			gone = copyOf(c.previous)
			gone.SetResourceVersion(formatRevision(c.revision))
		}
		return watch.Event{Type: watch.Deleted, Object: gone}, true
	default:
		return watch.Event{}, false
	}
}

// since returns the changes after a revision. The caller holds the server's lock.
func (st *store[T]) since(revision uint64) []change[T] {
	i := sort.Search(len(st.history), func(i int) bool { return st.history[i].revision > revision })
	return st.history[i:]
}

// at returns the objects as they were at a revision that is not compacted, in
// order. The caller holds the server's lock.
func (st *store[T]) at(revision uint64) []T {
	later := st.since(revision)
	if len(later) == 0 {
		items := make([]T, 0, len(st.objects))
		for _, k := range st.keys() {
			items = append(items, st.objects[k])
		}
		return items
	}
	undone := make(map[key]change[T], len(later)) // the first later change of each
	for _, c := range slices.Backward(later) {
		undone[keyOf(c.object)] = c
	}
	var items []T
	for k, obj := range st.objects {
		if _, touched := undone[k]; !touched {
			items = append(items, obj)
		}
	}
	for _, c := range undone {
		if c.kind != watch.Added {
			items = append(items, c.previous)
		}
	}
	slices.SortFunc(items, func(a, b T) int { return compareKeys(keyOf(a), keyOf(b)) })
	return items
}

// notOlderThan reads a resourceVersion ("" and "0" are 0) and refuses one that the
// server has not reached. The caller holds s.mu.
func (s *Server) notOlderThan(resourceVersion string) (uint64, error) {
	rev, err := parseRevision(resourceVersion)
	if err != nil {
		return 0, err
	}
	if rev > s.revision {
		tooLarge := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", rev, s.revision), 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type:    metav1.CauseTypeResourceVersionTooLarge,
			Message: "Too large resource version",
		}}
		return 0, tooLarge
	}
	return rev, nil
}

// notCompacted refuses a revision whose changes are forgotten. The caller holds s.mu.
func (s *Server) notCompacted(revision uint64) *apierrors.StatusError {
	if revision < s.compacted {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, s.compacted))
	}
	return nil
}

func parseRevision(resourceVersion string) (uint64, error) {
	if resourceVersion == "" {
		return 0, nil
	}
	rev, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q: a resourceVersion comes from a list, an object or a bookmark of this server", resourceVersion))
	}
	return rev, nil
}
