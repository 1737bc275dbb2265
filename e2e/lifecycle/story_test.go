// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// TestKEP1880 is the story that ServiceCIDRs were made for: a cluster runs out of addresses for
// Services, gets more, and gives them back.
func TestKEP1880(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "10.96.0.0/28")
	runOurs(t, c)
	h := c.record(t)
	first, second := netip.MustParsePrefix("10.96.0.0/28"), netip.MustParsePrefix("10.97.0.0/28")

	c.waitReady(t, "kubernetes")
	eventually(t, "Ready of ServiceCIDR kubernetes is the controller's, not that of kube-apiserver alone", func(ctx context.Context) error {
		obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ready := readyOf(obj); ready == nil || ready.Reason != servicecidr.ReasonReady {
			return fmt.Errorf("it is %+v", ready)
		}
		return nil
	})
	t.Log("1. kube-apiserver has made ServiceCIDR kubernetes of its flag, 10.96.0.0/28; the controller has given it the finalizer")
	checkOwnership(t, c.get(t, "kubernetes"), false)

	made := 0
	var refusal error
	for refusal == nil && made <= 16 {
		service, err := c.createService(t.Context(), fmt.Sprintf("old-%d", made), "")
		if refusal = err; err != nil {
			break
		}
		if ip := service.Spec.ClusterIP; !first.Contains(netip.MustParseAddr(ip)) {
			t.Fatalf("Service %s has %s, out of %s", service.Name, ip, first)
		}
		made++
	}
	if made != 13 {
		t.Errorf("%d Services got an address; want 13: 14 usable ones less that of Service kubernetes", made)
	}
	if refusal == nil || !strings.Contains(refusal.Error(), "range is full") {
		t.Fatalf("the next Service: %v; want a refusal because the range is full", refusal)
	}
	t.Logf("2. %d Services fill it; the next is refused: %v", made, refusal)

	c.create(t, "more", []string{second.String()})
	c.waitReady(t, "more")
	obj := c.get(t, "more")
	if !slices.Equal(obj.Finalizers, []string{informer.Finalizer}) {
		t.Errorf("finalizers %v; want that of ServiceCIDRs alone", obj.Finalizers)
	}
	checkReady(t, obj, metav1.ConditionTrue, servicecidr.ReasonReady)
	checkOwnership(t, obj, true)
	t.Logf("3. ServiceCIDR more, %s, is created; the controller gives it the finalizer and Ready=True: %s", second, readyOf(obj).Message)

	addresses := map[string]string{} // of the Services in the new one
	for i := range 3 {
		name := fmt.Sprintf("new-%d", i)
		eventually(t, "Service "+name, func(ctx context.Context) error {
			service, err := c.createService(ctx, name, "")
			if err == nil {
				addresses[name] = service.Spec.ClusterIP
			}
			return err
		})
		if !second.Contains(netip.MustParseAddr(addresses[name])) {
			t.Fatalf("Service %s has %s, out of %s", name, addresses[name], second)
		}
	}
	t.Logf("4. Services go on, in the new one: %v", addresses)

	before := c.get(t, "more")
	c.delete(t, "more")
	words := []string{"3 addresses block the deletion", "create another ServiceCIDR that contains"}
	for name, address := range addresses {
		words = append(words, fmt.Sprintf("%s (services/default/%s)", address, name))
	}
	obj = c.waitBlocked(t, "more", words...)
	if obj.UID != before.UID || !slices.Equal(obj.Finalizers, []string{informer.Finalizer}) {
		t.Errorf("it is now %s with finalizers %v; want %s with its own", obj.UID, obj.Finalizers, before.UID)
	}
	checkReady(t, obj, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating)
	checkOwnership(t, obj, true)
	if readyOf(obj).LastTransitionTime.Before(&readyOf(before).LastTransitionTime) {
		t.Errorf("lastTransitionTime went back from %v to %v", readyOf(before).LastTransitionTime, readyOf(obj).LastTransitionTime)
	}
	t.Logf("5. it is deleted, and stays with Ready=False, Terminating: %s", readyOf(obj).Message)

	eventually(t, "kube-apiserver refuses Services again", func(ctx context.Context) error {
		// Until it sees the deletion another one may get an address: that one waits with the others.
		name := fmt.Sprintf("late-%d", len(addresses))
		service, err := c.createService(ctx, name, "")
		if err == nil {
			addresses[name] = service.Spec.ClusterIP
			return errors.New("another got an address")
		}
		if !strings.Contains(err.Error(), "range is full") {
			return err
		}
		return nil
	})
	c.letGracePass(t, "canary", "10.98.0.0/28")
	c.waitBlocked(t, "more", words[2:]...)
	t.Log("6. no Service goes into it any more; and it stays however long the grace period is over")

	gone := []string{"new-0", "new-1"}
	c.deleteServices(t, gone...)
	c.waitBlocked(t, "more", fmt.Sprintf("%s (services/default/new-2)", addresses["new-2"]))
	eventually(t, "the message forgets the deleted Services", func(ctx context.Context) error {
		obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, "more", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, name := range gone {
			if message := readyOf(obj).Message; strings.Contains(message, name) {
				return errors.New(message)
			}
		}
		return nil
	})
	t.Logf("7. two of the Services are deleted; it says so: %s", readyOf(c.get(t, "more")).Message)

	for name := range addresses {
		if !slices.Contains(gone, name) {
			c.deleteServices(t, name)
		}
	}
	c.waitGone(t, "more")
	for _, address := range addresses {
		c.waitAddressesGone(t, address)
	}
	t.Log("8. the last of them is deleted, and it goes")

	blocked, released := c.waitEvent(t, "ServiceCIDR", "more", servicecidr.EventBlocked), c.waitEvent(t, "ServiceCIDR", "more", servicecidr.EventReleased)
	if blocked.Regarding.UID != obj.UID || released.Regarding.UID != obj.UID {
		t.Errorf("events regard %s and %s; want %s", blocked.Regarding.UID, released.Regarding.UID, obj.UID)
	}
	if !blocked.EventTime.Before(&released.EventTime) {
		t.Errorf("released at %v, blocked at %v: the wrong order", released.EventTime, blocked.EventTime)
	}
	if !strings.Contains(blocked.Note, addresses["new-0"]+" (services/default/new-0)") {
		t.Errorf("the event does not name the blockers: %s", blocked.Note)
	}
	all, err := c.eventsOn(t.Context(), "ServiceCIDR", "more")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		t.Logf("   event %s %s: %s", e.Type, e.Reason, e.Note)
		if e.Type != "Normal" {
			t.Errorf("event %s: %s; want no warning", e.Reason, e.Note)
		}
	}
	if _, err := c.createService(t.Context(), "last", ""); err == nil || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("another Service: %v; want it refused as full: the first range is as full as it was", err)
	}
	if found := orphans(t, h); len(found) > 0 {
		t.Errorf("addresses without a ServiceCIDR, and since which revision: %v", found)
	}
	t.Log("9. the first range is as full as it was, and at no moment was an address without a ServiceCIDR")
}

// checkReady checks the condition against the object as the server keeps it.
func checkReady(t *testing.T, obj *networkingv1.ServiceCIDR, status metav1.ConditionStatus, reason string) {
	t.Helper()
	if len(obj.Status.Conditions) != 1 {
		t.Errorf("conditions %+v; want one", obj.Status.Conditions)
	}
	ready := readyOf(obj)
	if ready == nil || ready.Status != status || ready.Reason != reason || ready.Message == "" {
		t.Fatalf("Ready is %+v; want %s, %s and a message", ready, status, reason)
	}
	if ready.ObservedGeneration != obj.Generation {
		t.Errorf("observedGeneration %d, generation %d; want the same", ready.ObservedGeneration, obj.Generation)
	}
	if ready.LastTransitionTime.IsZero() {
		t.Error("no lastTransitionTime")
	}
}

// checkOwnership checks who owns the condition and the finalizer. Of the default ServiceCIDR
// kube-apiserver itself is another owner of Ready.
func checkOwnership(t *testing.T, obj *networkingv1.ServiceCIDR, alone bool) {
	t.Helper()
	var ready, finalizer []string
	for _, m := range obj.ManagedFields {
		who := fmt.Sprintf("%s %s %s", m.Manager, m.Operation, m.Subresource)
		if strings.Contains(m.FieldsV1.GetRawString(), "f:conditions") {
			ready = append(ready, who)
		}
		if strings.Contains(m.FieldsV1.GetRawString(), informer.Finalizer) {
			finalizer = append(finalizer, who)
		}
	}
	wantReady := servicecidr.DefaultFieldManager + " Apply status"
	if !slices.Contains(ready, wantReady) || alone && len(ready) != 1 {
		t.Errorf("owners of Ready: %q; want %q", ready, wantReady)
	}
	if want := servicecidr.DefaultFieldManager + " Update "; !slices.Equal(finalizer, []string{want}) {
		t.Errorf("owners of the finalizer: %q; want %q", finalizer, want)
	}
	if !alone {
		t.Logf("   owners of Ready of %s: %q", obj.Name, ready)
	}
}
