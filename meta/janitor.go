// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/allocator"
)

// janitor removes the IPAddresses that failed calls left behind. What it does
// not get to, because the process ends, a repair controller collects.
type janitor struct {
	// mu guards what follows.
	mu      sync.Mutex
	waiting []allocator.Stray // until run begins
	queue   workqueue.TypedRateLimitingInterface[allocator.Stray]
}

// add takes a stray. It never blocks.
func (j *janitor) add(s allocator.Stray) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.queue == nil {
		j.waiting = append(j.waiting, s)
		return
	}
	j.queue.Add(s)
}

// run removes strays until ctx is done, with growing pauses after failures.
func (m *MetaAllocator) runJanitor(ctx context.Context) {
	j := &m.janitor
	queue := workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[allocator.Stray](100*time.Millisecond, 30*time.Second),
		workqueue.TypedRateLimitingQueueConfig[allocator.Stray]{Clock: m.config.Clock})
	j.mu.Lock()
	j.queue = queue
	for _, s := range j.waiting {
		queue.Add(s)
	}
	j.waiting = nil
	j.mu.Unlock()

	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	for {
		s, shutdown := queue.Get()
		if shutdown {
			return
		}
		if err := m.pool.Remove(ctx, s); err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "An IPAddress of a failed call is still there; trying again", "name", s.Name, "uid", s.UID)
			}
			queue.AddRateLimited(s)
		} else {
			klog.FromContext(ctx).V(2).Info("Removed an IPAddress of a failed call", "name", s.Name, "uid", s.UID)
			queue.Forget(s)
		}
		queue.Done(s)
	}
}
