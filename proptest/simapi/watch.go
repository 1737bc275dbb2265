// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// watch opens a stream. Where it starts:
//
//	SendInitialEvents      the present objects as ADDED, a bookmark, then changes
//	resourceVersion "", 0  the present objects as ADDED, then changes
//	resourceVersion N      changes after N; 410 as an ERROR event if compacted
func (st *store[T]) watch(ctx context.Context, replica, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	sel, err := st.kind.parseListOptions(opts)
	if err != nil {
		return nil, err
	}
	from, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	if namespace != "" {
		sel.fields = fields.AndSelectors(sel.fields, fields.OneTermEqualSelector("metadata.namespace", namespace))
	}

	s := st.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	initial := ptr.Deref(opts.SendInitialEvents, from == 0)
	if initial && from > 0 {
		if _, err := s.notOlderThan(opts.ResourceVersion); err != nil {
			return nil, err
		}
	}

	w := newStream(s, s.gate(replica), st.kind.resource.Resource)
	if opts.AllowWatchBookmarks {
		w.bookmark = func(revision uint64) watch.Event { return st.bookmark(revision, false) }
	}
	w.forget = func() { delete(st.watches, w) }
	switch {
	case initial:
		w.after = s.revision
		for _, obj := range st.at(s.revision) {
			if sel.matches(obj) {
				w.gate.send(w, watch.Event{Type: watch.Added, Object: obj})
			}
		}
		if opts.SendInitialEvents != nil && opts.AllowWatchBookmarks {
			w.gate.send(w, st.bookmark(s.revision, true))
		}
	case from == 0: // from now on, without the present
		w.after = s.revision
	default:
		if err := s.notCompacted(from); err != nil {
			// Like a real server: the request succeeds, the stream says why it ends.
			w.push(watch.Event{Type: watch.Error, Object: statusOf(err)})
			w.finish()
			break
		}
		w.after = from
		for _, c := range st.since(from) {
			if ev, ok := eventFor(c, sel); ok {
				w.gate.send(w, ev)
			}
		}
	}
	st.watches[w] = sel
	w.gate.streams[w] = struct{}{}
	s.pumps.Add(1)
	go w.pump()
	stop := context.AfterFunc(ctx, w.Stop)
	w.release = func() { stop() }
	return w, nil
}

func (st *store[T]) bookmark(revision uint64, endOfInitial bool) watch.Event {
	obj := st.kind.new()
	obj.SetResourceVersion(formatRevision(revision))
	if endOfInitial {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	return watch.Event{Type: watch.Bookmark, Object: obj}
}

func statusOf(err error) runtime.Object {
	status := err.(apierrors.APIStatus).Status()
	return &status
}

// stream is one open watch: a queue without bound, so that no writer waits for a
// reader, and a goroutine that feeds the reader from it.
type stream struct {
	server   *Server
	gate     *gate
	resource string
	after    uint64                   // changes up to this revision are not for it
	bookmark func(uint64) watch.Event // nil: the reader wants none
	forget   func()                   // leaves the store; under server.mu
	release  func()                   // lets go of the context
	result   chan watch.Event
	done     chan struct{} // closed by Stop
	stopOne  sync.Once

	mu       sync.Mutex // guards the rest; taken after server.mu, never before it
	queue    []watch.Event
	finished bool          // ends when the queue is empty
	wake     chan struct{} // of capacity 1: the queue or finished has changed
}

func newStream(s *Server, g *gate, resource string) *stream {
	return &stream{
		server:   s,
		gate:     g,
		resource: resource,
		result:   make(chan watch.Event),
		done:     make(chan struct{}),
		wake:     make(chan struct{}, 1),
	}
}

// ResultChan implements watch.Interface. It is closed when the watch has ended.
func (w *stream) ResultChan() <-chan watch.Event { return w.result }

// Stop implements watch.Interface. What was not yet delivered is lost.
func (w *stream) Stop() {
	w.stopOne.Do(func() {
		close(w.done)
		w.server.mu.Lock()
		release := w.release
		w.forget()
		w.gate.drop(w)
		w.server.mu.Unlock()
		if release != nil {
			release()
		}
	})
}

// push queues an event for the reader.
func (w *stream) push(ev watch.Event) {
	w.mu.Lock()
	w.queue = append(w.queue, ev)
	w.mu.Unlock()
	w.signal()
}

// finish ends the watch once the reader has what is queued.
func (w *stream) finish() {
	w.mu.Lock()
	w.finished = true
	w.mu.Unlock()
	w.signal()
}

func (w *stream) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// pump hands the queued events to the reader, a copy of each.
func (w *stream) pump() {
	defer w.server.pumps.Done()
	defer close(w.result)
	defer w.Stop()
	for {
		w.mu.Lock()
		batch, finished := w.queue, w.finished
		w.queue = nil
		w.mu.Unlock()
		for _, ev := range batch {
			ev.Object = ev.Object.DeepCopyObject()
			select {
			case w.result <- ev:
			case <-w.done:
				return
			}
		}
		if len(batch) > 0 {
			continue
		}
		if finished {
			return
		}
		select {
		case <-w.wake:
		case <-w.done:
			return
		}
	}
}
