// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest"
)

// drawer is a mutant with its own way to draw among the CIDRs; in the one drawn it
// picks by the walk, as is right.
type drawer struct {
	subject
	random *rand.Rand
	order  func(d drawer, prefixes []*informer.Prefix, part func(cidr.Range) cidr.Span) []*informer.Prefix
}

func draw(env proptest.Env) *rand.Rand { return rand.New(rand.NewPCG(env.Random.Uint64(), 1)) }

func (d drawer) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	for _, part := range []func(cidr.Range) cidr.Span{cidr.Range.Dynamic, cidr.Range.Static} {
		var ready []*informer.Prefix
		for _, p := range d.View().Snapshot().Topology().Prefixes() {
			if p.Ready && p.Range.Family() == family {
				ready = append(ready, p)
			}
		}
		for _, p := range d.order(d, ready, part) {
			addr, ok := d.walk(part(p.Range), d.random.Uint64(), true)
			if ok && d.subject.AllocateAt(ctx, owner, addr) == nil {
				return addr, nil
			}
		}
	}
	return d.subject.AllocateNext(ctx, owner, family)
}

// inMapOrder lets a map decide among the maximal ones.
func inMapOrder(d drawer, prefixes []*informer.Prefix, _ func(cidr.Range) cidr.Span) []*informer.Prefix {
	prefixes = slices.DeleteFunc(prefixes, func(p *informer.Prefix) bool { return !p.Maximal })
	// A map's order would differ from run to run.
	d.random.Shuffle(len(prefixes), func(i, j int) { prefixes[i], prefixes[j] = prefixes[j], prefixes[i] })
	return prefixes
}

// nestedToo draws by free addresses, among nested ones as well.
func nestedToo(d drawer, prefixes []*informer.Prefix, part func(cidr.Range) cidr.Span) []*informer.Prefix {
	var out []*informer.Prefix
	for len(prefixes) > 0 {
		sum := 0.0
		free := make([]float64, len(prefixes))
		for i, p := range prefixes {
			span := part(p.Range)
			free[i] = span.Size().Float64() - float64(d.View().Snapshot().Present(span.Family()).Count(span))
			sum += free[i]
		}
		at := d.random.Float64() * sum
		i := slices.IndexFunc(free, func(f float64) bool { at -= f; return at < 0 })
		if i < 0 {
			return out
		}
		out = append(out, prefixes[i])
		prefixes = slices.Delete(prefixes, i, i+1)
	}
	return out
}

// walk is the first free address from a start on; then, with wrap, from the first
// one on to the start, as is right. Without, it begins once more as if there had
// been no start.
func (s subject) walk(span cidr.Span, start uint64, wrap bool) (netip.Addr, bool) {
	if span.IsEmpty() {
		return netip.Addr{}, false
	}
	present := s.View().Snapshot().Present(span.Family())
	at := span.At(cidr.U128(start % span.Size().Saturate64()))
	for a := at; span.Contains(a); a = a.Next() {
		if !present.Has(a) {
			return a, true
		}
		if !wrap {
			return s.absent(span, 0)
		}
	}
	return s.absent(span, 0)
}

// twinsKept overlooks what becomes of a ServiceCIDR whose prefix another one
// carried when it was seen first.
func twinsKept(env proptest.Env) (proptest.Allocator, error) {
	var mu sync.Mutex // guards what follows
	carriers := map[string]map[string]bool{}
	env.Client = newClient(env.Client, func(c *client) {
		c.cidr = func(obj *networkingv1.ServiceCIDR) {
			mu.Lock()
			defer mu.Unlock()
			for _, prefix := range obj.Spec.CIDRs {
				if carriers[prefix] == nil {
					carriers[prefix] = map[string]bool{}
				}
				carriers[prefix][obj.Name] = true
				if len(carriers[prefix]) > 1 {
					obj.DeletionTimestamp, obj.Status.Conditions = nil, nil
				}
			}
		}
	})
	return newSubject(env, nil)
}

// leaking takes an address whose create was refused for one that is taken, from
// then on.
func leaking(env proptest.Env) (proptest.Allocator, error) {
	var leaked sync.Map
	env.Client = newClient(env.Client, func(c *client) {
		c.create = func(ctx context.Context, real networkingv1client.IPAddressInterface, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
			if _, ok := leaked.Load(obj.Name); ok {
				return nil, apierrors.NewAlreadyExists(networkingv1.Resource("ipaddresses"), obj.Name)
			}
			made, err := real.Create(ctx, obj, opts)
			if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) {
				leaked.Store(obj.Name, true)
			}
			return made, err
		}
	})
	return newSubject(env, nil)
}

// relisted counts one address twice once it has listed for the second time.
func relisted(env proptest.Env) (proptest.Allocator, error) {
	lists := new(atomic.Int64)
	env.Client = newClient(env.Client, func(c *client) { c.watched = func() { lists.Add(1) } })
	s, err := newSubject(env, nil)
	return counter{s, func(c *proptest.Count) {
		if one := cidr.U128(uint(1)); lists.Load() > 1 && !c.Free.IsZero() && !c.Used.IsZero() {
			c.Free, c.Used = c.Free.Sub(one), c.Used.Add(one)
		}
	}}, err
}
