// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/endpointslice"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// applied are manifests as people write them.
func applied() map[string]*corev1.Service {
	all := map[string]*corev1.Service{}
	for _, class := range classes(false) {
		s := class.service("web", class.name, 0)
		s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
		for i := range s.Spec.Ports {
			// An unset one would be marshalled as 0, which no manifest says.
			s.Spec.Ports[i].TargetPort = intstr.FromInt32(s.Spec.Ports[i].Port)
		}
		all[s.Name] = s
	}
	return all
}

// serverSide applies a manifest as GitOps tools do, without force.
func (c *cluster) serverSide(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	raw, err := json.Marshal(svc)
	if err != nil {
		return nil, err
	}
	// The empty status of a manifest is nobody's.
	var manifest map[string]any
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return nil, err
	}
	delete(manifest, "status")
	if raw, err = json.Marshal(manifest); err != nil {
		return nil, err
	}
	return c.client.CoreV1().Services(svc.Namespace).Patch(ctx, svc.Name, types.ApplyPatchType, raw, metav1.PatchOptions{FieldManager: "flux"})
}

const lastApplied = corev1.LastAppliedConfigAnnotation

// clientSide is the manifest with the annotation that kubectl apply leaves.
func clientSide(svc *corev1.Service) (*corev1.Service, error) {
	raw, err := json.Marshal(svc)
	if err != nil {
		return nil, err
	}
	out := svc.DeepCopy()
	out.Annotations[lastApplied] = string(raw)
	return out, nil
}

// threeWay is the patch that kubectl apply computes.
func threeWay(manifest, live *corev1.Service) (string, error) {
	modified, err := clientSide(manifest)
	if err != nil {
		return "", err
	}
	to, err := json.Marshal(modified)
	if err != nil {
		return "", err
	}
	current, err := json.Marshal(live)
	if err != nil {
		return "", err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.Service{})
	if err != nil {
		return "", err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch([]byte(live.Annotations[lastApplied]), to, current, schema, true)
	return string(patch), err
}

// After a move, the Services' own managers apply their manifests again, from the
// server's side and from kubectl's: no conflict, and nothing changes.
func TestManagersApplyAgain(t *testing.T) {
	c := startQuick(t)
	c.namespace(t, "web")
	for n, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			side := fmt.Sprintf("side-%d", n)
			c.sideRange(t, side, fmt.Sprintf("10.200.%d.0/24", n))
			services := c.client.CoreV1().Services("web")
			byServer, byClient := map[string]*corev1.Service{}, map[string]*corev1.Service{}
			at := 17
			into := func(svc *corev1.Service, make func(context.Context, *corev1.Service) error) {
				first := svc.DeepCopy()
				if svc.Spec.Type != corev1.ServiceTypeExternalName && svc.Spec.ClusterIP == "" {
					// As if the API server had drawn it: the manifest does not name it.
					first.Spec.ClusterIP = fmt.Sprintf("10.200.%d.%d", n, at)
					at++
				}
				c.eventually(t, "creating "+svc.Name, func(ctx context.Context) error { return make(ctx, first) })
			}
			for name, svc := range applied() {
				s := svc.DeepCopy()
				s.Name = fmt.Sprintf("%s-server-%d", name, n)
				byServer[s.Name] = s
				into(s, func(ctx context.Context, first *corev1.Service) error {
					_, err := c.serverSide(ctx, first)
					if err == nil {
						_, err = c.serverSide(ctx, s) // gives the address up to nobody
					}
					return err
				})
				s = svc.DeepCopy()
				s.Name = fmt.Sprintf("%s-client-%d", name, n)
				byClient[s.Name] = s
				into(s, func(ctx context.Context, first *corev1.Service) error {
					annotated, err := clientSide(s)
					if err != nil {
						return err
					}
					annotated.Spec.ClusterIP = first.Spec.ClusterIP
					_, err = services.Create(ctx, annotated, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
					return err
				})
			}
			originals := c.services(t)
			plan := c.plan(t, renumber.Request{Playbook: renumber.Drain, From: side, Strategy: strategy, LoadBalancers: true})
			if err := c.run(t, plan, c.journal(t, plan), nil); err != nil {
				t.Fatal(err)
			}
			c.same(t, originals, strategy, true)
			moved := 0
			for _, name := range slices.Sorted(maps.Keys(byServer)) {
				before, err := services.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if before.Spec.ClusterIP != originals["web/"+name].Spec.ClusterIP {
					moved++
				}
				after, err := c.serverSide(t.Context(), byServer[name])
				if err != nil {
					t.Errorf("%s: applied again: %v", name, err)
					continue
				}
				if after.ResourceVersion != before.ResourceVersion {
					t.Errorf("%s: applied again, it changes: %v", name, renumber.SameService(after, before, false, true))
				}
			}
			for _, name := range slices.Sorted(maps.Keys(byClient)) {
				live, err := services.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				live.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
				patch, err := threeWay(byClient[name], live)
				if err != nil || patch != "{}" {
					t.Errorf("%s: kubectl apply would patch %s, %v", name, patch, err)
				}
			}
			if moved == 0 {
				t.Error("nothing was moved")
			}
		})
	}
}

// endpoints runs upstream's endpointslice controller in this process, as kube-controller-manager does.
func (c *cluster) endpoints(t *testing.T) {
	t.Helper()
	config := rest.CopyConfig(c.RESTConfig())
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	controller := endpointslice.NewController(ctx, core.Pods(), core.Services(), core.Nodes(), factory.Discovery().V1().EndpointSlices(), 100, client, 0)
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, 2) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		factory.Shutdown()
	})
}

// pod makes one that is ready, on a node that is.
func (c *cluster) pod(t *testing.T, name, ip string, labels map[string]string) {
	t.Helper()
	ctx := t.Context()
	pod, err := c.client.CoreV1().Pods("web").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "example.com/web", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	if _, err := c.client.CoreV1().Pods("web").UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// slicesOf are the EndpointSlices of a Service that have endpoints, by name.
func (c *cluster) slicesOf(ctx context.Context, service string) (map[string]discoveryv1.EndpointSlice, error) {
	list, err := c.client.DiscoveryV1().EndpointSlices("web").List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	all := map[string]discoveryv1.EndpointSlice{}
	for _, s := range list.Items {
		if len(s.Endpoints) > 0 {
			all[s.Name] = s
		}
	}
	return all, nil
}

// With the real endpointslice controller at work, a Service in place keeps its
// EndpointSlices all the time; one that is recreated gets others; those that somebody has made by hand stay,
// whichever way.
func TestEndpointSlices(t *testing.T) {
	c := startQuick(t)
	c.namespace(t, "web")
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.endpoints(t)
	for n, strategy := range []renumber.Strategy{renumber.InPlace, renumber.Recreate} {
		t.Run(string(strategy), func(t *testing.T) {
			side := fmt.Sprintf("side-%d", n)
			c.sideRange(t, side, fmt.Sprintf("10.200.%d.0/24", n))
			const many = 10
			manual := fmt.Sprintf("manual-%d", n)
			names := []string{manual}
			for i := range many {
				names = append(names, fmt.Sprintf("web-%d-%d", n, i))
			}
			for i, name := range names {
				svc := plain(name, nil)
				svc.Spec.ClusterIP = fmt.Sprintf("10.200.%d.%d", n, 20+i)
				if name == manual {
					svc.Spec.Selector = nil
				} else {
					c.pod(t, name, fmt.Sprintf("172.16.%d.%d", n, i), svc.Spec.Selector)
				}
				c.eventually(t, "creating "+name, func(ctx context.Context) error { return c.create(ctx, svc, false) })
			}
			_, err := c.client.DiscoveryV1().EndpointSlices("web").Create(t.Context(), &discoveryv1.EndpointSlice{
				ObjectMeta:  metav1.ObjectMeta{Name: manual, Labels: map[string]string{discoveryv1.LabelServiceName: manual, discoveryv1.LabelManagedBy: "example.com"}},
				AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.80"}}},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			before := map[string]map[string]discoveryv1.EndpointSlice{}
			for _, name := range names {
				c.eventually(t, "the EndpointSlices of "+name, func(ctx context.Context) (err error) {
					before[name], err = c.slicesOf(ctx, name)
					if err == nil && len(before[name]) != 1 {
						err = fmt.Errorf("%d with endpoints", len(before[name]))
					}
					return err
				})
			}
			// Whatever happens to a slice on the way is seen.
			watching, err := c.client.DiscoveryV1().EndpointSlices("web").Watch(t.Context(), metav1.ListOptions{ResourceVersion: resourceVersion(t, c)})
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			originals := c.services(t)
			plan := c.drained(t, side, strategy)
			if err := c.run(t, plan, c.journal(t, plan), nil); err != nil {
				t.Fatal(err)
			}
			c.same(t, originals, strategy, true)
			for _, name := range names {
				kept := strategy == renumber.InPlace || name == manual
				c.eventually(t, "the EndpointSlices of "+name+" afterwards", func(ctx context.Context) error {
					after, err := c.slicesOf(ctx, name)
					if err != nil {
						return err
					}
					if len(after) != 1 {
						return fmt.Errorf("%d with endpoints", len(after))
					}
					svc, err := c.client.CoreV1().Services("web").Get(ctx, name, metav1.GetOptions{})
					if err != nil {
						return err
					}
					for _, s := range after {
						was := slices.Collect(maps.Values(before[name]))[0]
						if kept && s.UID != was.UID {
							t.Errorf("%s: EndpointSlice %s is another than %s", name, s.Name, was.Name)
						}
						if !apiequality.Semantic.DeepEqual(s.Endpoints, was.Endpoints) || !apiequality.Semantic.DeepEqual(s.Ports, was.Ports) {
							return fmt.Errorf("endpoints are %v %v, and were %v %v", s.Endpoints, s.Ports, was.Endpoints, was.Ports)
						}
						if name != manual && (len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != svc.UID) {
							return errors.New("its owner is the old Service")
						}
					}
					return nil
				})
			}
			seen := time.After(time.Second) // what the controller still does, late
			for {
				select {
				case e := <-watching.ResultChan():
					s, ok := e.Object.(*discoveryv1.EndpointSlice)
					was, known := before[s.Labels[discoveryv1.LabelServiceName]][s.Name]
					if ok && known && strategy == renumber.InPlace && !apiequality.Semantic.DeepEqual(s.Endpoints, was.Endpoints) {
						t.Errorf("EndpointSlice %s was %v on the way: %v", s.Name, e.Type, s.Endpoints)
					}
					continue
				case <-seen:
				}
				break
			}
		})
	}
}

func resourceVersion(t *testing.T, c *cluster) string {
	t.Helper()
	list, err := c.client.DiscoveryV1().EndpointSlices("web").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}
