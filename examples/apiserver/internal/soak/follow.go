// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
)

// maxFailures is how often in a row a watch may fail before the history counts as lost.
const maxFailures = 600

// follower reads every change of every Service into a ledger. All replicas tell of the same revisions, so when one is
// gone another goes on where it ended.
type follower struct {
	replicas []kubernetes.Interface
	ledger   *audit.Ledger // of the goroutine of run
	// revision is the last one that was seen.
	revision atomic.Uint64
}

// begin reads what is there.
func (f *follower) begin(ctx context.Context) error {
	list, err := f.replicas[0].CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("begin the history of Services: %w", err)
	}
	for i := range list.Items {
		f.ledger.Put(&list.Items[i])
	}
	return f.seen(list.ResourceVersion)
}

// run follows until ctx ends. An error means that changes may have been missed.
func (f *follower) run(ctx context.Context) error {
	var last error
	for failures := 0; failures < maxFailures; failures++ {
		before := f.revision.Load()
		last = f.watch(ctx, f.replicas[failures%len(f.replicas)])
		if ctx.Err() != nil {
			return nil
		}
		if f.revision.Load() != before {
			failures = 0
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
	return fmt.Errorf("the history of Services was lost at revision %d: %w", f.revision.Load(), last)
}

// watch follows at one replica, as long as that goes.
func (f *follower) watch(ctx context.Context, c kubernetes.Interface) error {
	w, err := c.CoreV1().Services(metav1.NamespaceAll).Watch(ctx, metav1.ListOptions{
		ResourceVersion:     strconv.FormatUint(f.revision.Load(), 10),
		AllowWatchBookmarks: true,
	})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			return apierrors.FromObject(e.Object)
		}
		svc, ok := e.Object.(*corev1.Service)
		if !ok {
			return fmt.Errorf("the watch sent a %T", e.Object)
		}
		switch e.Type {
		case watch.Added, watch.Modified:
			f.ledger.Put(svc)
		case watch.Deleted:
			f.ledger.Gone(svc)
		}
		if err := f.seen(svc.ResourceVersion); err != nil {
			return err
		}
	}
	return errors.New("the watch ended")
}

func (f *follower) seen(resourceVersion string) error {
	revision, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return fmt.Errorf("resourceVersion %q is not one of etcd's: %w", resourceVersion, err)
	}
	f.revision.Store(revision)
	return nil
}

// reached reports whether everything up to the present was seen: every Service's last change.
func (f *follower) reached(ctx context.Context) (bool, error) {
	list, err := f.replicas[0].CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, err
	}
	var latest uint64
	for i := range list.Items {
		revision, err := strconv.ParseUint(list.Items[i].ResourceVersion, 10, 64)
		if err != nil {
			return false, err
		}
		latest = max(latest, revision)
	}
	return f.revision.Load() >= latest, nil
}
