// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/informer"
)

// lease remembers which ServiceCIDRs a consistent read has shown to stay, and
// when that read began.
//
//	     read begins       answer            lease ends
//	-----|-----------------|-----------------|---------> this clock
//	     |<--------------- lease ----------->|
//	     a create that is *answered* before the lease ends precedes any
//	     deletion by less than the controller's grace period
type lease struct {
	duration time.Duration

	mu        sync.Mutex // guards confirmed; never held across an API call
	confirmed map[string]confirmation
}

type confirmation struct {
	uid   types.UID
	since time.Time
}

// holds reports whether the ServiceCIDR was confirmed less than a lease ago.
func (l *lease) holds(row *informer.ServiceCIDR, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, ok := l.confirmed[row.Name]
	return ok && c.uid == row.UID && now.Sub(c.since) < l.duration
}

func (l *lease) confirm(row *informer.ServiceCIDR, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c, ok := l.confirmed[row.Name]; !ok || c.uid != row.UID || c.since.Before(since) {
		l.confirmed[row.Name] = confirmation{uid: row.UID, since: since}
	}
}

func (l *lease) deny(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.confirmed, name)
}

func (l *lease) replace(confirmed map[string]confirmation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed = confirmed
}

// renew confirms all ServiceCIDRs with one consistent list.
func (m *MetaAllocator) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.lease.duration)
	defer cancel()
	since := m.config.Clock.Now()
	// No resourceVersion: the answer is not older than the request.
	list, err := m.config.Client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing ServiceCIDRs for the freshness lease: %w", err)
	}
	confirmed := make(map[string]confirmation, len(list.Items))
	for i := range list.Items {
		row := informer.NewServiceCIDR(&list.Items[i])
		if row.WhyNot(m.strict()) == "" {
			confirmed[row.Name] = confirmation{uid: row.UID, since: since}
		}
	}
	m.lease.replace(confirmed)
	return nil
}

// keepLease renews the lease twice in its time until ctx is done.
func (m *MetaAllocator) keepLease(ctx context.Context) {
	ticker := m.config.Clock.NewTicker(m.lease.duration / 2)
	defer ticker.Stop()
	for {
		if err := m.renew(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Addresses are verified one by one until the next try")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// strict reports whether a ServiceCIDR must bear the finalizer.
func (m *MetaAllocator) strict() bool { return !m.config.AllowWithoutFinalizer }

// verify confirms that a ServiceCIDR which stays covers an address whose
// IPAddress was just created. Otherwise allocator.ErrNotCovered, or the API
// server's error.
func (m *MetaAllocator) verify(ctx context.Context, addr netip.Addr) error {
	if m.config.Verification == VerifyNever {
		return nil
	}
	candidates := m.candidates(addr)
	if m.config.Verification == VerifyStale {
		now := m.config.Clock.Now() // after the create was answered
		for _, row := range candidates {
			if m.lease.holds(row, now) {
				return nil
			}
		}
	}
	why := errors.New("it was ready when the address was picked and is not any more")
	for _, row := range candidates {
		err := m.readCover(ctx, row.Name, addr)
		if err == nil || !errors.Is(err, allocator.ErrNotCovered) {
			return err
		}
		why = err
	}
	if !errors.Is(why, allocator.ErrNotCovered) {
		why = fmt.Errorf("%w: %w", allocator.ErrNotCovered, why)
	}
	return why
}

// candidates are the ServiceCIDRs that, by the view, cover the address and are
// ready.
func (m *MetaAllocator) candidates(addr netip.Addr) []*informer.ServiceCIDR {
	var out []*informer.ServiceCIDR
	for _, p := range m.view.Snapshot().Topology().Covering(addr) {
		for _, row := range p.Members {
			if row.WhyNot(m.strict()) == "" {
				out = append(out, row)
			}
		}
	}
	return out
}

// readCover reads one ServiceCIDR and judges it.
func (m *MetaAllocator) readCover(ctx context.Context, name string, addr netip.Addr) error {
	since := m.config.Clock.Now()
	obj, err := m.config.Client.ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		m.lease.deny(name)
		return fmt.Errorf("%w: ServiceCIDR %s is gone", allocator.ErrNotCovered, name)
	case err != nil:
		return fmt.Errorf("verifying that ServiceCIDR %s covers %s: %w", name, addr, err)
	}
	row := informer.NewServiceCIDR(obj)
	if why := row.WhyNot(m.strict()); why != "" {
		m.lease.deny(name)
		return fmt.Errorf("%w: ServiceCIDR %s: %s", allocator.ErrNotCovered, name, why)
	}
	m.lease.confirm(row, since)
	if !row.CoversUsable(addr) {
		return fmt.Errorf("%w: ServiceCIDR %s has other ranges by now", allocator.ErrNotCovered, name)
	}
	return nil
}
