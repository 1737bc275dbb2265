// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ports checks each port, and that no two have the same name, the same port and protocol, or the same node port and
// protocol.
func ports(svc *corev1.Service) (errs field.ErrorList) {
	path := specPath.Child("ports")
	if len(svc.Spec.Ports) == 0 && HasClusterIP(svc) && !IsHeadless(svc) {
		errs = append(errs, field.Required(path, "a Service with an address has ports"))
	}
	type endpoint struct {
		protocol corev1.Protocol
		number   int32
	}
	names, numbers, nodePorts := sets.New[string](), sets.New[endpoint](), sets.New[endpoint]()
	// repeated puts v into seen, and reports whether it was there.
	repeated := func(seen sets.Set[endpoint], v endpoint) bool {
		defer seen.Insert(v)
		return seen.Has(v)
	}
	for i := range svc.Spec.Ports {
		p, path := &svc.Spec.Ports[i], path.Index(i)
		switch {
		case p.Name == "":
			if len(svc.Spec.Ports) > 1 {
				errs = append(errs, field.Required(path.Child("name"), "of several ports each has a name"))
			}
		default:
			errs = append(errs, invalid(path.Child("name"), p.Name, utilvalidation.IsDNS1123Label(p.Name))...)
			if names.Has(p.Name) {
				errs = append(errs, field.Duplicate(path.Child("name"), p.Name))
			}
			names.Insert(p.Name)
		}
		errs = append(errs, port(p, path)...)
		if repeated(numbers, endpoint{p.Protocol, p.Port}) {
			errs = append(errs, field.Duplicate(path, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		}
		if p.NodePort == 0 {
			continue
		}
		if svc.Spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(path.Child("nodePort"), "a ClusterIP Service has no node ports"))
		}
		if repeated(nodePorts, endpoint{p.Protocol, p.NodePort}) {
			errs = append(errs, field.Duplicate(path.Child("nodePort"), p.NodePort))
		}
	}
	return errs
}

// port checks a port by itself, but for its name.
func port(p *corev1.ServicePort, path *field.Path) field.ErrorList {
	errs := invalid(path.Child("port"), p.Port, utilvalidation.IsValidPortNum(int(p.Port)))
	errs = append(errs, protocols.require(path.Child("protocol"), p.Protocol)...)
	target := path.Child("targetPort")
	switch p.TargetPort.Type {
	case intstr.String:
		errs = append(errs, invalid(target, p.TargetPort.StrVal, utilvalidation.IsValidPortName(p.TargetPort.StrVal))...)
	default:
		errs = append(errs, invalid(target, p.TargetPort.IntVal, utilvalidation.IsValidPortNum(p.TargetPort.IntValue()))...)
	}
	if p.AppProtocol != nil {
		errs = append(errs, invalid(path.Child("appProtocol"), *p.AppProtocol, utilvalidation.IsQualifiedName(*p.AppProtocol))...)
	}
	return errs
}
