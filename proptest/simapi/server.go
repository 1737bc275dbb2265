// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// Server is the simulated API server. Make one with New; the zero value is not
// usable and a Server must not be copied. All methods may be called concurrently,
// also from hooks.
type Server struct {
	clock clock.PassiveClock

	ipAddresses  *store[*networkingv1.IPAddress]
	serviceCIDRs *store[*networkingv1.ServiceCIDR]
	services     *store[*corev1.Service]
	leases       *store[*coordinationv1.Lease]
	calls        interceptor

	closing  chan struct{} // closed by Close; frees blocked calls
	closeOne sync.Once
	pumps    sync.WaitGroup // one per open watch

	mu        sync.Mutex // guards all below, and what is in the stores
	closed    bool
	revision  uint64
	compacted uint64 // changes up to and including this revision are forgotten
	uids      uint64
	gates     map[string]*gate
}

// Option configures New.
type Option func(*Server)

// WithClock sets the clock that stamps creationTimestamp and deletionTimestamp
// (truncated to seconds, as a real server does). The default one stands still.
func WithClock(c clock.PassiveClock) Option {
	return func(s *Server) { s.clock = c }
}

// New returns an empty server at revision 1. Close it to end its watches.
func New(opts ...Option) *Server {
	s := &Server{
		clock:    clocktesting.NewFakePassiveClock(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)),
		closing:  make(chan struct{}),
		revision: 1,
		gates:    make(map[string]*gate),
	}
	s.ipAddresses = newStore(s, ipAddressKind())
	s.serviceCIDRs = newStore(s, serviceCIDRKind())
	s.services = newStore(s, serviceKind())
	s.leases = newStore(s, leaseKind())
	for _, opt := range opts {
		opt(s)
	}
	return s
}

// Close ends every watch, frees every blocked call, and waits for the goroutines
// of the watches. Calls after it are answered ServiceUnavailable. It may be called
// more than once, but not from a hook.
func (s *Server) Close() {
	s.closeOne.Do(func() {
		close(s.closing)
		s.mu.Lock()
		s.closed = true
		var open []*stream
		for _, g := range s.gates {
			for w := range g.streams {
				open = append(open, w)
			}
		}
		s.mu.Unlock()
		for _, w := range open {
			w.Stop()
		}
	})
	s.pumps.Wait()
}

// Revision returns the revision of the latest change. A change raises it by one.
func (s *Server) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Compact forgets the history: a watch or an exact list from an older
// resourceVersion is answered 410 Gone (Expired). Open watches go on.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
	s.ipAddresses.history = nil
	s.serviceCIDRs.history = nil
	s.services.history = nil
	s.leases.history = nil
}

// Client returns the identity of one replica. Faults, holds and call counts can be
// aimed at it by name; several clients may share a name.
func (s *Server) Client(replica string) *Client {
	return &Client{server: s, replica: replica}
}

// Client is one replica's access to the server. It is safe for concurrent use. Its
// name is also the field manager of the writes that name none.
type Client struct {
	server  *Server
	replica string
}

var (
	_ networkingv1client.IPAddressesGetter  = (*Client)(nil)
	_ networkingv1client.ServiceCIDRsGetter = (*Client)(nil)
	_ corev1client.ServicesGetter           = (*Client)(nil)
	_ coordinationv1client.LeasesGetter     = (*Client)(nil)
)

// Replica returns the name that the client was made with.
func (c *Client) Replica() string { return c.replica }

// nextRevision takes the next revision. The caller holds s.mu.
func (s *Server) nextRevision() uint64 {
	s.revision++
	return s.revision
}

// nextUID returns a new UID: unique, and the same in every run of a test. The
// caller holds s.mu.
func (s *Server) nextUID() types.UID {
	s.uids++
	const form = "00000000-0000-4000-8000-000000000000"
	serial := strconv.FormatUint(s.uids, 16)
	return types.UID(form[:len(form)-len(serial)] + serial)
}

// now is the time as it comes back from a server: whole seconds.
func (s *Server) now() metav1.Time {
	return metav1.NewTime(s.clock.Now().Truncate(time.Second))
}

func formatRevision(r uint64) string { return strconv.FormatUint(r, 10) }
