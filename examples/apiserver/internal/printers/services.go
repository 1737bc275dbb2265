// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package printers

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/clock"
)

// Services makes tables of Services, whose ages clock tells.
func Services(clock clock.PassiveClock) rest.TableConvertor {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return &converter[corev1.Service, *corev1.Service]{clock: clock, columns: []column[corev1.Service]{
		name[corev1.Service](),
		text("Type", doc["type"], func(obj *corev1.Service) string { return string(obj.Spec.Type) }),
		text("Cluster-IP", doc["clusterIP"], clusterIP),
		text("External-IP", doc["externalIPs"], externalIP),
		text("Port(s)", doc["ports"], ports),
		age[corev1.Service](),
		wide(text("Selector", doc["selector"], func(obj *corev1.Service) string { return labels.FormatLabels(obj.Spec.Selector) })),
	}}
}

// clusterIP is the first one: a second would double the width of each table for the few who want it.
func clusterIP(obj *corev1.Service) string {
	if len(obj.Spec.ClusterIPs) == 0 {
		return none
	}
	return obj.Spec.ClusterIPs[0]
}

// externalIP is where the Service is reached from outside: its load balancer's addresses, then its externalIPs.
func externalIP(obj *corev1.Service) string {
	switch obj.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return obj.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		if all := append(ingress(obj), obj.Spec.ExternalIPs...); len(all) > 0 {
			return strings.Join(all, ",")
		}
		return "<pending>"
	}
	if len(obj.Spec.ExternalIPs) == 0 {
		return none
	}
	return strings.Join(obj.Spec.ExternalIPs, ",")
}

// ingress is the sorted addresses of the load balancer, or its host names.
func ingress(obj *corev1.Service) []string {
	var all []string
	for _, in := range obj.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			all = append(all, in.IP)
		} else if in.Hostname != "" {
			all = append(all, in.Hostname)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func ports(obj *corev1.Service) string {
	if len(obj.Spec.Ports) == 0 {
		return none
	}
	all := make([]string, len(obj.Spec.Ports))
	for i, p := range obj.Spec.Ports {
		all[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.NodePort != 0 {
			all[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		}
	}
	return strings.Join(all, ",")
}
