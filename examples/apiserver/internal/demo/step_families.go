// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func equalSpecs(a, b *corev1.ServiceSpec) bool { return equality.Semantic.DeepEqual(a, b) }

// dualStack starts the server again with a second family, and gives a Service an address of it.
func (w *walk) dualStack(ctx context.Context) error {
	const name = "web-001"
	before, err := w.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	ranges := fmt.Sprintf("%s,%s", first, six)
	w.say("Families are a matter of the server's flags. It stops, and starts on the same data with")
	w.say("--service-cluster-ip-range=%s.", ranges)
	if err := w.server.stop(); err != nil {
		return err
	}
	if w.client, err = w.server.start(ctx, ranges); err != nil {
		return err
	}
	w.say("\nThe default ServiceCIDR has the second family appended; existing Services stay as they are:")
	want := []string{first.String(), six.String()}
	err = eventually(ctx, "until the default ServiceCIDR has both families", func(ctx context.Context) error {
		obj, err := w.client.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !equality.Semantic.DeepEqual(obj.Spec.CIDRs, want) {
			return fmt.Errorf("it has %v", obj.Spec.CIDRs)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := w.showCIDRs(ctx); err != nil {
		return err
	}
	same, err := w.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if !equalSpecs(&before.Spec, &same.Spec) {
		return fmt.Errorf("%s changed by itself: %+v, was %+v", name, same.Spec, before.Spec)
	}

	const patch = `{"spec": {"ipFamilyPolicy": "RequireDualStack"}}`
	w.say("\nA Service takes part when its author says so. Its first address stays:")
	w.command("kubectl patch service %s -p '%s'", name, patch)
	var after *corev1.Service
	err = eventually(ctx, "until the new range is used", func(ctx context.Context) (err error) {
		after, err = w.client.CoreV1().Services(namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	w.say("service/%s patched", name)
	w.command("kubectl get service %s -o jsonpath='{.spec.clusterIPs}'", name)
	shown, err := json.Marshal(after.Spec.ClusterIPs)
	if err != nil {
		return err
	}
	w.say("%s", shown)
	if len(after.Spec.ClusterIPs) != 2 || after.Spec.ClusterIPs[0] != before.Spec.ClusterIP {
		return fmt.Errorf("%s has %v, had %s", name, after.Spec.ClusterIPs, before.Spec.ClusterIP)
	}
	if addr, err := netip.ParseAddr(after.Spec.ClusterIPs[1]); err != nil || !six.Contains(addr) {
		return fmt.Errorf("the second address of %s is %s", name, after.Spec.ClusterIPs[1])
	}
	w.command("kubectl get ipaddress %s %s", after.Spec.ClusterIPs[0], after.Spec.ClusterIPs[1])
	return w.showAddresses(ctx, after.Spec.ClusterIPs)
}

// showAddresses shows some IPAddresses in one table.
func (w *walk) showAddresses(ctx context.Context, names []string) error {
	var all metav1.Table
	for i, name := range names {
		var table metav1.Table
		request := w.client.NetworkingV1().RESTClient().Get().Resource("ipaddresses").Name(name)
		if err := request.SetHeader("Accept", tableAccept).Do(ctx).Into(&table); err != nil {
			return err
		}
		if i == 0 {
			all = table
			continue
		}
		all.Rows = append(all.Rows, table.Rows...)
	}
	w.table(&all, 0)
	return nil
}

// check compares all Services with all IPAddresses.
func (w *walk) check(ctx context.Context) error {
	s, err := takeStock(ctx, w.client)
	if err != nil {
		return err
	}
	w.say("Each address of a Service has an IPAddress that names it, and each IPAddress a Service:")
	w.command("kubectl get ipaddresses")
	if err := w.get(ctx, w.client.NetworkingV1().RESTClient().Get().Resource("ipaddresses"), 5); err != nil {
		return err
	}
	if err := s.oneToOne(); err != nil {
		return err
	}
	claims := 0
	for _, svc := range s.services {
		claims += len(svc.Spec.ClusterIPs)
	}
	w.say("\n%d Services claim %d addresses, and there are %d IPAddresses, one for each claim.", len(s.services), claims, len(s.addresses))
	w.say("Every one is in a ServiceCIDR. Nothing is orphaned.")
	return nil
}
