// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	memdb "github.com/hashicorp/go-memdb"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/cidr"
)

// Client reads and watches what the view shows.
type Client interface {
	networkingv1client.ServiceCIDRsGetter
	networkingv1client.IPAddressesGetter
}

// Config says where a View gets its objects. Either Client or both informers
// are required.
type Config struct {
	// Client lists and watches through informers of the view's own, which run
	// for as long as Run does.
	Client Client
	// ServiceCIDRs and IPAddresses are informers that somebody else runs, such
	// as a SharedInformerFactory. Set Trim as their transform to save memory.
	ServiceCIDRs cache.SharedIndexInformer
	IPAddresses  cache.SharedIndexInformer
	// RequireFinalizer counts a ServiceCIDR that lacks Finalizer as not ready.
	RequireFinalizer bool
	// Managers are the managed-by labels of addresses that are ours to repair
	// and collect; nil means CoreManager and DefaultManager. An address without
	// one is taken all the same, and is counted as unmanaged.
	Managers []string
}

// steadyBatch bounds one transaction once the initial lists are applied, and
// with it how long a subscriber's lock is held. Before, all that is queued goes
// into one: go-memdb copies a node once per transaction, and tells the watchers
// of a large one by a walk through all of the table, so few large ones are best.
const steadyBatch = 256

// View follows the ServiceCIDRs and IPAddresses of a cluster. It is safe for
// concurrent use. Create it with NewView, then Run it.
type View struct {
	config Config
	own    []cache.SharedIndexInformer // informers that Run runs

	// queueMu guards queue, which the informers' handlers fill.
	queueMu sync.Mutex
	queue   []event
	wake    chan struct{} // capacity 1: the queue is not empty

	// applyMu serialises batches, and calls of subscribers: they see every
	// change once and in order. It guards what follows.
	applyMu     sync.Mutex
	tables      *memdb.MemDB
	owned       *memdb.MemDB
	present     [2]*cidr.AddrSet
	unmanaged   [2]*cidr.AddrSet // of those present
	odd         int              // rows with an address whose name is not canonical
	topology    *Topology
	subscribers []*subscriber // in the order of their subscription
	logger      klog.Logger   // Run's

	snapshot atomic.Pointer[Snapshot]
	synced   chan struct{} // closed when both initial lists are applied
	handlers [2]cache.ResourceEventHandlerRegistration
	running  atomic.Bool
}

type subscriber struct{ tell func(Delta) }

// event is one notification of an informer: an object that is there, or one
// that is gone.
type event struct {
	row  any // *IPAddress or *ServiceCIDR; nil when gone
	gone *goneObject
}

type goneObject struct {
	table, name string
	uid         string // empty if unknown: whatever has the name is gone
}

// Delta is what one batch changed. Subscribers get every one, in order.
type Delta struct {
	// Snapshot is the view after the batch.
	Snapshot *Snapshot
	// Appeared are rows that are new or changed, and stand for an address.
	Appeared []*IPAddress
	// Vanished are rows that are gone. The address may still be present, under
	// another name.
	Vanished []*IPAddress
	// Topology reports that Snapshot.Topology() differs from the one before.
	Topology bool
	// Initial reports that everything in Snapshot is news to the subscriber.
	Initial bool
}

// NewView prepares a view: it registers with the informers but sees nothing
// until Run. Errors wrap ErrInvalidConfig.
func NewView(config Config) (*View, error) {
	v := &View{
		config:    config,
		wake:      make(chan struct{}, 1),
		present:   [2]*cidr.AddrSet{cidr.NewAddrSet(cidr.IPv4), cidr.NewAddrSet(cidr.IPv6)},
		unmanaged: [2]*cidr.AddrSet{cidr.NewAddrSet(cidr.IPv4), cidr.NewAddrSet(cidr.IPv6)},
		synced:    make(chan struct{}),
	}
	switch {
	case config.ServiceCIDRs != nil && config.IPAddresses != nil:
	case config.ServiceCIDRs != nil || config.IPAddresses != nil:
		return nil, fmt.Errorf("%w: give both informers (ServiceCIDRs and IPAddresses) or neither", ErrInvalidConfig)
	case config.Client != nil:
		c, a := newInformers(config.Client)
		v.config.ServiceCIDRs, v.config.IPAddresses = c, a
		v.own = []cache.SharedIndexInformer{c, a}
		for _, inf := range v.own {
			if err := inf.SetTransform(compact); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
			}
		}
	default:
		return nil, fmt.Errorf("%w: a Client or both informers are required", ErrInvalidConfig)
	}
	if v.config.Managers == nil {
		v.config.Managers = []string{CoreManager, DefaultManager}
	}
	tables, err := memdb.NewMemDB(schema())
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	owned, err := memdb.NewMemDB(ownedSchema())
	if err != nil {
		return nil, fmt.Errorf("table of owners: %w", err)
	}
	v.tables, v.owned = tables, owned
	v.topology = newTopology(nil, config.RequireFinalizer)
	v.publish()
	for i, source := range []struct {
		informer cache.SharedIndexInformer
		table    string
	}{{v.config.ServiceCIDRs, tableServiceCIDRs}, {v.config.IPAddresses, tableIPAddresses}} {
		if v.handlers[i], err = source.informer.AddEventHandler(v.handler(source.table)); err != nil {
			return nil, fmt.Errorf("%w: registering with an informer: %w", ErrInvalidConfig, err)
		}
	}
	return v, nil
}

// Run feeds the view until ctx is done. It blocks, may be called once, and
// leaves no goroutine behind. The context's logger gets one line for each
// stored entry that cannot be taken as it is.
func (v *View) Run(ctx context.Context) error {
	if !v.running.CompareAndSwap(false, true) {
		return errors.New("the view runs already, or has run: create a new one")
	}
	v.applyMu.Lock()
	v.logger = klog.FromContext(ctx)
	v.applyMu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, inf := range v.own {
		wg.Go(func() { inf.RunWithContext(ctx) })
	}
	defer func() {
		// An informer that has stopped refuses, and needs no removal.
		_ = v.config.ServiceCIDRs.RemoveEventHandler(v.handlers[0])
		_ = v.config.IPAddresses.RemoveEventHandler(v.handlers[1])
	}()
	lists := [2]<-chan struct{}{v.handlers[0].HasSyncedChecker().Done(), v.handlers[1].HasSyncedChecker().Done()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.wake:
		case <-lists[0]:
			lists[0] = nil
		case <-lists[1]:
			lists[1] = nil
		}
		// The handlers had every object of the initial lists before the
		// channels closed, so an empty queue afterwards means all is applied.
		synced := lists[0] == nil && lists[1] == nil
		v.drain(ctx, synced)
		if synced && ctx.Err() == nil && !v.HasSynced() {
			close(v.synced)
		}
	}
}

// Synced is closed once both initial lists are in the view. Nothing may be
// allocated earlier.
func (v *View) Synced() <-chan struct{} { return v.synced }

// HasSynced reports whether Synced is closed.
func (v *View) HasSynced() bool {
	select {
	case <-v.synced:
		return true
	default:
		return false
	}
}

// Managers are the managed-by labels that the view counts as ours.
func (v *View) Managers() []string { return slices.Clone(v.config.Managers) }

// Snapshot is the view as it is now. It never blocks.
func (v *View) Snapshot() *Snapshot { return v.snapshot.Load() }

// Subscribe calls f for every change from now on, first with an Initial Delta.
// Calls come one at a time and in order; the view waits for f, which must be
// short and must not call the view's Subscribe. The result ends it.
func (v *View) Subscribe(f func(Delta)) (cancel func()) {
	v.applyMu.Lock()
	defer v.applyMu.Unlock()
	s := &subscriber{f}
	v.subscribers = append(v.subscribers, s)
	f(Delta{Snapshot: v.snapshot.Load(), Topology: true, Initial: true})
	return func() {
		v.applyMu.Lock()
		defer v.applyMu.Unlock()
		v.subscribers = slices.DeleteFunc(slices.Clone(v.subscribers), func(other *subscriber) bool { return other == s })
	}
}

// handler queues what the informer of one table's objects tells.
func (v *View) handler(table string) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { v.enqueue(event{row: rowOf(obj)}) },
		UpdateFunc: func(old, obj any) {
			// A relist tells of every object, changed or not.
			if !same(old, obj) {
				v.enqueue(event{row: rowOf(obj)})
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := goneFrom(table, obj); ok {
				v.enqueue(event{gone: &gone})
			}
		},
	}
}

// rowOf reads an object; nil if it is none of ours.
func rowOf(obj any) any {
	switch o := obj.(type) {
	case *IPAddress: // by the transform of the view's own informers
		return o
	case *networkingv1.IPAddress:
		return newIPAddress(o)
	case *networkingv1.ServiceCIDR:
		return NewServiceCIDR(o)
	}
	return nil
}

func same(old, obj any) bool {
	a, err := meta.Accessor(old)
	if err != nil {
		return false
	}
	b, err := meta.Accessor(obj)
	return err == nil && a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion() && b.GetResourceVersion() != ""
}

// goneFrom reads a deletion. A tombstone holds the last state the informer
// knew, if any, which may be of an object that was replaced meanwhile: only its
// key counts.
func goneFrom(table string, obj any) (gone goneObject, ok bool) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		_, name, err := cache.SplitMetaNamespaceKey(tombstone.Key)
		return goneObject{table: table, name: name}, err == nil
	}
	o, err := meta.Accessor(obj)
	if err != nil {
		return goneObject{}, false
	}
	return goneObject{table: table, name: o.GetName(), uid: string(o.GetUID())}, true
}

func (v *View) enqueue(e event) {
	v.queueMu.Lock()
	v.queue = append(v.queue, e)
	v.queueMu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// drain applies what is queued, and what is queued meanwhile.
func (v *View) drain(ctx context.Context, synced bool) {
	for ctx.Err() == nil {
		v.queueMu.Lock()
		batch := v.queue
		v.queue = nil
		v.queueMu.Unlock()
		if len(batch) == 0 {
			return
		}
		for len(batch) > 0 && ctx.Err() == nil {
			n := len(batch)
			if synced {
				n = min(n, steadyBatch)
			}
			v.apply(batch[:n])
			batch = batch[n:]
		}
	}
}

// apply takes one batch into tables, sets and topology, publishes a snapshot
// and tells the subscribers.
func (v *View) apply(batch []event) {
	v.applyMu.Lock()
	defer v.applyMu.Unlock()
	txn := v.tables.Txn(true)
	b := &batchState{view: v, txn: txn, owned: newOwnedBatch(v.owned, len(batch))}
	for _, e := range batch {
		switch row := e.row.(type) {
		case *IPAddress:
			b.putIPAddress(row)
		case *ServiceCIDR:
			b.putServiceCIDR(row)
		case nil:
			b.remove(*e.gone)
		}
	}
	owned := b.owned.finish()
	if !b.changed {
		txn.Abort()
		owned.Abort()
		return
	}
	if b.delta.Topology {
		v.topology = newTopology(b.serviceCIDRs(), v.config.RequireFinalizer)
	}
	txn.Commit()
	owned.Commit()
	b.delta.Snapshot = v.publish()
	for _, s := range v.subscribers {
		s.tell(b.delta)
	}
}

// publish makes the present state the current snapshot.
func (v *View) publish() *Snapshot {
	s := &Snapshot{
		tables:    v.tables.Snapshot(),
		owned:     v.owned.Snapshot(),
		present:   [2]*cidr.AddrSet{v.present[0].Clone(), v.present[1].Clone()},
		unmanaged: [2]*cidr.AddrSet{v.unmanaged[0].Clone(), v.unmanaged[1].Clone()},
		topology:  v.topology,
		changed:   make(chan struct{}),
	}
	if last := v.snapshot.Load(); last != nil {
		s.sequence = last.sequence + 1
		defer close(last.changed)
	}
	v.snapshot.Store(s)
	return s
}

// batchState is a batch on its way into the view.
type batchState struct {
	view    *View
	txn     *memdb.Txn
	owned   *ownedBatch
	delta   Delta
	changed bool
}

func (b *batchState) putIPAddress(row *IPAddress) {
	old, _ := b.first(tableIPAddresses, row.key()).(*IPAddress)
	if old != nil && outdated(string(old.UID), old.ResourceVersion, string(row.UID), row.ResourceVersion) {
		return
	}
	must(b.txn.Insert(tableIPAddresses, row))
	b.owned.put(old, row)
	b.changed = true
	if !row.Addr.IsValid() {
		if old == nil {
			b.view.logger.Info("IPAddress whose name is no address: ignored", "name", row.Name)
		}
		return
	}
	if old == nil && !row.Canonical {
		b.view.odd++
		b.view.logger.Info("IPAddress whose name is not canonical: the address counts as taken", "name", row.Name, "address", row.Addr)
	}
	b.note(row, true)
	b.delta.Appeared = append(b.delta.Appeared, row)
}

func (b *batchState) putServiceCIDR(row *ServiceCIDR) {
	old, _ := b.first(tableServiceCIDRs, []byte(row.Name+"\x00")).(*ServiceCIDR)
	if old != nil && outdated(string(old.UID), old.ResourceVersion, string(row.UID), row.ResourceVersion) {
		return
	}
	must(b.txn.Insert(tableServiceCIDRs, row))
	b.changed, b.delta.Topology = true, true
	for _, p := range row.Problems {
		if old == nil || !slices.Contains(old.Problems, p) {
			b.view.logger.Info("ServiceCIDR with an entry that cannot be taken as it is", "name", row.Name, "problem", p.String())
		}
	}
}

func (b *batchState) remove(gone goneObject) {
	switch gone.table {
	case tableIPAddresses:
		row, _ := b.first(gone.table, nameKey(gone.name)).(*IPAddress)
		if row == nil || gone.uid != "" && gone.uid != string(row.UID) {
			return
		}
		must(b.txn.Delete(gone.table, row))
		b.owned.put(row, nil)
		b.changed = true
		if !row.Addr.IsValid() {
			return
		}
		b.note(row, false)
		if !row.Canonical {
			b.view.odd--
		}
		b.delta.Vanished = append(b.delta.Vanished, row)
	case tableServiceCIDRs:
		row, _ := b.first(gone.table, []byte(gone.name+"\x00")).(*ServiceCIDR)
		if row == nil || gone.uid != "" && gone.uid != string(row.UID) {
			return
		}
		must(b.txn.Delete(gone.table, row))
		b.changed, b.delta.Topology = true, true
	}
}

// note brings the sets in line with the rows that stand for the address of a
// row that was just put, or deleted.
func (b *batchState) note(row *IPAddress, put bool) {
	present, managed := put, put && b.managed(row)
	if b.view.odd > 0 { // only an odd name can be a second row for the address
		present, managed = false, false
		it, err := b.txn.Get(tableIPAddresses, indexIDPrefix, addrKey(row.Addr))
		must(err)
		for obj := it.Next(); obj != nil; obj = it.Next() {
			present = true
			managed = managed || b.managed(obj.(*IPAddress))
		}
	}
	i := cidr.FamilyOf(row.Addr).Index()
	if present {
		b.view.present[i].Add(row.Addr)
	} else {
		b.view.present[i].Remove(row.Addr)
	}
	if present && !managed {
		b.view.unmanaged[i].Add(row.Addr)
	} else {
		b.view.unmanaged[i].Remove(row.Addr)
	}
}

func (b *batchState) managed(row *IPAddress) bool {
	return slices.Contains(b.view.config.Managers, row.Manager())
}

func (b *batchState) serviceCIDRs() []*ServiceCIDR {
	it, err := b.txn.Get(tableServiceCIDRs, indexIDPrefix, []byte{})
	must(err)
	var rows []*ServiceCIDR
	for obj := it.Next(); obj != nil; obj = it.Next() {
		rows = append(rows, obj.(*ServiceCIDR))
	}
	return rows
}

func (b *batchState) first(table string, key []byte) any {
	obj, err := b.txn.First(table, indexID, key)
	must(err)
	return obj
}

func must(err error) {
	if err != nil {
		panic(schemaFault(err))
	}
}

// outdated reports that news of an object is older than what is known of the
// same object. A list after a restart may be.
func outdated(oldUID, oldVersion, newUID, newVersion string) bool {
	if oldUID != newUID || oldUID == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(oldVersion, newVersion)
	return err == nil && order > 0
}
