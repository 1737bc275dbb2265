// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	"github.com/metacidr/metacidr/proptest"
	"github.com/metacidr/metacidr/proptest/simapi"
	"github.com/metacidr/metacidr/weighting"
)

// allocators are those that are broken themselves, in the order of the rules.
func allocators() []Mutant {
	return []Mutant{
		{
			Name: "already-exists-ignored", CaughtBy: "Uniqueness",
			Broken: "an address of a stale cache is handed out, although the create says AlreadyExists",
			Factory: misled(func(c *client) {
				c.create = func(ctx context.Context, real networkingv1client.IPAddressInterface, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
					made, err := real.Create(ctx, obj, opts)
					if apierrors.IsAlreadyExists(err) {
						return real.Get(ctx, obj.Name, metav1.GetOptions{})
					}
					return made, err
				}
			}),
		},
		{
			Name: "release-later", CaughtBy: "Linearizable",
			Broken:  "a release answers before it is done",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return releaseLater{s} }),
		},
		{
			Name: "broadcast", CaughtBy: "InRange",
			Broken:  "the broadcast address is handed out",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return broadcast{s, env} }),
		},
		{
			Name: "terminating-still-used", CaughtBy: "InRange",
			Broken: "a deletionTimestamp is overlooked",
			Factory: misled(func(c *client) {
				c.cidr = func(obj *networkingv1.ServiceCIDR) { obj.DeletionTimestamp = nil }
			}),
		},
		{
			Name: "readiness-ignored", CaughtBy: "InRange",
			Broken: "the condition Ready is overlooked",
			Factory: misled(func(c *client) {
				c.cidr = func(obj *networkingv1.ServiceCIDR) { obj.Status.Conditions = nil }
			}),
		},
		{
			Name: "twins-readiness-kept", CaughtBy: "InRange",
			Broken:  "a prefix that two ServiceCIDRs carried stays ready when both go",
			Factory: twinsKept,
		},
		{
			Name: "forbidden-is-full", CaughtBy: "NoFalseFull",
			Broken:  "a create that is Forbidden is reported as a full range",
			Factory: classified(func(err error) bool { return apierrors.IsForbidden(err) }, proptest.Full),
		},
		{
			Name: "not-ready-is-full", CaughtBy: "NoFalseFull",
			Broken:  "CIDRs that are not ready are reported as full",
			Factory: classified(func(err error) bool { return errors.Is(err, meta.ErrNotReady) }, proptest.Full),
		},
		{
			Name: "one-full-is-full", CaughtBy: "NoFalseFull",
			Broken:  "one full CIDR stops it, although others have room",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return oneFull{s} }),
		},
		{
			Name: "static-trusts-the-cache", CaughtBy: "NoFalseFull",
			Broken:  "a static request is refused because a stale cache shows the address as taken",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return trustingStatic{s} }),
		},
		{
			Name: "reservation-leaked", CaughtBy: "NoFalseFull",
			Broken:  "the address of a call that was refused stays reserved for ever",
			Factory: leaking,
		},
		{
			Name: "allocates-before-sync", CaughtBy: "Synced",
			Broken:  "it allocates before it knows the cluster",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return early{s, env} }),
		},
		{
			Name: "unsynced-is-none", CaughtBy: "Synced",
			Broken:  "before it knows the cluster it says that there is no ServiceCIDR",
			Factory: classified(func(err error) bool { return errors.Is(err, meta.ErrNotSynced) }, proptest.NoServiceCIDR),
		},
		{
			Name: "static-band-first", CaughtBy: "BandOrder",
			Broken: "dynamic allocations begin in the static band",
			Factory: chosen(func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, _ rand.Source) (netip.Addr, bool) {
				return s.absent(r.Static(), 0)
			}),
		},
		{
			Name: "not-weighted", CaughtBy: "Weighted",
			Broken:  "every CIDR with room is drawn equally often",
			Factory: configured(func(c *meta.Config) { c.Strategy = equal{} }),
		},
		{
			Name: "weighted-by-size", CaughtBy: "Weighted",
			Broken:  "CIDRs are drawn by their size, not by what is free",
			Factory: configured(func(c *meta.Config) { c.Strategy = bySize{} }),
		},
		{
			Name: "map-order", CaughtBy: "Weighted",
			Broken:  "the CIDRs are tried in the order of a map",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return drawer{s, draw(env), inMapOrder} }),
		},
		{
			Name: "nested-counted-twice", CaughtBy: "Weighted",
			Broken:  "a nested range is drawn beside the one that contains it, so its addresses count twice",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return drawer{s, draw(env), nestedToo} }),
		},
		{
			Name: "first-fit", CaughtBy: "Scan",
			Broken: "it begins to look at the first address, not at a random one",
			Factory: chosen(func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, _ rand.Source) (netip.Addr, bool) {
				return s.absent(span(r), 0)
			}),
		},
		{
			Name: "uniform-pick", CaughtBy: "Scan",
			Broken: "it draws among the free addresses, not by a walk from a random start",
			Factory: chosen(func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, random rand.Source) (netip.Addr, bool) {
				return s.absent(span(r), random.Uint64())
			}),
		},
		{
			Name: "scan-without-wrap", CaughtBy: "Scan",
			Broken: "a scan that comes to the end begins at the first address, not with what is before its start",
			Factory: chosen(func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, random rand.Source) (netip.Addr, bool) {
				return s.walk(span(r), random.Uint64(), false)
			}),
		},
		{
			Name: "start-not-uniform", CaughtBy: "Scan",
			Broken: "the start is always in the first half",
			Factory: chosen(func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, random rand.Source) (netip.Addr, bool) {
				half := max(1, span(r).Size().Saturate64()/2)
				return s.walk(span(r), random.Uint64()%half, true)
			}),
		},
		{
			Name: "no-verification", CaughtBy: "FinalizerSafety",
			Broken:  "after the create it does not look whether the ServiceCIDR stays",
			Factory: configured(func(c *meta.Config) { c.Verification = meta.VerifyNever }),
		},
		{
			Name: "lease-too-long", CaughtBy: "FinalizerSafety",
			Broken:  "it trusts a read of a ServiceCIDR for longer than controllers wait",
			Factory: configured(func(c *meta.Config) { c.Lease = time.Minute }),
		},
		{
			Name: "release-by-name", CaughtBy: "Fenced",
			Broken: "it deletes by name, without the UID precondition",
			Factory: misled(func(c *client) {
				c.delete = func(ctx context.Context, real networkingv1client.IPAddressInterface, name string, opts metav1.DeleteOptions) error {
					return real.Delete(ctx, name, metav1.DeleteOptions{})
				}
			}),
		},
		{
			Name: "release-ignores-owner", CaughtBy: "Fenced",
			Broken:  "it releases an address whoever asks",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return anybody{s, env} }),
		},
		{
			Name: "lost-answer-is-failure", CaughtBy: "NoLeak",
			Broken: "a create whose answer was lost is taken for one that was refused",
			Factory: misled(func(c *client) {
				c.create = func(ctx context.Context, real networkingv1client.IPAddressInterface, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
					made, err := real.Create(ctx, obj, opts)
					if err != nil && !errors.As(err, new(apierrors.APIStatus)) {
						err = simapi.Forbidden(err.Error())
					}
					return made, err
				}
			}),
		},
		{
			Name: "dual-without-roll-back", CaughtBy: "NoLeak",
			Broken:  "when the second family fails, the address of the first stays",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return noRollBack{s} }),
		},
		{
			Name: "release-only-where-covered", CaughtBy: "NoLeak",
			Broken:  "a release in a CIDR that is not ready does nothing",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return coveredRelease{s} }),
		},
		{
			Name: "count-off-by-one", CaughtBy: "Counts",
			Broken: "one address too many is counted as used",
			Factory: recounted(func(c *proptest.Count) {
				if one := cidr.U128(uint(1)); !c.Free.IsZero() {
					c.Free, c.Used = c.Free.Sub(one), c.Used.Add(one)
				}
			}),
		},
		{
			Name: "count-off-after-relist", CaughtBy: "Counts",
			Broken:  "after a second initial list the addresses of the first are counted once more",
			Factory: relisted,
		},
		{
			Name: "size-with-network-address", CaughtBy: "Counts",
			Broken:  "the network address is counted as free",
			Factory: recounted(func(c *proptest.Count) { c.Free = c.Free.Add(cidr.U128(uint(1))) }),
		},
		{
			Name: "lists-before-each", CaughtBy: "Bounded",
			Broken:  "it lists all addresses before each allocation",
			Factory: wrapped(func(s subject, env proptest.Env) proptest.Allocator { return lister{s, env} }),
		},
		{
			Name: "reservation-dropped", CaughtBy: "Bounded",
			Broken:  "a reservation ends with its call, before the watch shows the address",
			Factory: configured(func(c *meta.Config) { c.HoldTimeout = time.Nanosecond }),
		},
		{
			Name: "retries-refusals", CaughtBy: "Bounded",
			Broken:  "it tries another address when a create is refused",
			Factory: wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return retrier{s} }),
		},
	}
}

// classified is a mutant that mistakes one kind of error for another.
func classified(which func(error) bool, as proptest.Outcome) proptest.Factory {
	return wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return classifier{s, which, as} })
}

type classifier struct {
	subject
	which func(error) bool
	as    proptest.Outcome
}

func (c classifier) Classify(err error) proptest.Outcome {
	if c.which(err) {
		return c.as
	}
	return c.subject.Classify(err)
}

type releaseLater struct{ subject }

func (r releaseLater) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	go func() {
		time.Sleep(2 * time.Millisecond)
		_ = r.subject.Release(context.WithoutCancel(ctx), owner, addr)
	}()
	return nil
}

type broadcast struct {
	subject
	env proptest.Env
}

func (b broadcast) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	addr, err := b.subject.AllocateNext(ctx, owner, family)
	if !errors.Is(err, meta.ErrFull) || family != cidr.IPv4 {
		return addr, err
	}
	for _, p := range b.View().Snapshot().Topology().Maximal(family) {
		last := p.Range.Last().Next()
		if create(ctx, b.env, owner, last) == nil {
			return last, nil
		}
	}
	return addr, err
}

// create makes an IPAddress and asks nothing.
func create(ctx context.Context, env proptest.Env, owner proptest.Owner, addr netip.Addr) error {
	_, err := env.Client.IPAddresses().Create(ctx, &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr.String(), Labels: map[string]string{
			informer.LabelManagedBy: informer.DefaultManager, informer.LabelIPFamily: cidr.FamilyOf(addr).String(),
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: owner.Reference()},
	}, metav1.CreateOptions{})
	return err
}

type oneFull struct{ subject }

func (o oneFull) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	snapshot := o.View().Snapshot()
	for _, p := range snapshot.Topology().Maximal(family) {
		if cidr.U128(snapshot.Present(family).Count(p.Range.Usable())) == p.Range.Size() {
			return netip.Addr{}, meta.ErrFull
		}
	}
	return o.subject.AllocateNext(ctx, owner, family)
}

type trustingStatic struct{ subject }

func (s trustingStatic) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	if s.View().Snapshot().Present(cidr.FamilyOf(addr)).Has(addr) {
		return meta.ErrAllocated
	}
	return s.subject.AllocateAt(ctx, owner, addr)
}

type early struct {
	subject
	env proptest.Env
}

func (e early) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	if e.Synced() {
		return e.subject.AllocateAt(ctx, owner, addr)
	}
	return create(ctx, e.env, owner, addr)
}

// chosen is a mutant that has its own way to choose an address in a CIDR, in
// whatever CIDR comes first, or at random.
func chosen(choose func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, random rand.Source) (netip.Addr, bool)) proptest.Factory {
	return wrapped(func(s subject, env proptest.Env) proptest.Allocator {
		return chooser{s, choose, rand.NewPCG(env.Random.Uint64(), 1)}
	})
}

type chooser struct {
	subject
	choose func(s subject, span func(cidr.Range) cidr.Span, r cidr.Range, random rand.Source) (netip.Addr, bool)
	random rand.Source
}

func (c chooser) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	for _, part := range []func(cidr.Range) cidr.Span{cidr.Range.Dynamic, cidr.Range.Static} {
		for _, p := range c.View().Snapshot().Topology().Maximal(family) {
			addr, ok := c.choose(c.subject, part, p.Range, c.random)
			if ok && c.subject.AllocateAt(ctx, owner, addr) == nil {
				return addr, nil
			}
		}
	}
	return c.subject.AllocateNext(ctx, owner, family)
}

// absent is one of the free addresses of a span, counted modulo their number.
func (s subject) absent(span cidr.Span, k uint64) (netip.Addr, bool) {
	present := s.View().Snapshot().Present(span.Family())
	if span.IsEmpty() {
		return netip.Addr{}, false
	}
	free := span.Size().Sub(cidr.U128(present.Count(span))).Saturate64()
	if free == 0 {
		return netip.Addr{}, false
	}
	return present.KthAbsent(span, cidr.U128(k%free))
}

type equal struct{}

func (equal) Name() string { return "equal" }

func (equal) Rank(c weighting.Candidate) weighting.Rank {
	if c.Free.IsZero() {
		return weighting.Rank{}
	}
	return weighting.Rank{Weight: cidr.U128(uint(1))}
}

type bySize struct{}

func (bySize) Name() string { return "by-size" }

func (bySize) Rank(c weighting.Candidate) weighting.Rank {
	if c.Free.IsZero() {
		return weighting.Rank{}
	}
	return weighting.Rank{Weight: c.Size}
}

type anybody struct {
	subject
	env proptest.Env
}

func (a anybody) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	if obj, err := a.env.Client.IPAddresses().Get(ctx, addr.String(), metav1.GetOptions{}); err == nil {
		owner = informer.OwnerOf(obj.Spec.ParentRef)
	}
	return a.subject.Release(ctx, owner, addr)
}

type noRollBack struct{ subject }

func (n noRollBack) AllocateDual(ctx context.Context, owner proptest.Owner, families [2]cidr.Family) (out [2]netip.Addr, err error) {
	for i, f := range families {
		if out[i], err = n.AllocateNext(ctx, owner, f); err != nil {
			return out, err
		}
	}
	return out, nil
}

type coveredRelease struct{ subject }

func (c coveredRelease) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	for _, p := range c.View().Snapshot().Topology().Covering(addr) {
		if p.Ready {
			return c.subject.Release(ctx, owner, addr)
		}
	}
	return nil
}

// recounted is a mutant whose counts are wrong.
func recounted(change func(*proptest.Count)) proptest.Factory {
	return wrapped(func(s subject, _ proptest.Env) proptest.Allocator { return counter{s, change} })
}

type counter struct {
	subject
	change func(*proptest.Count)
}

func (c counter) Counts() []proptest.Count {
	counts := c.subject.Counts()
	for i := range counts {
		c.change(&counts[i])
	}
	return counts
}

type lister struct {
	subject
	env proptest.Env
}

func (l lister) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	if _, err := l.env.Client.IPAddresses().List(ctx, metav1.ListOptions{}); err != nil {
		return netip.Addr{}, err
	}
	return l.subject.AllocateNext(ctx, owner, family)
}

type retrier struct{ subject }

func (r retrier) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (addr netip.Addr, err error) {
	for range 3 {
		if addr, err = r.subject.AllocateNext(ctx, owner, family); err == nil || r.Classify(err) != proptest.APIError {
			return addr, err
		}
	}
	return addr, err
}
