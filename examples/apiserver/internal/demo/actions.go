// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace is where the Services are.
const namespace = metav1.NamespaceDefault

func newService(name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "80", Port: 80}},
		},
	}
}

func (w *walk) create(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	return w.client.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
}

// createMany makes the Services prefix-001 to prefix-n, several at a time.
func (w *walk) createMany(ctx context.Context, prefix string, n int) ([]netip.Addr, error) {
	addrs := make([]netip.Addr, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error {
			svc, err := w.create(ctx, newService(fmt.Sprintf("%s-%03d", prefix, i+1)))
			if err != nil {
				return err
			}
			addrs[i], err = netip.ParseAddr(svc.Spec.ClusterIP)
			return err
		})
	}
	return addrs, group.Wait()
}

// createCIDR makes a ServiceCIDR and waits until it is ready.
func (w *walk) createCIDR(ctx context.Context, name string, prefix netip.Prefix) error {
	w.command("kubectl create -f - <<< '{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: %s}, spec: {cidrs: [%s]}}'", name, prefix)
	_, err := w.client.NetworkingV1().ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{prefix.String()}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ServiceCIDR %s: %w", name, err)
	}
	w.say("servicecidr.networking.k8s.io/%s created", name)
	return eventually(ctx, "until ServiceCIDR "+name+" is ready", func(ctx context.Context) error {
		ready, err := w.readyOf(ctx, name)
		if err != nil {
			return err
		}
		if ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("condition Ready is %s: %s", ready.Status, ready.Message)
		}
		return nil
	})
}

// readyOf returns the condition Ready of a ServiceCIDR.
func (w *walk) readyOf(ctx context.Context, name string) (metav1.Condition, error) {
	obj, err := w.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return metav1.Condition{}, err
	}
	ready := apimeta.FindStatusCondition(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if ready == nil {
		return metav1.Condition{}, fmt.Errorf("there is no condition Ready on ServiceCIDR %s", name)
	}
	return *ready, nil
}

// showCIDRs shows what kubectl get servicecidrs does.
func (w *walk) showCIDRs(ctx context.Context) error {
	w.command("kubectl get servicecidrs")
	return w.get(ctx, w.client.NetworkingV1().RESTClient().Get().Resource("servicecidrs"), 0)
}

// showServices shows what kubectl get services does, cut after some rows.
func (w *walk) showServices(ctx context.Context, rows int) error {
	w.command("kubectl get services")
	return w.get(ctx, w.client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("services"), rows)
}

// showService shows one Service.
func (w *walk) showService(ctx context.Context, name string) error {
	w.command("kubectl get service %s", name)
	return w.get(ctx, w.client.CoreV1().RESTClient().Get().Namespace(namespace).Resource("services").Name(name), 0)
}
