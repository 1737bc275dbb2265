// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package printers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	clocktesting "k8s.io/utils/clock/testing"
)

var (
	now     = time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	clockAt = clocktesting.NewFakePassiveClock(now)
)

func created(name string, ago time.Duration) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now.Add(-ago))}
}

// lines is the table as text: names of the columns, "+" before one that is only shown when wide, and the rows.
func lines(t *testing.T, conv rest.TableConvertor, obj runtime.Object) []string {
	t.Helper()
	table, err := conv.ConvertToTable(t.Context(), obj, &metav1.TableOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var header []string
	for _, col := range table.ColumnDefinitions {
		header = append(header, strings.Repeat("+", int(col.Priority))+col.Name)
		if col.Description == "" {
			t.Errorf("column %s has no description", col.Name)
		}
	}
	out := []string{strings.Join(header, " ")}
	for _, row := range table.Rows {
		if len(row.Cells) != len(header) {
			t.Errorf("%d cells for %d columns: %v", len(row.Cells), len(header), row.Cells)
		}
		out = append(out, strings.TrimSuffix(fmt.Sprintln(row.Cells...), "\n"))
	}
	return out
}

func wantLines(t *testing.T, conv rest.TableConvertor, obj runtime.Object, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(t, conv, obj)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServices(t *testing.T) {
	spec := func(typ corev1.ServiceType, change func(*corev1.ServiceSpec)) corev1.ServiceSpec {
		s := corev1.ServiceSpec{Type: typ, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}}
		change(&s)
		return s
	}
	port := func(number, node int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Port: number, NodePort: node, Protocol: protocol}
	}
	list := &corev1.ServiceList{Items: []corev1.Service{
		{ObjectMeta: created("plain", 3*time.Minute), Spec: spec(corev1.ServiceTypeClusterIP, func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{port(80, 0, "TCP"), port(53, 0, "UDP")}
			s.Selector = map[string]string{"b": "2", "a": "1"}
		})},
		{ObjectMeta: created("dual", time.Hour), Spec: spec(corev1.ServiceTypeClusterIP, func(s *corev1.ServiceSpec) {
			s.ClusterIPs = append(s.ClusterIPs, "2001:db8::7")
			s.ExternalIPs = []string{"192.0.2.1", "192.0.2.2"}
		})},
		{ObjectMeta: created("none", 49*time.Hour), Spec: spec(corev1.ServiceTypeClusterIP, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs = "None", []string{"None"}
		})},
		{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Spec: spec(corev1.ServiceTypeNodePort, func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{port(80, 30080, "TCP")}
		})},
		{ObjectMeta: created("cname", time.Second), Spec: spec(corev1.ServiceTypeExternalName, func(s *corev1.ServiceSpec) {
			s.ClusterIP, s.ClusterIPs, s.ExternalName = "", nil, "blue.example.com"
		})},
		{ObjectMeta: created("pending", time.Second), Spec: spec(corev1.ServiceTypeLoadBalancer, func(*corev1.ServiceSpec) {})},
		{ObjectMeta: created("balanced", time.Second),
			Spec: spec(corev1.ServiceTypeLoadBalancer, func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"192.0.2.1"} }),
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
				{IP: "198.51.100.2"}, {Hostname: "lb.example.com"}, {IP: "198.51.100.1"}, {IP: "198.51.100.2"},
			}}}},
	}}
	wantLines(t, Services(clockAt), list,
		"Name Type Cluster-IP External-IP Port(s) Age +Selector",
		"plain ClusterIP 10.96.0.7 <none> 80/TCP,53/UDP 3m a=1,b=2",
		"dual ClusterIP 10.96.0.7 192.0.2.1,192.0.2.2 <none> 60m <none>",
		"none ClusterIP None <none> <none> 2d1h <none>",
		"node NodePort 10.96.0.7 <none> 80:30080/TCP <unknown> <none>",
		"cname ExternalName <none> blue.example.com <none> 1s <none>",
		"pending LoadBalancer 10.96.0.7 <pending> <none> 1s <none>",
		"balanced LoadBalancer 10.96.0.7 198.51.100.1,198.51.100.2,lb.example.com,192.0.2.1 <none> 1s <none>",
	)
}

func TestServiceCIDRs(t *testing.T) {
	obj := &networkingv1.ServiceCIDR{ObjectMeta: created("kubernetes", time.Hour*24*400)}
	obj.Spec.CIDRs = []string{"10.96.0.0/12", "2001:db8::/64"}
	wantLines(t, ServiceCIDRs(clockAt), obj, "Name CIDRs Age", "kubernetes 10.96.0.0/12,2001:db8::/64 400d")
}

func TestIPAddresses(t *testing.T) {
	obj := func(name string, ref *networkingv1.ParentReference) networkingv1.IPAddress {
		return networkingv1.IPAddress{ObjectMeta: created(name, 5*time.Second), Spec: networkingv1.IPAddressSpec{ParentRef: ref}}
	}
	wantLines(t, IPAddresses(clockAt), &networkingv1.IPAddressList{Items: []networkingv1.IPAddress{
		obj("10.96.0.1", &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "kubernetes"}),
		obj("10.96.0.2", &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "blue"}),
		obj("10.96.0.3", nil),
	}},
		"Name ParentRef Age",
		"10.96.0.1 services/default/kubernetes 5s",
		"10.96.0.2 gateways.example.com/blue 5s",
		"10.96.0.3 <none> 5s",
	)
}

func TestNamespaces(t *testing.T) {
	wantLines(t, Namespaces(clockAt), &corev1.Namespace{
		ObjectMeta: created("default", 90*time.Second), Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}, "Name Status Age", "default Active 90s")
}

// What a client goes on with is in the table as in the list, and each row has its object.
func TestConvertToTable_Metadata(t *testing.T) {
	list := &corev1.NamespaceList{
		ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "more", RemainingItemCount: new(int64(3))},
		Items:    []corev1.Namespace{{ObjectMeta: created("default", 0)}},
	}
	table, err := Namespaces(clockAt).ConvertToTable(t.Context(), list, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list.ListMeta, table.ListMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(table.ColumnDefinitions) != 0 {
		t.Errorf("columns %v, though none were wanted", table.ColumnDefinitions)
	}
	if got, ok := table.Rows[0].Object.Object.(*corev1.Namespace); !ok || got.Name != "default" {
		t.Errorf("the row has %v", table.Rows[0].Object)
	}
}

func TestConvertToTable_RefusesWhatItDoesNotKnow(t *testing.T) {
	for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.PodList{Items: []corev1.Pod{{}}}} {
		if table, err := Services(clockAt).ConvertToTable(t.Context(), obj, nil); err == nil {
			t.Errorf("%T became a table: %v", obj, table)
		}
	}
}
