// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gaissmai/bart"
	"k8s.io/apimachinery/pkg/types"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// DefaultReuseDelay is how long a freed address rests.
const DefaultReuseDelay = 30 * time.Second

// DefaultHoldTimeout is how long an address stays held after its call, if the
// watch never shows an object there.
const DefaultHoldTimeout = time.Minute

// Config is what a Pool works with. View and Client are required.
type Config struct {
	View   *informer.View
	Client networkingv1client.IPAddressesGetter

	// Manager is the managed-by label for owners that are not core Services;
	// empty means informer.DefaultManager.
	Manager string
	// ServiceManager is the one for core Services; empty means
	// informer.CoreManager, which core's repair loop insists on.
	ServiceManager string

	// ReuseDelay is how long a freed address rests: it is picked earlier only
	// if nothing else is free in the band. 0 means DefaultReuseDelay, less than
	// 0 means none.
	ReuseDelay time.Duration
	// HoldTimeout is how long an address stays held after its call has ended,
	// if the watch shows no object there. 0 means DefaultHoldTimeout.
	HoldTimeout time.Duration

	// Verify is called after each create and before the address is confirmed.
	// An error undoes the create; ErrNotCovered makes a dynamic allocation go
	// on with another pick, any other ends it. Nil confirms at once.
	Verify func(ctx context.Context, addr netip.Addr) error
	// Observer is told of counts and strays; nil is fine.
	Observer Observer

	// Random is the source of picks; the pool's lock guards it. Nil means a
	// ChaCha8 generator with a seed of the operating system's.
	Random rand.Source
	// Clock is for rests and timeouts; nil means the real one.
	Clock clock.PassiveClock
}

// Observer follows a Pool.
type Observer interface {
	// FreeChanged tells how many addresses of a range are free in a phase. The
	// pool's lock is held: return quickly and do not call the pool.
	FreeChanged(a *Allocator, phase Phase, free cidr.Uint128)
	// Stray tells of an object that a call of this process created but did not
	// know of when it failed. It should be removed: see Pool.Remove. It comes
	// from any goroutine, and perhaps twice.
	Stray(s Stray)
}

// Stray is an IPAddress that a failed call left.
type Stray struct {
	Name string
	UID  types.UID
}

// Pool is what one process knows of the addresses of a cluster, both families.
// It is safe for concurrent use. Create it with NewPool.
type Pool struct {
	config Config
	prefix string // of the nonces of this process
	cancel func()

	// mu guards what follows. It is never held across an API call.
	mu       sync.Mutex
	random   rand.Source
	spaces   [2]*space
	tracked  *bart.Table[*Allocator] // the disjoint ranges whose counts are kept
	counter  uint64                  // of nonces
	orphans  orphans                 // nonces of calls that failed
	spare    *hold                   // for reuse
	snapshot *informer.Snapshot      // the latest that spaces agree with
}

// NewPool makes a pool that follows config.View. Errors wrap ErrInvalidConfig.
func NewPool(config Config) (*Pool, error) {
	switch {
	case config.View == nil:
		return nil, fmt.Errorf("%w: View is nil", ErrInvalidConfig)
	case config.Client == nil:
		return nil, fmt.Errorf("%w: Client is nil", ErrInvalidConfig)
	}
	if config.Manager == "" {
		config.Manager = informer.DefaultManager
	}
	if config.ServiceManager == "" {
		config.ServiceManager = informer.CoreManager
	}
	if config.ReuseDelay == 0 {
		config.ReuseDelay = DefaultReuseDelay
	}
	if config.HoldTimeout == 0 {
		config.HoldTimeout = DefaultHoldTimeout
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Random == nil {
		var seed [32]byte
		crand.Read(seed[:]) // never fails: it ends the process instead
		config.Random = rand.NewChaCha8(seed)
	}
	if config.Observer == nil {
		config.Observer = nobody{}
	}
	p := &Pool{
		config: config,
		// Not from config.Random: two replicas may be given one seed.
		prefix:  crand.Text() + "-",
		random:  config.Random,
		spaces:  [2]*space{newSpace(cidr.IPv4), newSpace(cidr.IPv6)},
		tracked: new(bart.Table[*Allocator]),
	}
	p.cancel = config.View.Subscribe(p.follow)
	return p, nil
}

// Close ends the pool's subscription to the view. Calls in flight still work.
func (p *Pool) Close() { p.cancel() }

// Range returns an allocator of one range over the pool. Its counts are kept up
// to date only after Track; Allocate, AllocateNext and Free work either way.
func (p *Pool) Range(r cidr.Range) *Allocator { return newAllocator(p, r) }

// Track replaces the set of ranges whose free addresses are counted as they
// change and told to the Observer. They must be disjoint. An allocator of a
// range that was tracked before is kept. The result is in the order of ranges.
func (p *Pool) Track(ranges []cidr.Range) []*Allocator {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.tracked
	p.tracked = new(bart.Table[*Allocator])
	out := make([]*Allocator, len(ranges))
	for i, r := range ranges {
		a, ok := before.Get(r.Prefix())
		if !ok {
			a = newAllocator(p, r)
			a.recount()
		}
		p.tracked.Insert(r.Prefix(), a)
		out[i] = a
	}
	return out
}

// Taken returns the addresses that are present or held, as they are now. It
// costs O(1), and O(log n) for each hold whose time is over.
func (p *Pool) Taken(f cidr.Family) Taken {
	now := p.config.Clock.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire(now, math.MaxInt/2)
	s := p.space(f)
	return Taken{busy: s.busy.Clone(), resting: s.resting.Clone()}
}

func (p *Pool) space(f cidr.Family) *space { return p.spaces[f.Index()] }

// follow takes a change of the view into the spaces.
func (p *Pool) follow(d informer.Delta) {
	strays := p.take(d)
	for _, s := range strays {
		p.config.Observer.Stray(s)
	}
}

func (p *Pool) take(d informer.Delta) (strays []Stray) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshot = d.Snapshot
	for _, s := range p.spaces {
		s.present = d.Snapshot.Present(s.family)
		if d.Initial {
			s.busy = s.present.Clone()
		}
	}
	now := p.config.Clock.Now()
	for _, row := range d.Appeared {
		s := p.space(cidr.FamilyOf(row.Addr))
		key := cidr.ToUint128(row.Addr)
		nonce, ours := p.nonceOf(row.Nonce)
		if ours && p.orphans.take(nonce) {
			strays = append(strays, Stray{Name: row.Name, UID: row.UID})
		}
		p.shown(s, key, nonce)
		p.refreshUsed(s, key, row.Addr, now) // it may have vanished in the same batch
	}
	for _, row := range d.Vanished {
		s := p.space(cidr.FamilyOf(row.Addr))
		p.refreshUsed(s, cidr.ToUint128(row.Addr), row.Addr, now)
	}
	p.expire(now, len(d.Appeared)+len(d.Vanished))
	return strays
}

// shown ends the holds that waited for what the view shows at their address: an
// object of the call with that nonce, 0 for one that no call here made.
func (p *Pool) shown(s *space, key cidr.Uint128, nonce uint64) {
	for h := s.holds[key]; h != nil; {
		next := h.next
		switch {
		case h.state == inFlight:
			h.seen, h.other = h.seen || h.nonce == nonce, h.other || h.nonce != nonce
		case h.state == collided, h.state == unknown, h.nonce == nonce:
			p.end(s, h)
		}
		h = next
	}
}

// refresh brings the sets and the counts in line with the view and the holds at
// one address. One that is taken no more is free at once.
func (p *Pool) refresh(s *space, key cidr.Uint128, addr netip.Addr) {
	_, rests := s.until[key]
	switch taken := s.holds[key] != nil || s.present.Has(addr); {
	case taken && rests:
		delete(s.until, key) // it left the rested ones when it began to rest
		s.resting.Remove(addr)
		p.count(addr, false, false)
	case taken && s.busy.Add(addr):
		p.count(addr, false, true)
	case !taken && !rests && s.busy.Remove(addr):
		p.count(addr, true, true)
	}
}

// refreshUsed is refresh for an address that somebody had: if it is taken no
// more, it rests.
func (p *Pool) refreshUsed(s *space, key cidr.Uint128, addr netip.Addr, now time.Time) {
	if p.config.ReuseDelay < 0 || s.holds[key] != nil || s.present.Has(addr) {
		p.refresh(s, key, addr)
		return
	}
	if _, rests := s.until[key]; rests || !s.busy.Has(addr) {
		return
	}
	until := now.Add(p.config.ReuseDelay)
	s.until[key] = until
	s.rests.push(rest{key: key, until: until})
	s.resting.Add(addr)
	p.count(addr, true, false)
}

// expire ends rests and holds whose time has come, at most limit and a few, so
// that no single call pays for all.
func (p *Pool) expire(now time.Time, limit int) {
	for _, s := range p.spaces {
		for range limit + 8 {
			r, ok := s.rests.front()
			if !ok || now.Before(r.until) {
				break
			}
			s.rests.pop()
			// A later rest of the same address has a later entry.
			if until, ok := s.until[r.key]; ok && !now.Before(until) {
				delete(s.until, r.key)
				addr := cidr.FromUint128(s.family, r.key)
				s.resting.Remove(addr)
				s.busy.Remove(addr)
				p.countRested(addr)
			}
		}
		for range limit + 8 {
			h, ok := s.expiring.front()
			if !ok || h.state != ended && now.Before(h.until) {
				break
			}
			s.expiring.pop()
			if h.state != ended {
				addr := cidr.FromUint128(s.family, h.key)
				p.end(s, h)
				p.refreshUsed(s, h.key, addr, now)
			}
			p.recycle(h)
		}
	}
}

// count tells the range that an address became free or taken; both also says
// that the rested ones changed with it.
func (p *Pool) count(addr netip.Addr, free, both bool) {
	a, ok := p.tracked.Lookup(addr)
	if !ok {
		return
	}
	if band := a.rng.Band(addr); band != cidr.BandNone {
		a.adjust(phaseOf(band, false), free)
		if both {
			a.adjust(phaseOf(band, true), free)
		}
	}
}

// countRested tells the range that a free address has rested.
func (p *Pool) countRested(addr netip.Addr) {
	if a, ok := p.tracked.Lookup(addr); ok {
		if band := a.rng.Band(addr); band != cidr.BandNone {
			a.adjust(phaseOf(band, true), true)
		}
	}
}

// hold begins a hold of a call.
func (p *Pool) hold(s *space, key cidr.Uint128, addr netip.Addr) *hold {
	h := p.spare
	if h == nil {
		h = new(hold)
	} else {
		p.spare = h.next
	}
	p.counter++
	*h = hold{key: key, nonce: p.counter, next: s.holds[key]}
	s.holds[key] = h
	p.refresh(s, key, addr)
	return h
}

// settle ends the call of a reservation.
//
//	ended     nothing of the call is there, and nobody had the address
//	created   the object is there: held until the view shows it
//	collided  somebody else's object is there: held until the view shows one
//	unknown   an object may be there: held until the view shows one
//
// After the last two the call's own object may be there all the same, sent
// twice or late. It is a stray: returned if the view shows it already, and
// told to the Observer when it does.
func (p *Pool) settle(r Reservation, state holdState) (stray *Stray) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, h := p.space(cidr.FamilyOf(r.Addr)), r.hold
	if h == nil || h.nonce != r.nonce || h.state != inFlight {
		return nil
	}
	if state == collided || state == unknown {
		if row := p.snapshot.IPAddress(r.Addr.String()); row == nil || row.Nonce != p.nonceString(h.nonce) {
			p.orphans.add(h.nonce)
		} else {
			stray = &Stray{Name: row.Name, UID: row.UID}
		}
		if s.present.Has(r.Addr) || state == collided && h.other {
			state = ended // what the call met is in the view, or was and is gone
		}
	}
	if state == ended || state == created && h.seen {
		p.end(s, h)
		p.refresh(s, h.key, r.Addr)
		p.recycle(h)
		return stray
	}
	h.state, h.until = state, p.config.Clock.Now().Add(p.config.HoldTimeout)
	s.expiring.push(h)
	return nil
}

// ReserveUnknown reserves an accepted address that is held for nothing but a
// call whose outcome is unknown, the lowest if there are several. To try such
// addresses, once each, is right when nothing else is free: the API server
// refuses the create if the lost one was carried out after all.
func (p *Pool) ReserveUnknown(f cidr.Family, accept func(netip.Addr) bool) (Reservation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.space(f)
	var found netip.Addr
	for key, h := range s.holds {
		addr := cidr.FromUint128(f, key)
		if !s.present.Has(addr) && allUnknown(h) && (!found.IsValid() || addr.Less(found)) && accept(addr) {
			found = addr
		}
	}
	if !found.IsValid() {
		return Reservation{}, false
	}
	h := p.hold(s, cidr.ToUint128(found), found)
	return Reservation{Addr: found, Phase: NumPhases, pool: p, hold: h, nonce: h.nonce}, true
}

func allUnknown(h *hold) bool {
	for ; h != nil; h = h.next {
		if h.state != unknown {
			return false
		}
	}
	return true
}

// released ends the holds that waited for the view to show an object which is
// deleted by now.
func (p *Pool) released(addr netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, key := p.space(cidr.FamilyOf(addr)), cidr.ToUint128(addr)
	for h := s.holds[key]; h != nil; {
		next := h.next
		if h.state == created {
			p.end(s, h)
		}
		h = next
	}
	p.refreshUsed(s, key, addr, p.config.Clock.Now())
}

// end takes a hold out of its address. The caller refreshes.
func (p *Pool) end(s *space, h *hold) {
	h.state = ended
	at := s.holds[h.key]
	if at == h {
		if h.next == nil {
			delete(s.holds, h.key)
		} else {
			s.holds[h.key] = h.next
		}
		h.next = nil
		return
	}
	for ; at != nil; at = at.next {
		if at.next == h {
			at.next, h.next = h.next, nil
			return
		}
	}
}

// recycle keeps an ended hold that nothing refers to any more.
func (p *Pool) recycle(h *hold) { h.next, p.spare = p.spare, h }

func (p *Pool) nonceString(nonce uint64) string { return p.prefix + strconv.FormatUint(nonce, 36) }

func (p *Pool) nonceOf(s string) (nonce uint64, ours bool) {
	rest, ok := strings.CutPrefix(s, p.prefix)
	if !ok {
		return 0, false
	}
	nonce, err := strconv.ParseUint(rest, 36, 64)
	if err != nil {
		return 0, false
	}
	return nonce, true
}

type nobody struct{}

func (nobody) FreeChanged(*Allocator, Phase, cidr.Uint128) {}
func (nobody) Stray(Stray)                                 {}
