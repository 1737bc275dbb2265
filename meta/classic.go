// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/allocator"
	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// ClassicInterface is the method set of Kubernetes' own ClusterIP allocators,
// with the versioned Service type in place of the internal one.
type ClassicInterface interface {
	Allocate(net.IP) error
	AllocateNext() (net.IP, error)
	AllocateService(*corev1.Service, net.IP) error
	AllocateNextService(*corev1.Service) (net.IP, error)
	Release(net.IP) error
	ForEach(func(net.IP))
	CIDR() net.IPNet
	IPFamily() corev1.IPFamily
	Has(net.IP) bool
	Used() int
	Free() int
	DryRun() ClassicInterface
	EnableMetrics()
	Destroy()
}

// ClassicConfig is how a Classic works.
type ClassicConfig struct {
	// Family is the one family a classic allocator serves; required.
	Family cidr.Family
	// Owner is for Allocate and AllocateNext, which name none. Without it those
	// two fail.
	Owner Owner
	// Timeout bounds each call, for the classic methods take no context; 0
	// means 30 s.
	Timeout time.Duration
}

// Classic serves code that was written for the classic allocator interface from
// a MetaAllocator. Its errors are this package's: test them with errors.Is.
type Classic struct {
	m       *MetaAllocator
	config  ClassicConfig
	dry     bool
	destroy func()
}

var _ ClassicInterface = (*Classic)(nil)

// NewClassic serves the classic interface from m, which somebody else runs.
// Errors wrap ErrInvalidConfig.
func NewClassic(m *MetaAllocator, config ClassicConfig) (*Classic, error) {
	switch {
	case m == nil:
		return nil, fmt.Errorf("%w: the MetaAllocator is nil", ErrInvalidConfig)
	case !config.Family.IsValid():
		return nil, fmt.Errorf("%w: unknown family %d: use cidr.IPv4 or cidr.IPv6", ErrInvalidConfig, uint8(config.Family))
	case config.Timeout < 0:
		return nil, fmt.Errorf("%w: negative Timeout %v", ErrInvalidConfig, config.Timeout)
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	return &Classic{m: m, config: config, destroy: func() {}}, nil
}

// StartClassic takes what the classic constructor takes: a client and two
// informers, which somebody else runs, and the family. It makes a MetaAllocator
// and runs it until Destroy.
func StartClassic(client informer.Client, serviceCIDRs, ipAddresses cache.SharedIndexInformer, isIPv6 bool) (*Classic, error) {
	m, err := New(Config{Client: client, ServiceCIDRs: serviceCIDRs, IPAddresses: ipAddresses})
	if err != nil {
		return nil, err
	}
	family := cidr.IPv4
	if isIPv6 {
		family = cidr.IPv6
	}
	c, err := NewClassic(m, ClassicConfig{Family: family})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "The allocator ended")
		}
	})
	c.destroy = func() { cancel(); wg.Wait() }
	return c, nil
}

func (c *Classic) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), c.config.Timeout)
}

// Allocate allocates the address for the configured owner.
func (c *Classic) Allocate(ip net.IP) error { return c.allocate(c.config.Owner, ip) }

// AllocateService allocates the address for a Service.
func (c *Classic) AllocateService(service *corev1.Service, ip net.IP) error {
	owner, err := serviceOwner(service)
	if err != nil {
		return err
	}
	return c.allocate(owner, ip)
}

// AllocateNext allocates any address for the configured owner.
func (c *Classic) AllocateNext() (net.IP, error) { return c.allocateNext(c.config.Owner) }

// AllocateNextService allocates any address for a Service.
func (c *Classic) AllocateNextService(service *corev1.Service) (net.IP, error) {
	owner, err := serviceOwner(service)
	if err != nil {
		return nil, err
	}
	return c.allocateNext(owner)
}

func serviceOwner(service *corev1.Service) (Owner, error) {
	if service == nil {
		return Owner{}, fmt.Errorf("%w: the Service is nil", ErrInvalidRequest)
	}
	return informer.ServiceOwner(service.Namespace, service.Name), nil
}

func (c *Classic) allocate(owner Owner, ip net.IP) error {
	addr, err := addrOf(ip)
	if err != nil {
		return err
	}
	ctx, cancel := c.context()
	defer cancel()
	_, err = c.m.Allocate(ctx, Request{Owner: owner, Families: []cidr.Family{c.config.Family}, Addresses: []netip.Addr{addr}, DryRun: c.dry})
	return err
}

func (c *Classic) allocateNext(owner Owner) (net.IP, error) {
	ctx, cancel := c.context()
	defer cancel()
	allocations, err := c.m.Allocate(ctx, Request{Owner: owner, Families: []cidr.Family{c.config.Family}, DryRun: c.dry})
	if err != nil {
		return nil, err
	}
	return net.IP(allocations[0].Address.AsSlice()), nil
}

// addrOf reads a net.IP, in which IPv4 may have 4 or 16 bytes.
func addrOf(ip net.IP) (netip.Addr, error) {
	addr, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%w: %d bytes are no IP address", ErrInvalidRequest, len(ip))
	}
	return addr.Unmap(), nil
}

// Release gives back an address whoever owns it, for the classic interface does
// not say. The object that is deleted is the one that was read.
func (c *Classic) Release(ip net.IP) error {
	addr, err := addrOf(ip)
	if err != nil {
		return err
	}
	if c.dry {
		return nil
	}
	ctx, cancel := c.context()
	defer cancel()
	obj, err := c.m.config.Client.IPAddresses().Get(ctx, addr.String(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("releasing %s: %w", addr, err)
	}
	return c.m.pool.Remove(ctx, allocator.Stray{Name: obj.Name, UID: obj.UID})
}

// ForEach calls f with every address of the family that is present, in order,
// as of the call.
func (c *Classic) ForEach(f func(net.IP)) {
	for addr := range c.m.view.Snapshot().Present(c.config.Family).All() {
		f(net.IP(addr.AsSlice()))
	}
}

// CIDR is the first maximal CIDR of the family, the zero IPNet if none is
// ready: the classic interface knows only one.
func (c *Classic) CIDR() net.IPNet {
	maximal := c.m.view.Snapshot().Topology().Maximal(c.config.Family)
	if len(maximal) == 0 {
		return net.IPNet{}
	}
	p := maximal[0].Range.Prefix()
	return net.IPNet{IP: net.IP(p.Addr().AsSlice()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// IPFamily is the configured family.
func (c *Classic) IPFamily() corev1.IPFamily { return corev1.IPFamily(c.config.Family.String()) }

// Has reports whether the address is present or about to be.
func (c *Classic) Has(ip net.IP) bool {
	addr, err := addrOf(ip)
	return err == nil && cidr.FamilyOf(addr) == c.config.Family && c.m.pool.Taken(c.config.Family).Has(addr)
}

// Used is how many addresses of the maximal CIDRs are taken, at most
// math.MaxInt.
func (c *Classic) Used() int { return c.sum(func(b BandStatus) cidr.Uint128 { return b.Taken }) }

// Free is how many addresses of the maximal CIDRs are free, at most
// math.MaxInt.
func (c *Classic) Free() int { return c.sum(func(b BandStatus) cidr.Uint128 { return b.Free }) }

func (c *Classic) sum(of func(BandStatus) cidr.Uint128) int {
	topology, taken := c.m.known()
	var total cidr.Uint128
	for _, p := range topology.Maximal(c.config.Family) {
		for _, b := range countBands(p.Range, taken) {
			total = total.AddSat(of(b))
		}
	}
	return int(total.SaturateInt64())
}

// DryRun answers as the allocator would and writes nothing.
func (c *Classic) DryRun() ClassicInterface {
	dry := *c
	dry.dry, dry.destroy = true, func() {}
	return &dry
}

// EnableMetrics does nothing: register MetaAllocator.Collector where the
// metrics are wanted.
func (c *Classic) EnableMetrics() {}

// Destroy stops what StartClassic started and waits for it.
func (c *Classic) Destroy() { c.destroy() }

// MetaAllocator is what serves the calls.
func (c *Classic) MetaAllocator() *MetaAllocator { return c.m }
