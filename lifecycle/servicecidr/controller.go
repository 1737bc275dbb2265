// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/informer"
)

// recheck is how soon a ServiceCIDR is looked at again whose blockers a
// consistent list shows and the view does not.
const recheck = 5 * time.Second

// Controller keeps all ServiceCIDRs of a cluster. It is safe for concurrent use.
type Controller struct {
	config  Config
	view    *informer.View
	ownView bool
	plan    *schedule
	running atomic.Bool

	syncs, failures, released atomic.Uint64

	mu   sync.Mutex // guards seen; never held across an API call
	seen map[string]sighting
}

// sighting is what this process remembers of a terminating ServiceCIDR.
type sighting struct {
	uid types.UID
	// since is when the deletionTimestamp was first seen, by this process's clock.
	since time.Time
	// told is the reason of the last event.
	told string
}

// New prepares a controller. Errors wrap ErrInvalidConfig.
func New(config Config) (*Controller, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c := &Controller{config: config, view: config.View, plan: newSchedule(config.Clock), seen: make(map[string]sighting)}
	if c.view == nil {
		view, err := informer.NewView(informer.Config{Client: config.Client, Managers: config.Managers})
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
		}
		c.view, c.ownView = view, true
	}
	return c, nil
}

// Run works until ctx is done. It blocks, may be called once, and leaves no
// goroutine behind.
func (c *Controller) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return errors.New("the controller runs already, or has run: create a new one")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.ownView {
		wg.Go(func() {
			if err := c.view.Run(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "The view ended")
			}
		})
	}
	queue := c.plan.open()
	defer queue.ShutDown()
	stop := context.AfterFunc(ctx, queue.ShutDown)
	defer stop()
	unsubscribe := c.view.Subscribe(c.observe)
	defer unsubscribe()
	select {
	case <-c.view.Synced():
	case <-ctx.Done():
		return nil
	}
	for range c.config.Workers {
		wg.Go(func() {
			for c.work(ctx) {
			}
		})
	}
	<-ctx.Done()
	return nil
}

// work does one entry of the schedule; false when there will be no more.
func (c *Controller) work(ctx context.Context) bool {
	name, ok := c.plan.next()
	if !ok {
		return false
	}
	defer c.plan.done(name)
	after, err := c.Sync(ctx, name)
	if err == nil {
		c.plan.succeeded(name, after)
		return true
	}
	if ctx.Err() == nil {
		pause := c.plan.failed(name, err)
		klog.FromContext(ctx).Error(err, "A ServiceCIDR could not be brought up to date; trying again", "servicecidr", name, "after", pause)
	}
	return true
}

// observe plans what a change of the view asks for. It runs within the view's
// batch and must be short.
func (c *Controller) observe(d informer.Delta) {
	if d.Topology {
		terminating := false
		for row := range d.Snapshot.ServiceCIDRs() {
			terminating = terminating || row.Terminating
			if row.Terminating || !row.HasFinalizer || !living(row).shownBy(row) {
				c.plan.add(row.Name)
			}
		}
		c.plan.watchAddresses(terminating)
	}
	if !c.plan.watchesAddresses() {
		return
	}
	for _, rows := range [][]*informer.IPAddress{d.Appeared, d.Vanished} {
		for _, row := range rows {
			for _, p := range d.Snapshot.Topology().Covering(row.Addr) {
				for _, m := range p.Members {
					if m.Terminating {
						c.plan.add(m.Name)
					}
				}
			}
		}
	}
}

// Sync brings one ServiceCIDR up to date and says after how long it wants to be
// called again though nothing changes; 0 means never. It may be called for any
// name, at any time, and by several replicas at once. It fails with ErrNotSynced,
// or an error of the API server; what it had done by then stays and is not done
// again.
func (c *Controller) Sync(ctx context.Context, name string) (after time.Duration, err error) {
	c.syncs.Add(1)
	if !c.view.HasSynced() {
		return 0, ErrNotSynced
	}
	snapshot := c.view.Snapshot()
	row := snapshot.ServiceCIDR(name)
	switch {
	case row == nil:
		c.forget(name)
	case row.Terminating:
		after, err = c.release(ctx, snapshot, row)
	case !row.HasFinalizer || !living(row).shownBy(row):
		after, err = c.keep(ctx, snapshot, row)
	}
	if apierrors.IsNotFound(err) {
		return 0, nil // gone while we looked
	}
	if err != nil {
		c.failures.Add(1)
	}
	return after, err
}

// keep gives a ServiceCIDR its finalizer, and then says that it is ready.
func (c *Controller) keep(ctx context.Context, snapshot *informer.Snapshot, row *informer.ServiceCIDR) (time.Duration, error) {
	obj, err := c.config.Client.ServiceCIDRs().Get(ctx, row.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading ServiceCIDR %s: %w", row.Name, err)
	}
	if obj.DeletionTimestamp != nil {
		return c.release(ctx, snapshot, informer.NewServiceCIDR(obj))
	}
	if !slices.Contains(obj.Finalizers, informer.Finalizer) {
		if obj, err = c.patchFinalizer(ctx, obj.Name, obj.UID, "", true); err != nil {
			return 0, err
		}
	}
	if err := c.show(ctx, obj, living(informer.NewServiceCIDR(obj))); err != nil {
		c.event(obj, corev1.EventTypeWarning, EventError, "Ready could not be set: %v", err)
		return 0, err
	}
	return 0, nil
}

// release lets a terminating ServiceCIDR go as soon as nothing depends on it.
func (c *Controller) release(ctx context.Context, snapshot *informer.Snapshot, row *informer.ServiceCIDR) (time.Duration, error) {
	since := c.sighted(row)
	if !row.HasFinalizer {
		return 0, nil // it is not ours to hold: others' finalizers keep it
	}
	report := blockersInView(snapshot, row, nil)
	if report.Blocked() {
		return 0, c.showRow(ctx, row, blocked(report))
	}
	if rest := c.config.GracePeriod - c.config.Clock.Since(since); rest > 0 {
		return rest, c.showRow(ctx, row, leaving(report, c.config.GracePeriod))
	}
	found, err := readLive(ctx, c.config.Client, c.view.Managers(), c.config.PageSize, row.Name, nil)
	switch {
	case err != nil:
		return 0, fmt.Errorf("whether ServiceCIDR %s may go: %w", row.Name, err)
	case found.row == nil:
		c.forget(row.Name)
		return 0, nil
	case found.row.UID != row.UID || !found.row.Terminating || !found.row.HasFinalizer:
		return minInterval, nil // another one of the name, or released already: the view will show it
	case found.report.Blocked():
		return recheck, c.showRow(ctx, row, blocked(found.report))
	}
	obj, err := c.patchFinalizer(ctx, row.Name, row.UID, found.row.ResourceVersion, false)
	if err != nil {
		return 0, err
	}
	c.released.Add(1)
	klog.FromContext(ctx).Info("Removed the finalizer of a ServiceCIDR", "servicecidr", row.Name, "uid", row.UID, "unmanaged", found.report.Unmanaged)
	c.event(obj, corev1.EventTypeNormal, EventReleased, "Nothing depends on it any more: %s", found.report)
	c.forget(row.Name)
	return 0, nil
}

// showRow is show for a row of the view, which may be old.
func (c *Controller) showRow(ctx context.Context, row *informer.ServiceCIDR, v verdict) error {
	if v.shownBy(row) {
		return nil
	}
	obj, err := c.config.Client.ServiceCIDRs().Get(ctx, row.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading ServiceCIDR %s: %w", row.Name, err)
	}
	if obj.UID != row.UID {
		return nil // made anew: the view will show it
	}
	if err := c.show(ctx, obj, v); err != nil {
		c.event(obj, corev1.EventTypeWarning, EventError, "Ready could not be set: %v", err)
		return err
	}
	if c.isNews(row, v) {
		c.event(obj, corev1.EventTypeNormal, v.event, "%s", v.message)
	}
	return nil
}

// patchFinalizer adds or removes the one entry that is ours. The UID, and the
// resourceVersion if not empty, are preconditions.
func (c *Controller) patchFinalizer(ctx context.Context, name string, uid types.UID, resourceVersion string, add bool) (*networkingv1.ServiceCIDR, error) {
	metadata := map[string]any{"uid": uid}
	if resourceVersion != "" {
		metadata["resourceVersion"] = resourceVersion
	}
	field, doing := "finalizers", "adding the finalizer to"
	if !add {
		field, doing = "$deleteFromPrimitiveList/finalizers", "removing the finalizer from"
	}
	metadata[field] = []string{informer.Finalizer}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("%s ServiceCIDR %s: %w", doing, name, err)
	}
	obj, err := c.config.Client.ServiceCIDRs().Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{FieldManager: c.config.FieldManager})
	if err != nil {
		return nil, fmt.Errorf("%s ServiceCIDR %s: %w", doing, name, err)
	}
	return obj, nil
}

// sighted is since when this process knows that the ServiceCIDR is terminating.
func (c *Controller) sighted(row *informer.ServiceCIDR) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[row.Name]
	if !ok || s.uid != row.UID {
		s = sighting{uid: row.UID, since: c.config.Clock.Now()}
		c.seen[row.Name] = s
	}
	return s.since
}

// isNews remembers the event of a verdict, and reports whether the last one was
// another. The numbers in it may change every second: that is no news.
func (c *Controller) isNews(row *informer.ServiceCIDR, v verdict) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seen[row.Name]
	if s.told == v.event {
		return false
	}
	s.told = v.event
	c.seen[row.Name] = s
	return true
}

func (c *Controller) forget(name string) {
	c.plan.forget(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, name)
}
