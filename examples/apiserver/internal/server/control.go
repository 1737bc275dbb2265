// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/examples/apiserver/internal/allocation"
	"github.com/metacidr/metacidr/lifecycle"
	"github.com/metacidr/metacidr/lifecycle/defaultcidr"
	"github.com/metacidr/metacidr/lifecycle/repair"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
	"github.com/metacidr/metacidr/meta"
)

const (
	component = "metacidr-apiserver"
	// leaseName is that of the controllers of which one runs at a time.
	leaseName = "metacidr-apiserver"
	// leaseDuration is how long a replica that was killed keeps its controllers from others.
	leaseDuration = 6 * time.Second
	// retry is how soon what has failed is tried again, and period how often what is there is looked at.
	retry  = 100 * time.Millisecond
	period = 3 * time.Second
)

// control is all that runs inside the server as a client of it.
type control struct {
	options   *Options
	ranges    []cidr.Range
	client    kubernetes.Interface
	addresses *meta.MetaAllocator
	defaults  *defaultcidr.Controller
	recorder  *recorder
	// leading are the controllers of a leader; nil on the others.
	leading atomic.Pointer[leader]

	bootstrapped atomic.Bool
}

// leader are the controllers of which one runs at a time.
type leader struct {
	cidrs  *servicecidr.Controller
	repair *repair.Controller
}

func newControl(o *Options, loopback *rest.Config) (*control, error) {
	ranges, _, err := o.ranges()
	if err != nil {
		return nil, err
	}
	// The server has its own limits.
	loopback.QPS = -1
	if o.wrapLoopback != nil {
		loopback.Wrap(o.wrapLoopback)
	}
	client, err := kubernetes.NewForConfig(loopback)
	if err != nil {
		return nil, err
	}
	c := &control{options: o, ranges: ranges, client: client}
	// The lease has to be shorter than the grace period of every replica: give all the same.
	if c.addresses, err = meta.New(meta.Config{Client: client.NetworkingV1(), Lease: shorter(o.GracePeriod/2, meta.DefaultLease)}); err != nil {
		return nil, err
	}
	c.recorder = newRecorder(client)
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	if c.defaults, err = defaultcidr.New(defaultcidr.Config{Client: client.NetworkingV1(), Ranges: texts, Recorder: c.recorder}); err != nil {
		return nil, err
	}
	// What is wrong with their configuration shows now, not when the replica leads.
	_, err = c.newLeader()
	return c, err
}

// newLeader makes controllers: each runs once, and a replica may lead more than once.
func (c *control) newLeader() (*leader, error) {
	cidrs, err := servicecidr.New(servicecidr.Config{Client: c.client.NetworkingV1(), View: c.addresses.View(), GracePeriod: c.options.GracePeriod, Recorder: c.recorder})
	if err != nil {
		return nil, err
	}
	repairs, err := repair.New(repair.Config{
		Client: c.client.NetworkingV1(), View: c.addresses.View(), LeakGrace: c.options.LeakGrace, Recorder: c.recorder,
		Interval: shorter(c.options.LeakGrace, repair.DefaultInterval), MinSpacing: shorter(c.options.LeakGrace, repair.DefaultMinSpacing),
		MismatchGrace: shorter(c.options.LeakGrace, repair.DefaultMismatchGrace), Owners: []repair.Registration{{Owners: repair.Services(c.client.CoreV1())}},
	})
	return &leader{cidrs, repairs}, err
}

// shorter is a, if that is set and shorter. A grace period that is short has what waits for it be short.
func shorter(a, b time.Duration) time.Duration {
	if a > 0 && a < b {
		return a
	}
	return b
}

// portGrace is for how long a node port must have been unclaimed before it is freed: as an address.
func (c *control) portGrace() time.Duration {
	if c.options.LeakGrace > 0 {
		return c.options.LeakGrace
	}
	return repair.DefaultLeakGrace
}

func (c *control) collectors() []prometheus.Collector {
	return []prometheus.Collector{c.addresses.Collector(), c.defaults, ofLeader{c}}
}

// ofLeader are the metrics of the elected controllers, while this replica leads.
type ofLeader struct{ *control }

// Describe describes nothing: what there is depends on who leads.
func (ofLeader) Describe(chan<- *prometheus.Desc) {}

// Collect is for prometheus.Collector.
func (o ofLeader) Collect(ch chan<- prometheus.Metric) {
	if l := o.leading.Load(); l != nil {
		l.cidrs.Collector().Collect(ch)
		l.repair.Collect(ch)
	}
}

// checks are those of /readyz.
func (c *control) checks() []healthz.HealthChecker {
	return []healthz.HealthChecker{
		check("allocator", func() error {
			if !c.addresses.HasSynced() {
				return errNotYet
			}
			return nil
		}),
		check("bootstrap", func() error {
			if !c.bootstrapped.Load() {
				return errNotYet
			}
			return nil
		}),
	}
}

// run runs everything until ctx is done.
func (c *control) run(ctx context.Context, ports *allocation.Ports) {
	defer c.recorder.start()()
	var all sync.WaitGroup
	defer all.Wait()
	start := func(what string, run func(context.Context) error) {
		all.Go(func() {
			// Nothing here ends before ctx but by an error.
			wait.UntilWithContext(ctx, func(ctx context.Context) {
				if err := run(ctx); err != nil && ctx.Err() == nil {
					utilruntime.HandleErrorWithContext(ctx, err, "Stopped; it is started again", "what", what)
				}
			}, time.Second)
		})
	}
	all.Go(func() {
		if err := c.addresses.Run(ctx); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "The allocator has ended")
		}
	})
	all.Go(func() {
		if err := c.defaults.Run(ctx); err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "The default ServiceCIDR is no longer looked after")
		}
	})
	all.Go(func() { c.bootstrap(ctx) })
	host, err := os.Hostname()
	if err != nil {
		host = component
	}
	election := lifecycle.Election{Client: c.client.CoordinationV1(), Namespace: metav1.NamespaceSystem, Name: leaseName,
		Identity: host + "_" + uuid.NewString(), Duration: leaseDuration}
	start("the elected controllers", func(ctx context.Context) error {
		return election.Run(ctx, func(ctx context.Context) error { return c.lead(ctx, ports) })
	})
}

// lead is what one replica does for all. A controller runs once: a replica that leads again makes new ones.
func (c *control) lead(ctx context.Context, ports *allocation.Ports) error {
	fresh, err := c.newLeader()
	if err != nil {
		return err
	}
	c.leading.Store(fresh)
	defer c.leading.Store(nil)
	// One that ends, ends the others: then this replica stands for election again, with new ones.
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return fresh.cidrs.Run(ctx) })
	all.Go(func() error { return fresh.repair.Run(ctx) })
	all.Go(func() error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			err := ports.Collect(ctx, c.portGrace(), func(ctx context.Context) ([]corev1.Service, error) {
				list, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
				if err != nil {
					return nil, err
				}
				return list.Items, nil
			})
			if err != nil && ctx.Err() == nil {
				utilruntime.HandleErrorWithContext(ctx, err, "Collecting node ports")
			}
		}, c.portGrace()/2)
		return nil
	})
	return all.Wait()
}

// bootstrap makes what a cluster always has: its namespaces, and the Service kubernetes at the first address of the first
// range. It looks again from time to time.
func (c *control) bootstrap(ctx context.Context) {
	for ctx.Err() == nil {
		err := c.bootstrapOnce(ctx)
		pause := period
		if err != nil {
			pause = retry
		} else {
			c.bootstrapped.Store(true)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (c *control) bootstrapOnce(ctx context.Context) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		_, err := c.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if !c.addresses.HasSynced() {
		return errNotYet
	}
	_, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	first := c.ranges[0].First().String()
	_, err = c.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: first, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("making Service default/kubernetes at %s: %w", first, err)
	}
	return nil
}
