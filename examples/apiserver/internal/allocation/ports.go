// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/examples/apiserver/internal/validation"
)

// The node ports that are given out, as kube-apiserver's default.
const (
	FirstPort int32 = 30000
	LastPort  int32 = 32767
)

// Ports gives out node ports. The truth is a key in etcd for each, written only where there is none, so replicas cannot
// give out one port twice:
//
//	<prefix>/30080 = "default/web"
//
// A port belongs to a Service, for all its protocols. What a crash leaves is removed by Collect.
type Ports struct {
	etcd   *clientv3.Client
	prefix string
	clock  clock.PassiveClock

	mu     sync.Mutex // guards random and leaked
	random *rand.Rand
	// leaked is since when a key was seen that no Service claims, by its port and revision.
	leaked map[string]time.Time
}

// NewPorts keeps the keys under prefix.
func NewPorts(etcd *clientv3.Client, prefix string, random rand.Source, now clock.PassiveClock) *Ports {
	return &Ports{etcd: etcd, prefix: strings.TrimSuffix(prefix, "/"), clock: now, random: rand.New(random), leaked: map[string]time.Time{}}
}

func (p *Ports) key(port int32) string { return p.prefix + "/" + strconv.Itoa(int(port)) }

func ownerOf(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// take reserves a port for a Service. false means that another has it.
func (p *Ports) take(ctx context.Context, svc *corev1.Service, port int32) (bool, error) {
	key := p.key(port)
	answer, err := p.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, ownerOf(svc))).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return false, apierrors.NewServerTimeout(corev1.Resource("services"), fmt.Sprintf("reserve node port %d", port), 1)
	}
	if answer.Succeeded {
		return true, nil
	}
	kvs := answer.Responses[0].GetResponseRange().Kvs
	return len(kvs) == 1 && string(kvs[0].Value) == ownerOf(svc), nil
}

// release frees ports that the Service has.
func (p *Ports) release(ctx context.Context, svc *corev1.Service, ports ...int32) {
	for _, port := range ports {
		key := p.key(port)
		_, err := p.etcd.Txn(ctx).If(clientv3.Compare(clientv3.Value(key), "=", ownerOf(svc))).Then(clientv3.OpDelete(key)).Commit()
		if err != nil {
			utilruntime.HandleErrorWithContext(ctx, err, "Releasing a node port; Collect will", "service", ownerOf(svc), "port", port)
		}
	}
}

// begin reserves what the Service names and does not have, and gives it what it lacks. taken are the ports that the same
// call has reserved before; it returns those that it has now.
func (p *Ports) begin(ctx context.Context, svc, old *corev1.Service, taken []int32, dryRun bool) ([]int32, error) {
	had := nodePorts(old)
	named := nodePorts(svc)
	for _, port := range named {
		if slices.Contains(had, port) || slices.Contains(taken, port) {
			continue
		}
		at := portPath(svc, port)
		if port < FirstPort || port > LastPort {
			return taken, invalid(svc, field.Invalid(at, port, fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", FirstPort, LastPort)))
		}
		if dryRun {
			continue
		}
		ok, err := p.take(ctx, svc, port)
		if err != nil {
			return taken, err
		}
		if !ok {
			return taken, invalid(svc, field.Invalid(at, port, "provided port is already allocated"))
		}
		taken = append(taken, port)
	}
	next := func() (int32, error) {
		port, err := p.any(ctx, svc, dryRun)
		if err == nil && !dryRun {
			taken = append(taken, port)
		}
		return port, err
	}
	if validation.AllocatesNodePorts(svc) {
		// One number serves one port of each protocol.
		used := map[corev1.Protocol][]int32{}
		for _, port := range svc.Spec.Ports {
			used[port.Protocol] = append(used[port.Protocol], port.NodePort)
		}
		for i := range svc.Spec.Ports {
			port := &svc.Spec.Ports[i]
			if port.NodePort != 0 {
				continue
			}
			reuse := slices.IndexFunc(taken, func(n int32) bool {
				return n != svc.Spec.HealthCheckNodePort && !slices.Contains(used[port.Protocol], n) && slices.Contains(nodePorts(svc), n)
			})
			if reuse >= 0 {
				port.NodePort = taken[reuse]
			} else {
				n, err := next()
				if err != nil {
					return taken, err
				}
				port.NodePort = n
			}
			used[port.Protocol] = append(used[port.Protocol], port.NodePort)
		}
	}
	if validation.HasHealthCheckNodePort(svc) && svc.Spec.HealthCheckNodePort == 0 {
		n, err := next()
		if err != nil {
			return taken, err
		}
		svc.Spec.HealthCheckNodePort = n
	}
	return taken, nil
}

// any reserves a port: from a random start on, the first free one.
func (p *Ports) any(ctx context.Context, svc *corev1.Service, dryRun bool) (int32, error) {
	p.mu.Lock()
	start := p.random.Int32N(LastPort - FirstPort + 1)
	p.mu.Unlock()
	if dryRun {
		return FirstPort + start, nil
	}
	for i := range LastPort - FirstPort + 1 {
		port := FirstPort + (start+i)%(LastPort-FirstPort+1)
		ok, err := p.take(ctx, svc, port)
		if err != nil {
			return 0, err
		}
		if ok && !slices.Contains(nodePorts(svc), port) {
			return port, nil
		}
	}
	return 0, apierrors.NewInternalError(fmt.Errorf("all node ports from %d to %d are taken", FirstPort, LastPort))
}

// settle frees what the written Service no longer has.
func (p *Ports) settle(ctx context.Context, now, old *corev1.Service, taken []int32) {
	has := nodePorts(now)
	for _, port := range append(nodePorts(old), taken...) {
		if !slices.Contains(has, port) {
			p.release(ctx, now, port)
		}
	}
}

// undo frees what a refused write has reserved.
func (p *Ports) undo(ctx context.Context, now, old *corev1.Service, taken []int32) {
	had := nodePorts(old)
	for _, port := range taken {
		if !slices.Contains(had, port) {
			p.release(ctx, now, port)
		}
	}
}

// Collect removes keys that no Service has claimed for as long as grace, and makes those that are missing. services is
// asked after the keys were read, so a Service that was written meanwhile is seen.
func (p *Ports) Collect(ctx context.Context, grace time.Duration, services func(context.Context) ([]corev1.Service, error)) error {
	answer, err := p.etcd.Get(ctx, p.prefix+"/", clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("reading the node ports: %w", err)
	}
	all, err := services(ctx)
	if err != nil {
		return err
	}
	claimed := map[string]string{}
	for i := range all {
		for _, port := range nodePorts(&all[i]) {
			claimed[p.key(port)] = ownerOf(&all[i])
		}
	}
	now := p.clock.Now()
	p.mu.Lock()
	seen := map[string]time.Time{}
	var old []string
	revisions := map[string]int64{}
	for _, kv := range answer.Kvs {
		key := string(kv.Key)
		revisions[key] = kv.ModRevision
		if claimed[key] == string(kv.Value) {
			continue
		}
		id := fmt.Sprintf("%s@%d", key, kv.ModRevision)
		since, known := p.leaked[id]
		if !known {
			since = now
		}
		seen[id] = since
		if now.Sub(since) >= grace {
			old = append(old, key)
		}
	}
	p.leaked = seen
	p.mu.Unlock()
	for _, key := range old {
		_, err := p.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revisions[key])).Then(clientv3.OpDelete(key)).Commit()
		if err != nil {
			return fmt.Errorf("collecting node port %s: %w", key, err)
		}
	}
	for key, owner := range claimed {
		if revisions[key] != 0 {
			continue
		}
		_, err := p.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, owner)).Commit()
		if err != nil {
			return fmt.Errorf("restoring node port %s: %w", key, err)
		}
	}
	return nil
}

// nodePorts are those that a Service has, each once.
func nodePorts(svc *corev1.Service) []int32 {
	if svc == nil {
		return nil
	}
	var all []int32
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 && !slices.Contains(all, p.NodePort) {
			all = append(all, p.NodePort)
		}
	}
	if svc.Spec.HealthCheckNodePort != 0 {
		all = append(all, svc.Spec.HealthCheckNodePort)
	}
	return all
}

func portPath(svc *corev1.Service, port int32) *field.Path {
	spec := field.NewPath("spec")
	for i, p := range svc.Spec.Ports {
		if p.NodePort == port {
			return spec.Child("ports").Index(i).Child("nodePort")
		}
	}
	return spec.Child("healthCheckNodePort")
}

func invalid(svc *corev1.Service, err *field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), svc.Name, field.ErrorList{err})
}

func invalidClusterIPs(svc *corev1.Service, err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("spec", "clusterIPs"), svc.Spec.ClusterIPs, err.Error())}
}
