// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/servicecidrs"
)

func TestTheServiceCIDRControllerProtectsAnAddressInUse(t *testing.T) {
	t.Parallel()
	cp := ForTest(t, Config{})
	client, ctx := newClient(t, cp), t.Context()
	stop, err := RunServiceCIDRController(ctx, cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	cidrs, services := client.NetworkingV1().ServiceCIDRs(), client.CoreV1().Services("default")

	if _, err := cidrs.Create(ctx, newServiceCIDR("extra", "192.168.64.0/24"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{defaultServiceCIDR, "extra"} {
		eventually(t, name+" has its finalizer and is ready", func(ctx context.Context) error {
			c, err := cidrs.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !slices.Contains(c.Finalizers, servicecidrs.ServiceCIDRProtectionFinalizer) ||
				!meta.IsStatusConditionTrue(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
				return fmt.Errorf("finalizers %v, status %+v", c.Finalizers, c.Status)
			}
			return nil
		})
	}

	holder := newService("holder")
	holder.Spec.ClusterIP = "192.168.64.9"
	eventually(t, "a Service takes an address of the new ServiceCIDR", func(ctx context.Context) error {
		_, err := services.Create(ctx, holder.DeepCopy(), metav1.CreateOptions{})
		return err
	})
	if err := cidrs.Delete(ctx, "extra", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion is blocked", func(ctx context.Context) error {
		c, err := cidrs.Get(ctx, "extra", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := meta.FindStatusCondition(c.Status.Conditions, networkingv1.ServiceCIDRConditionReady); ready == nil ||
			ready.Status != metav1.ConditionFalse || ready.Reason != networkingv1.ServiceCIDRReasonTerminating {
			return fmt.Errorf("status %+v", c.Status)
		}
		return nil
	})

	if err := services.Delete(ctx, "holder", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion goes through", func(ctx context.Context) error {
		_, err := cidrs.Get(ctx, "extra", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is still there")
	})
	stop()
	stop() // once more does no harm
}

func TestTheServiceCIDRControllerRefusesAnUnusableConfig(t *testing.T) {
	config := &rest.Config{Host: "127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no certificate")}}
	if _, err := RunServiceCIDRController(t.Context(), config); err == nil {
		t.Error("no error")
	}
}
