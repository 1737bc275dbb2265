// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/repair"
	"github.com/metacidr/metacidr/meta"
)

// claimsKey is where a ConfigMap claims an address.
const claimsKey = "address"

// configMaps are owners that are no Services: ConfigMaps that claim what they say under claimsKey.
type configMaps struct{ client kubernetes.Interface }

func (o configMaps) Resource() schema.GroupResource {
	return schema.GroupResource{Resource: "configmaps"}
}

func (o configMaps) List(ctx context.Context) ([]repair.Claims, error) {
	list, err := o.client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []repair.Claims
	for i := range list.Items {
		all = append(all, o.claims(&list.Items[i]))
	}
	return all, nil
}

func (o configMaps) Get(ctx context.Context, owner informer.Owner) (repair.Claims, error) {
	obj, err := o.client.CoreV1().ConfigMaps(owner.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return repair.Claims{}, err
	}
	return o.claims(obj), nil
}

func (o configMaps) claims(obj *corev1.ConfigMap) repair.Claims {
	c := repair.Claims{
		Owner: configMap(obj.Name), UID: obj.UID, Created: obj.CreationTimestamp.Time,
		Deleting: obj.DeletionTimestamp != nil, Object: obj,
	}
	c.Owner.Namespace = obj.Namespace
	if address, ok := obj.Data[claimsKey]; ok {
		c.Addresses = []string{address}
	}
	return c
}

func configMap(name string) meta.Owner {
	return meta.Owner{Resource: "configmaps", Namespace: "default", Name: name}
}

// TestRepair runs package repair beside kube-apiserver's own repair loop, and with the ServiceCIDR controller
// and an allocator, as a custom API server on an ordinary cluster would.
func TestRepair(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "10.96.0.0/24")
	runOurs(t, c)
	c.waitReady(t, "kubernetes")
	m := c.runAllocator(t)
	ctx, networking := t.Context(), c.client.NetworkingV1()

	// What is right: Services, a ConfigMap with its address.
	services := map[string]string{"web": "10.96.0.31", "db": "10.96.0.32", "api": "10.96.0.33"}
	for name, address := range services {
		c.placeService(t, name, address)
	}
	claim := func(name, address string) {
		t.Helper()
		_, err := c.client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{claimsKey: address},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	claim("right", "10.96.0.41")
	c.allocate(t, m, configMap("right"), "10.96.0.41")
	// What repair must put right, a grace period after it saw it.
	claim("missing", "10.96.0.42")                     // it has no IPAddress
	c.allocate(t, m, configMap("never"), "10.96.0.43") // its owner was never stored
	claim("moved", "10.96.0.44")
	c.allocate(t, m, configMap("moved"), "10.96.0.44")
	c.allocate(t, m, configMap("moved"), "10.96.0.45") // its owner does not claim it
	collected := []string{"10.96.0.43", "10.96.0.45"}
	// What it must not touch.
	c.allocate(t, m, widget("anybody"), "10.96.0.46")      // owners of this resource are not known to it
	c.createAddress(t, "10.96.0.47", configMap("foreign")) // there is no label of ours on it
	reported := map[string]repair.Kind{"10.96.0.46": repair.Unregistered, "10.96.0.47": repair.Unmanaged}
	before := c.addresses(t)

	controller, err := repair.New(repair.Config{
		Client: networking,
		Owners: []repair.Registration{
			{Owners: repair.Services(c.client.CoreV1())},
			{Owners: configMaps{c.client}},
		},
		Interval: time.Second, MinSpacing: 250 * time.Millisecond,
		LeakGrace: 3 * time.Second, MismatchGrace: time.Second,
		Recorder: c.recorder(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err := controller.Sync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]repair.Finding{}
	for _, finding := range report.Findings {
		t.Logf("the first pass: %s", finding)
		found[finding.Name] = finding
	}
	for _, address := range collected {
		if f := found[address]; f.Kind != repair.Leaked || f.Outcome != repair.Pending || f.Wait <= 0 {
			t.Errorf("the first pass says of %s: %+v; want it leaked, and its grace period pending", address, f)
		}
		if c.addresses(t)[address] == nil {
			t.Errorf("%s is gone before its grace period was over", address)
		}
	}
	for address, kind := range reported {
		if f := found[address]; f.Kind != kind || f.Outcome != repair.Reported {
			t.Errorf("the first pass says of %s: %+v; want it %s, and reported", address, f, kind)
		}
	}
	if f := found["10.96.0.42"]; f.Kind != repair.Missing || f.Outcome != repair.Repaired {
		t.Errorf("the first pass says of 10.96.0.42: %+v; want it missing, and repaired", f)
	}
	if want := len(collected) + len(reported) + 1; len(found) != want {
		t.Errorf("the first pass has %d findings; want %d", len(found), want)
	}

	background(t, "repair", controller.Run)
	c.waitAddressesGone(t, collected...)
	t.Logf("collected: %v", collected)
	made := c.addresses(t)["10.96.0.42"]
	if made == nil || informer.OwnerOf(made.Spec.ParentRef) != configMap("missing") ||
		made.Labels[informer.LabelManagedBy] != informer.DefaultManager || made.Labels[networkingv1.LabelIPAddressFamily] != "IPv4" {
		t.Fatalf("the IPAddress of ConfigMap missing is %+v", made)
	}
	t.Logf("made: %s for %s, labels %v", made.Name, informer.OwnerOf(made.Spec.ParentRef), made.Labels)

	// Somebody deletes the IPAddresses of Services and of a ConfigMap by hand.
	lost := map[string]meta.Owner{"10.96.0.41": configMap("right")}
	for name, address := range services {
		lost[address] = informer.ServiceOwner("default", name)
	}
	for address := range lost {
		if err := networking.IPAddresses().Delete(ctx, address, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for address, owner := range lost {
		eventually(t, "IPAddress "+address+" is back", func(ctx context.Context) error {
			obj, err := networking.IPAddresses().Get(ctx, address, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if obj.UID == before[address].UID {
				return errors.New("it is the old one")
			}
			if got := informer.OwnerOf(obj.Spec.ParentRef); got != owner {
				return fmt.Errorf("%w: it names %s, not %s", errNever, got, owner)
			}
			for label, want := range before[address].Labels {
				if got := obj.Labels[label]; got != want {
					return fmt.Errorf("%w: label %s is %q, not %q", errNever, label, got, want)
				}
			}
			t.Logf("%s of %s is back, made by %s", address, owner, obj.ManagedFields[0].Manager)
			return nil
		})
	}

	// The owner goes with its address in use: it is collected.
	if err := c.client.CoreV1().ConfigMaps("default").Delete(ctx, "moved", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitAddressesGone(t, "10.96.0.44")
	event := c.waitEvent(t, "ConfigMap", "missing", "ClusterIPNotAllocated")
	t.Logf("event %s %s: %s", event.Type, event.Reason, event.Note)

	// The next pass over it all finds nothing to do, and nothing else was touched.
	auditor, err := repair.New(repair.Config{
		Client: networking, DryRun: true,
		Owners: []repair.Registration{{Owners: repair.Services(c.client.CoreV1())}, {Owners: configMaps{c.client}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	report, err = auditor.Sync(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range report.Findings {
		if reported[finding.Name] != finding.Kind {
			t.Errorf("in the end there is: %s", finding)
		}
	}
	after := c.addresses(t)
	for name, obj := range before {
		_, wasLost := lost[name]
		now := after[name]
		switch {
		case name == "10.96.0.44" || name == collected[0] || name == collected[1]:
			if now != nil {
				t.Errorf("%s is there again", name)
			}
		case now == nil:
			t.Errorf("%s of %s is gone", name, informer.OwnerOf(obj.Spec.ParentRef))
		case !wasLost && now.ResourceVersion != obj.ResourceVersion:
			t.Errorf("%s of %s was touched: %+v", name, informer.OwnerOf(obj.Spec.ParentRef), now)
		}
		delete(after, name)
	}
	delete(after, "10.96.0.42")
	for name := range after {
		t.Errorf("%s came from nowhere", name)
	}
}

func widget(name string) meta.Owner {
	return meta.Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: name}
}

// createAddress makes an IPAddress by hand, as one that is no allocator would: without labels.
func (c *cluster) createAddress(t *testing.T, address string, owner meta.Owner) {
	t.Helper()
	_, err := c.client.NetworkingV1().IPAddresses().Create(t.Context(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: netip.MustParseAddr(address).String()},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Group: owner.Group, Resource: owner.Resource, Namespace: owner.Namespace, Name: owner.Name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// addresses lists all IPAddresses by name.
func (c *cluster) addresses(t *testing.T) map[string]*networkingv1.IPAddress {
	t.Helper()
	list, err := c.client.NetworkingV1().IPAddresses().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]*networkingv1.IPAddress, len(list.Items))
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}
