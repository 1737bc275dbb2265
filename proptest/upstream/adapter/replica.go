// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest"
)

// Options say how upstream's allocator is put under test.
type Options struct {
	// Visible puts a lock that bubbles know before upstream's mutex: see the package.
	Visible bool
	// Careful has each release read the IPAddress first, and leave it if it is not
	// the owner's. Upstream leaves that to its callers.
	Careful bool
	// OnCall, if not nil, is called at each write of an IPAddress and at each start
	// of a replica, concurrently.
	OnCall func()
}

// New is the proptest.Factory of upstream's allocator.
func (o Options) New(env proptest.Env) (proptest.Allocator, error) {
	if o.OnCall == nil {
		o.OnCall = func() {}
	}
	o.OnCall()
	r := &replica{env: env, options: o, started: make(chan struct{})}
	base := networking{client: env.Client, section: newSection(false), onCall: o.OnCall}
	r.factory = informers.NewSharedInformerFactory(clientset{networking: base}, 0)
	r.cidrs = r.factory.Networking().V1().ServiceCIDRs()
	r.addresses = r.factory.Networking().V1().IPAddresses()
	r.cidrs.Informer()
	r.addresses.Informer()
	return r, nil
}

// replica is what one kube-apiserver has: one set of informers, and a MetaAllocator
// for each family. All its methods may be called concurrently.
type replica struct {
	env       proptest.Env
	options   Options
	factory   informers.SharedInformerFactory
	cidrs     networkingv1informers.ServiceCIDRInformer
	addresses networkingv1informers.IPAddressInformer

	started  chan struct{}
	families map[cidr.Family]*perFamily // when started
}

type perFamily struct {
	*ipallocator.MetaAllocator
	section *section
	looked  *once // it has looked at the ServiceCIDRs for the first time
}

// Run runs the informers and both MetaAllocators.
func (r *replica) Run(ctx context.Context) error {
	// Another time is another seed. It is less than the suite waits for a start.
	time.Sleep(time.Duration(rand.New(r.env.Random).IntN(100_000)))
	families := map[cidr.Family]*perFamily{}
	for _, family := range []cidr.Family{cidr.IPv4, cidr.IPv6} {
		f := &perFamily{section: newSection(r.options.Visible), looked: newOnce()}
		client := networking{client: r.env.Client, section: f.section, onCall: r.options.OnCall}
		var err error
		f.MetaAllocator, err = ipallocator.NewMetaAllocator(client, serviceCIDRs{r.cidrs, f.section, f.looked.close}, r.addresses, family == cidr.IPv6, nil)
		if err != nil {
			return fmt.Errorf("upstream's %s allocator: %w", family, err)
		}
		defer f.Destroy()
		families[family] = f
	}
	r.families = families
	close(r.started)
	r.factory.StartWithContext(ctx)
	<-ctx.Done()
	r.factory.Shutdown()
	return nil
}

// Synced is that the informers are.
func (r *replica) Synced() bool {
	return r.cidrs.Informer().HasSynced() && r.addresses.Informer().HasSynced()
}

// of is the allocator of a family, which has looked at the ServiceCIDRs if they are
// known.
func (r *replica) of(ctx context.Context, family cidr.Family) (*perFamily, error) {
	select {
	case <-r.started:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f := r.families[family]
	if f == nil {
		return nil, fmt.Errorf("no such family: %s", family)
	}
	if r.Synced() && !f.looked.closed() {
		timeout := time.NewTimer(300 * time.Millisecond) // of no ServiceCIDR it is not told
		defer timeout.Stop()
		select {
		case <-f.looked.done:
		case <-timeout.C:
			f.looked.close()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f, nil
}

// AllocateNext is upstream's AllocateNextService.
func (r *replica) AllocateNext(ctx context.Context, owner proptest.Owner, family cidr.Family) (netip.Addr, error) {
	f, err := r.of(ctx, family)
	if err != nil {
		return netip.Addr{}, err
	}
	var ip net.IP
	f.section.across(func() { ip, err = f.AllocateNextService(serviceFor(owner)) })
	if err != nil {
		return netip.Addr{}, err
	}
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Addr{}, fmt.Errorf("upstream allocated %v, which is no address", ip)
	}
	return addr.Unmap(), nil
}

// AllocateAt is upstream's AllocateService.
func (r *replica) AllocateAt(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	f, err := r.of(ctx, cidr.FamilyOf(addr))
	if err != nil {
		return err
	}
	f.section.untilCall(func() { err = f.AllocateService(serviceFor(owner), addr.AsSlice()) })
	return err
}

// Release is upstream's, which knows no owner.
func (r *replica) Release(ctx context.Context, owner proptest.Owner, addr netip.Addr) error {
	f, err := r.of(ctx, cidr.FamilyOf(addr))
	if err != nil {
		return err
	}
	if r.options.Careful {
		obj, err := r.env.Client.IPAddresses().Get(ctx, addr.String(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && informer.OwnerOf(obj.Spec.ParentRef) != owner {
			return nil
		}
		if err != nil {
			return err
		}
	}
	f.section.untilCall(func() { err = f.MetaAllocator.Release(addr.AsSlice()) })
	return err
}

// Classify knows upstream's four errors. It has none for NotSynced, NoServiceCIDR
// and InvalidRequest.
func (r *replica) Classify(err error) proptest.Outcome {
	var notInRange *ipallocator.ErrNotInRange
	switch {
	case errors.Is(err, ipallocator.ErrFull):
		return proptest.Full
	case errors.Is(err, ipallocator.ErrNotReady):
		return proptest.NotReady
	case errors.Is(err, ipallocator.ErrAllocated):
		return proptest.AlreadyAllocated
	case errors.Is(err, ipallocator.ErrMismatchedNetwork), errors.As(err, &notInRange):
		return proptest.NotInRange
	}
	return proptest.APIError
}

// Counts are those of upstream's gauges: it makes them with an Allocator of one CIDR.
func (r *replica) Counts() (out []proptest.Count) {
	for _, prefix := range r.prefixes() {
		_, ipnet, err := net.ParseCIDR(prefix.String())
		if err != nil {
			continue
		}
		client := networking{client: r.env.Client, section: newSection(false), onCall: r.options.OnCall}
		a, err := ipallocator.NewIPAllocator(ipnet, client, r.addresses)
		if err != nil {
			continue
		}
		out = append(out, proptest.Count{Prefix: prefix, Band: cidr.BandNone, Free: cidr.U128(uint64(a.Free())), Used: cidr.U128(uint64(a.Used()))})
	}
	return out
}

// prefixes are those of the ServiceCIDRs in the cache, each once.
func (r *replica) prefixes() (out []netip.Prefix) {
	objects, _ := r.cidrs.Lister().List(labels.Everything()) // a cache has no error
	for _, obj := range objects {
		for _, s := range obj.Spec.CIDRs {
			if p, err := netip.ParsePrefix(s); err == nil && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out
}

// Explain says what is in the caches.
func (r *replica) Explain() string {
	var b strings.Builder
	objects, _ := r.cidrs.Lister().List(labels.Everything())
	for _, obj := range objects {
		fmt.Fprintf(&b, "in its cache: ServiceCIDR %s %v", obj.Name, obj.Spec.CIDRs)
		if obj.DeletionTimestamp != nil {
			b.WriteString(", terminating")
		}
		for _, c := range obj.Status.Conditions {
			fmt.Fprintf(&b, ", %s=%s", c.Type, c.Status)
		}
		b.WriteByte('\n')
	}
	addresses, _ := r.addresses.Lister().List(labels.Everything())
	var names []string
	for _, a := range addresses {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	fmt.Fprintf(&b, "in its cache: IPAddresses %v", names)
	return b.String()
}
