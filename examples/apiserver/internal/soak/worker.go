// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// namespace is where the Services are.
const namespace = metav1.NamespaceDefault

// prefix is of their names.
const prefix = "soak-"

// worker creates, changes and deletes Services of its own, so it knows what has to be there.
type worker struct {
	client
	number int
	random *rand.Rand
	// keep is about how many Services it has at a time.
	keep int
	dual bool // both families are there

	created int
	live    []string
}

// run works until ctx ends, and then ends the operation that it is at. It returns an error for what must not be.
func (w *worker) run(ctx context.Context) error {
	alive := context.WithoutCancel(ctx) // of one operation; it is bounded by patience
	for ctx.Err() == nil {
		began := time.Now()
		kind, err := w.step(alive)
		if err != nil {
			return fmt.Errorf("client %d: %w", w.number, err)
		}
		w.tally.done(kind, time.Since(began))
	}
	return nil
}

// step does one operation.
func (w *worker) step(ctx context.Context) (kind, error) {
	if len(w.live) == 0 || w.random.IntN(2*w.keep) >= len(w.live) {
		return creation, w.create(ctx)
	}
	i := w.random.IntN(len(w.live))
	if w.random.IntN(4) == 0 {
		return change, w.change(ctx, w.live[i])
	}
	name := w.live[i]
	w.live = append(w.live[:i], w.live[i+1:]...)
	return deletion, w.delete(ctx, name)
}

func (w *worker) create(ctx context.Context) error {
	w.created++
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s%d-%d", prefix, w.number, w.created)}}
	svc.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	svc.Spec.Selector = map[string]string{"app": svc.Name}
	if w.dual && w.random.IntN(4) == 0 {
		policy := corev1.IPFamilyPolicyRequireDualStack
		svc.Spec.IPFamilyPolicy = &policy
	}
	if w.random.IntN(8) == 0 {
		svc.Spec.Type = corev1.ServiceTypeNodePort
	}
	again, err := w.do(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		_, err := c.CoreV1().Services(namespace).Create(ctx, svc, metav1.CreateOptions{})
		return err
	})
	if err != nil && !(again && apierrors.IsAlreadyExists(err)) {
		return fmt.Errorf("create %s: %w", svc.Name, err)
	}
	w.live = append(w.live, svc.Name)
	return nil
}

func (w *worker) delete(ctx context.Context, name string) error {
	again, err := w.do(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		return c.CoreV1().Services(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	})
	if err != nil && !(again && apierrors.IsNotFound(err)) {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}

// change turns a Service into an ExternalName, or back.
func (w *worker) change(ctx context.Context, name string) error {
	external := false
	var decided bool
	_, err := w.do(ctx, func(ctx context.Context, c kubernetes.Interface) error {
		for {
			svc, err := c.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !decided {
				external, decided = svc.Spec.Type != corev1.ServiceTypeExternalName, true
			}
			if external == (svc.Spec.Type == corev1.ServiceTypeExternalName) {
				return nil // an earlier try was applied
			}
			spec := corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{{Port: 80}}, Selector: svc.Spec.Selector}
			if external {
				spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "soak.example", Selector: svc.Spec.Selector}
			}
			svc.Spec = spec
			_, err = c.CoreV1().Services(namespace).Update(ctx, svc, metav1.UpdateOptions{})
			if !apierrors.IsConflict(err) {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("change %s: %w", name, err)
	}
	return nil
}
