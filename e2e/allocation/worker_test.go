// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/meta"
)

// callTimeout bounds one call of a worker: in an outage some calls end by it, others by the server's answer.
const callTimeout = 2 * time.Second

// retryInterval is between two looks whether an outage is over.
const retryInterval = 50 * time.Millisecond

// worker allocates and releases for owners of its own: a load that goes on at a constant level.
type worker struct {
	replica *replica
	ledger  *ledger
	name    string
	random  *rand.Rand
	target  int          // addresses held, from which on it releases as often as it allocates
	fixed   []cidr.Range // where it asks for chosen addresses

	// outage is asked about an error of the API server's that is no refusal of the request. It returns when
	// it is worth going on; nil means that there must be no such error.
	outage func(context.Context, error)

	owners  int
	mine    []grant
	limbo   []grant        // whose release ended with an error
	outcome map[string]int // how the calls ended
}

func newWorker(r *replica, l *ledger, number, target int, fixed ...cidr.Range) *worker {
	return &worker{
		replica: r, ledger: l, name: fmt.Sprintf("%s-%d", r.name, number),
		random: rand.New(rand.NewPCG(uint64(number), 1)), target: target, fixed: fixed, outcome: map[string]int{},
	}
}

// run works until stop is closed.
func (w *worker) run(ctx context.Context, stop <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		if len(w.mine) > 0 && (len(w.mine) >= w.target || w.random.IntN(6) == 0) {
			w.release(ctx, w.random.IntN(len(w.mine)))
			continue
		}
		w.allocate(ctx, w.request())
	}
}

// request is for one address or for both families, sometimes a chosen one.
func (w *worker) request() meta.Request {
	w.owners++
	r := meta.Request{Owner: widget(fmt.Sprintf("%s-%d", w.name, w.owners))}
	switch w.random.IntN(10) {
	case 0, 1, 2:
		r.Families = []cidr.Family{cidr.IPv4}
	case 3, 4, 5:
		r.Families = []cidr.Family{cidr.IPv6}
	case 6, 7:
		r.Families = []cidr.Family{cidr.IPv4, cidr.IPv6}
	case 8:
		r.Families = []cidr.Family{cidr.IPv6, cidr.IPv4}
	default:
		in := w.fixed[w.random.IntN(len(w.fixed))].Usable()
		r.Addresses = []netip.Addr{in.At(cidr.RandBelow(w.random, in.Size()))}
		if w.random.IntN(3) == 0 { // and any address of the other family
			r.Families = []cidr.Family{cidr.IPv6, cidr.IPv4}
		}
	}
	return r
}

// widget is an owner that is no Service.
func widget(name string) meta.Owner {
	return meta.Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: name}
}

func (w *worker) allocate(ctx context.Context, request meta.Request) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	from := w.replica.View().Snapshot().Sequence()
	allocations, err := w.replica.Allocate(call, request)
	switch {
	case err == nil:
		for _, g := range allocationsOf(w.replica, request, from, allocations) {
			w.ledger.enter(g)
			w.mine = append(w.mine, g)
		}
		w.replica.granted.Add(1)
		w.outcome["granted"]++
	case len(request.Addresses) > 0 && (errors.Is(err, meta.ErrAllocated) || errors.Is(err, meta.ErrNotReady) || errors.Is(err, meta.ErrNotInRange)):
		w.outcome["refused"]++ // the address, or its CIDR, is not to be had: right whenever asked for by chance
	case w.outage != nil && !errors.Is(err, meta.ErrFull):
		w.replica.failed.Add(1)
		w.outcome["failed"]++
		w.outage(ctx, err)
	default:
		w.ledger.fault("allocating %v %v for %s: %v", request.Families, request.Addresses, request.Owner, err)
	}
}

func (w *worker) release(ctx context.Context, i int) {
	g := w.mine[i]
	w.mine[i] = w.mine[len(w.mine)-1]
	w.mine = w.mine[:len(w.mine)-1]
	w.ledger.leave(g)
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch err := w.replica.Release(call, g.owner, g.address); {
	case err == nil:
		w.outcome["released"]++
	case w.outage != nil:
		w.limbo = append(w.limbo, g)
		w.replica.failed.Add(1)
		w.outcome["release failed"]++
		w.outage(ctx, err)
	default:
		w.ledger.fault("releasing %s of %s: %v", g.address, g.owner, err)
	}
}

// releaseAll gives back all that the worker holds.
func (w *worker) releaseAll(ctx context.Context) {
	for len(w.mine) > 0 && ctx.Err() == nil {
		w.release(ctx, len(w.mine)-1)
	}
}

// retry sends the releases again that ended with an error. That is safe even if another owner has the
// address by now.
func (w *worker) retry(ctx context.Context) error {
	for len(w.limbo) > 0 {
		g := w.limbo[len(w.limbo)-1]
		if err := w.replica.Release(ctx, g.owner, g.address); err != nil {
			return err
		}
		w.limbo = w.limbo[:len(w.limbo)-1]
	}
	return nil
}

// serviceWorker creates and deletes Services, whose addresses kube-apiserver allocates.
type serviceWorker struct {
	client kubernetes.Interface
	ledger *ledger
	name   string
	target int

	made int
	mine []*corev1.Service
}

// run works until stop is closed.
func (w *serviceWorker) run(ctx context.Context, stop <-chan struct{}) {
	for ctx.Err() == nil {
		select {
		case <-stop:
			return
		default:
		}
		if len(w.mine) >= w.target {
			w.delete(ctx)
			continue
		}
		w.made++
		if service, err := createService(ctx, w.client, w.ledger, fmt.Sprintf("%s-%d", w.name, w.made)); err != nil {
			w.ledger.fault("%v", err)
			return
		} else {
			w.mine = append(w.mine, service)
		}
	}
}

// delete deletes the oldest Service.
func (w *serviceWorker) delete(ctx context.Context) {
	service := w.mine[0]
	w.mine = w.mine[1:]
	if err := deleteService(ctx, w.client, w.ledger, service); err != nil {
		w.ledger.fault("%v", err)
	}
}

// createService creates a Service that prefers both families, and enters its addresses.
func createService(ctx context.Context, client kubernetes.Interface, l *ledger, name string, clusterIPs ...string) (*corev1.Service, error) {
	policy := corev1.IPFamilyPolicyPreferDualStack
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Ports:          []corev1.ServicePort{{Port: 80}},
			IPFamilyPolicy: &policy,
			ClusterIPs:     clusterIPs,
		},
	}
	if len(clusterIPs) > 0 {
		service.Spec.ClusterIP = clusterIPs[0]
	}
	service, err := client.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create Service %s: %w", name, err)
	}
	for _, ip := range service.Spec.ClusterIPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, fmt.Errorf("clusterIPs of Service %s: %w", name, err)
		}
		l.enter(grant{address: addr, owner: serviceOwner(name)})
	}
	return service, nil
}

// deleteService takes the addresses of a Service out of the ledger and deletes it.
func deleteService(ctx context.Context, client kubernetes.Interface, l *ledger, service *corev1.Service) error {
	for _, ip := range service.Spec.ClusterIPs {
		l.leave(grant{address: netip.MustParseAddr(ip), owner: serviceOwner(service.Name)})
	}
	if err := client.CoreV1().Services("default").Delete(ctx, service.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete Service %s: %w", service.Name, err)
	}
	return nil
}

func serviceOwner(name string) meta.Owner {
	return meta.Owner{Resource: "services", Namespace: "default", Name: name}
}
