// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// MetaAllocator allocates addresses of both families out of all ServiceCIDRs.
// It is safe for concurrent use. Create it with New, then Run it.
type MetaAllocator struct {
	config  Config
	view    *informer.View
	pool    *allocator.Pool
	chooser *chooser
	lease   lease
	janitor janitor
	metrics *metrics
	running atomic.Bool
}

// New makes a MetaAllocator. It allocates nothing before Run has seen the
// initial lists. Errors wrap ErrInvalidConfig.
func New(config Config) (*MetaAllocator, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	view, err := informer.NewView(informer.Config{
		Client:           config.Client,
		ServiceCIDRs:     config.ServiceCIDRs,
		IPAddresses:      config.IPAddresses,
		RequireFinalizer: !config.AllowWithoutFinalizer,
		Managers:         []string{config.Manager, config.ServiceManager},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	m := &MetaAllocator{
		config:  config,
		view:    view,
		lease:   lease{duration: config.Lease, confirmed: map[string]confirmation{}},
		metrics: newMetrics(config.MetricsPrefix),
	}
	// Two sources, for each is guarded by another lock.
	var picks, draws rand.Source
	if config.Random != nil {
		picks, draws = derive(config.Random), derive(config.Random)
	} else {
		draws = derive(osRandom{})
	}
	m.chooser = newChooser(config.Strategy, draws)
	m.pool, err = allocator.NewPool(allocator.Config{
		View:           view,
		Client:         config.Client,
		Manager:        config.Manager,
		ServiceManager: config.ServiceManager,
		ReuseDelay:     config.ReuseDelay,
		HoldTimeout:    config.HoldTimeout,
		Verify:         m.verify,
		Observer:       observer{m},
		Random:         picks,
		Clock:          config.Clock,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	view.Subscribe(func(d informer.Delta) {
		if d.Topology {
			m.follow(d.Snapshot.Topology())
		}
	})
	return m, nil
}

type osRandom struct{}

func (osRandom) Uint64() uint64 {
	var b [8]byte
	crand.Read(b[:]) // never fails: it ends the process instead
	return binary.LittleEndian.Uint64(b[:])
}

func derive(from rand.Source) rand.Source {
	var seed [32]byte
	for i := 0; i < len(seed); i += 8 {
		binary.LittleEndian.PutUint64(seed[i:], from.Uint64())
	}
	return rand.NewChaCha8(seed)
}

// observer passes on what the pool tells.
type observer struct{ m *MetaAllocator }

func (o observer) FreeChanged(a *allocator.Allocator, phase allocator.Phase, free cidr.Uint128) {
	o.m.chooser.freeChanged(a, phase, free)
}

func (o observer) Stray(s allocator.Stray) { o.m.janitor.add(s) }

// follow takes a new topology: the view waits meanwhile, so no CIDR is drawn
// that the view has shown not to be ready.
func (m *MetaAllocator) follow(t *informer.Topology) {
	prefixes := append(t.Maximal(cidr.IPv4), t.Maximal(cidr.IPv6)...)
	ranges := make([]cidr.Range, len(prefixes))
	for i, p := range prefixes {
		ranges[i] = p.Range
	}
	m.chooser.replace(m.pool.Track(ranges), prefixes)
	m.metrics.follow(t)
}

// Run keeps the allocator up to date until ctx is done: it feeds the view,
// renews the freshness lease and removes what failed calls left. It blocks, may
// be called once, and leaves no goroutine behind. The context's logger is used.
func (m *MetaAllocator) Run(ctx context.Context) error {
	if !m.running.CompareAndSwap(false, true) {
		return errors.New("the allocator runs already, or has run: create a new one")
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.runJanitor(ctx) })
	if m.config.Verification == VerifyStale {
		wg.Go(func() { m.keepLease(ctx) })
	}
	return m.view.Run(ctx)
}

// WaitForSync waits until the initial lists are complete. It returns ctx's
// error if that is done first.
func (m *MetaAllocator) WaitForSync(ctx context.Context) error {
	select {
	case <-m.view.Synced():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotSynced, context.Cause(ctx))
	}
}

// HasSynced reports whether the initial lists are complete.
func (m *MetaAllocator) HasSynced() bool { return m.view.HasSynced() }

// View is what the allocator knows of the cluster.
func (m *MetaAllocator) View() *informer.View { return m.view }

// Release gives back addresses that the owner has: each is read, its owner
// checked and that very object deleted. Addresses that are free, or another's,
// are left alone, and that is no error. It works whatever the state of the
// ServiceCIDRs. All addresses are tried; the errors are joined.
func (m *MetaAllocator) Release(ctx context.Context, owner informer.Owner, addresses ...netip.Addr) error {
	var errs []error
	for _, addr := range addresses {
		if err := m.pool.Release(ctx, owner, addr); err != nil {
			errs = append(errs, fmt.Errorf("releasing %s: %w", addr, err))
		}
	}
	return errors.Join(errs...)
}
