// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi

import (
	"context"
	"errors"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"
)

// serviceKind: the addresses are those that the writer gives, none is allocated.
// Once set they stay:
//
//	ClusterIP ""  --set-->  ClusterIP a  --type ExternalName-->  ClusterIP ""
//
// and clusterIPs follows clusterIP, also for writers that know only the latter.
func serviceKind() kind[*corev1.Service] {
	return kind[*corev1.Service]{
		resource:       corev1.SchemeGroupVersion.WithResource("services"),
		name:           "Service",
		new:            func() *corev1.Service { return &corev1.Service{} },
		namespaced:     true,
		createOnUpdate: true,
		overWire:       true,
		tracked:        true,
		generateName:   serialName,
		selectable: map[string]func(*corev1.Service) string{
			"spec.clusterIP": func(obj *corev1.Service) string { return obj.Spec.ClusterIP },
			"spec.type":      func(obj *corev1.Service) string { return string(obj.Spec.Type) },
		},
		defaults: defaultService,
		prepareCreate: func(obj *corev1.Service) {
			obj.Status = corev1.ServiceStatus{}
			if obj.Spec.ClusterIP != "" && len(obj.Spec.ClusterIPs) == 0 {
				obj.Spec.ClusterIPs = []string{obj.Spec.ClusterIP}
			}
		},
		validateCreate: func(obj *corev1.Service) field.ErrorList {
			errs := apivalidation.ValidateObjectMeta(&obj.ObjectMeta, true, apivalidation.NameIsDNS1035Label, field.NewPath("metadata"))
			return append(errs, validateServiceSpec(&obj.Spec, nil, field.NewPath("spec"))...)
		},
		prepareUpdate: func(obj, old *corev1.Service) {
			obj.Status = *old.Status.DeepCopy()
			keepClusterIPs(&obj.Spec, &old.Spec)
			dropForType(obj, &old.Spec)
		},
		validateUpdate: func(obj, old *corev1.Service) field.ErrorList {
			at := field.NewPath("spec")
			errs := apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
			errs = append(errs, validateClusterIPsUpdate(&obj.Spec, &old.Spec, at)...)
			return append(errs, validateServiceSpec(&obj.Spec, old.Spec.ClusterIPs, at)...)
		},
		status: &statusRules[*corev1.Service]{
			// Unlike that of a ServiceCIDR, this one lets metadata through.
			resets:        []string{"spec"},
			prepareUpdate: func(obj, old *corev1.Service) { obj.Spec = *old.Spec.DeepCopy() },
			validateUpdate: func(obj, old *corev1.Service) field.ErrorList {
				return apivalidation.ValidateObjectMetaUpdate(&obj.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
			},
		},
		specEqual: func(a, b *corev1.Service) bool { return apiequality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

// defaultService fills in what does not depend on an allocator.
func defaultService(obj *corev1.Service) {
	spec := &obj.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort == (intstr.IntOrString{}) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if spec.InternalTrafficPolicy == nil && takesClusterIP(spec) {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.ExternalTrafficPolicy == "" && reachedFromOutside(spec) {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.AllocateLoadBalancerNodePorts == nil && spec.Type == corev1.ServiceTypeLoadBalancer {
		spec.AllocateLoadBalancerNodePorts = ptr.To(true)
	}
}

// keepClusterIPs carries over the addresses that an update leaves out, and has
// clusterIPs follow a clusterIP that alone was changed.
func keepClusterIPs(spec, old *corev1.ServiceSpec) {
	if takesClusterIP(spec) && takesClusterIP(old) {
		if spec.ClusterIP == "" {
			spec.ClusterIP = old.ClusterIP
		}
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
	}
	if spec.ClusterIP == old.ClusterIP {
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(old.ClusterIPs)
		}
		return
	}
	if slices.Equal(spec.ClusterIPs, old.ClusterIPs) {
		spec.ClusterIPs = nil
		if spec.ClusterIP != "" {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
	}
}

// dropForType clears the fields that the new type has no use for, unless the update
// changed them. So a Service that turns ExternalName and back comes back without
// them, but for what the writer gives anew.
func dropForType(obj *corev1.Service, old *corev1.ServiceSpec) {
	spec := &obj.Spec
	if takesClusterIP(old) && !takesClusterIP(spec) {
		if spec.ClusterIP == old.ClusterIP && slices.Equal(spec.ClusterIPs, old.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, old.IPFamilies) {
			spec.IPFamilies = nil
		}
		if ptr.Equal(spec.IPFamilyPolicy, old.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if hasNodePorts(old) && !hasNodePorts(spec) && !addsNodePorts(spec, old) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if hasHealthCheckPort(old) && !hasHealthCheckPort(spec) && spec.HealthCheckNodePort == old.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if reachedFromOutside(old) && !reachedFromOutside(spec) && spec.ExternalTrafficPolicy == old.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != corev1.ServiceTypeLoadBalancer {
		if old.Type == corev1.ServiceTypeLoadBalancer && ptr.Equal(spec.AllocateLoadBalancerNodePorts, old.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if old.Type == corev1.ServiceTypeLoadBalancer && ptr.Equal(spec.LoadBalancerClass, old.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
		obj.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	}
}

func takesClusterIP(spec *corev1.ServiceSpec) bool {
	return spec.Type != corev1.ServiceTypeExternalName
}

func hasNodePorts(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
}

func addsNodePorts(spec, old *corev1.ServiceSpec) bool {
	return slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool {
		return p.NodePort != 0 && !slices.ContainsFunc(old.Ports, func(q corev1.ServicePort) bool { return p.NodePort == q.NodePort })
	})
}

func hasHealthCheckPort(spec *corev1.ServiceSpec) bool {
	return spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func reachedFromOutside(spec *corev1.ServiceSpec) bool {
	return hasNodePorts(spec) || spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

// validateServiceSpec accepts spellings of addresses that were stored before.
func validateServiceSpec(spec *corev1.ServiceSpec, stored []string, at *field.Path) field.ErrorList {
	switch spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return validateClusterIPs(spec, stored, at)
	case corev1.ServiceTypeExternalName:
		return validateExternalName(spec, at)
	default:
		return field.ErrorList{field.NotSupported(at.Child("type"), spec.Type, []corev1.ServiceType{
			corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
		})}
	}
}

func validateExternalName(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	const why = "a Service of type ExternalName has no address"
	var errs field.ErrorList
	if spec.ExternalName == "" {
		errs = append(errs, field.Required(at.Child("externalName"), ""))
	}
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(at.Child("clusterIPs"), why))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ipFamilies"), why))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(at.Child("ipFamilyPolicy"), why))
	}
	return errs
}

func validateClusterIPs(spec *corev1.ServiceSpec, stored []string, at *field.Path) field.ErrorList {
	ips := spec.ClusterIPs
	at = at.Child("clusterIPs")
	var errs field.ErrorList
	switch {
	case spec.ClusterIP == "" && len(ips) > 0:
		errs = append(errs, field.Invalid(at, ips, "must be empty when clusterIP is"))
	case spec.ClusterIP != "" && len(ips) == 0:
		errs = append(errs, field.Required(at, ""))
	case len(ips) > 0 && ips[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(at, ips, "the first must equal clusterIP"))
	case len(ips) > 2:
		errs = append(errs, field.TooMany(at, len(ips), 2))
	}
	if slices.Equal(ips, []string{corev1.ClusterIPNone}) {
		return errs
	}
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Index(i), ip, true, stored)...)
	}
	if len(errs) > 0 {
		return errs
	}
	if len(ips) == 2 && netutils.IsIPv6String(ips[0]) == netutils.IsIPv6String(ips[1]) {
		errs = append(errs, field.Invalid(at, ips, "two addresses must be of different families"))
	}
	for i, ip := range ips {
		if i < len(spec.IPFamilies) && netutils.IsIPv6String(ip) != (spec.IPFamilies[i] == corev1.IPv6Protocol) {
			errs = append(errs, field.Invalid(at.Index(i), ip, "is not of the family that ipFamilies says"))
		}
	}
	return errs
}

// validateClusterIPsUpdate lets a second address come and go, and nothing else
// change, unless the Service was or becomes an ExternalName.
func validateClusterIPsUpdate(spec, old *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	if !takesClusterIP(spec) || !takesClusterIP(old) ||
		spec.ClusterIP == corev1.ClusterIPNone && old.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	ips := at.Child("clusterIPs")
	if len(spec.ClusterIPs) == 0 && len(old.ClusterIPs) > 0 {
		return field.ErrorList{field.Invalid(ips, spec.ClusterIPs, "may not be unset")}
	}
	var errs field.ErrorList
	for i := range min(len(spec.ClusterIPs), len(old.ClusterIPs)) {
		if spec.ClusterIPs[i] != old.ClusterIPs[i] {
			errs = append(errs, field.Invalid(ips.Index(i), spec.ClusterIPs, "may not change once set"))
		}
	}
	if len(spec.ClusterIPs) == 1 && len(old.ClusterIPs) == 2 &&
		ptr.Deref(spec.IPFamilyPolicy, "") != corev1.IPFamilyPolicySingleStack {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "must be SingleStack when the second address is given up"))
	}
	return errs
}

// Services returns the replica's client for the Services of a namespace. With ""
// it lists and watches those of all namespaces.
func (c *Client) Services(namespace string) corev1client.ServiceInterface {
	return serviceClient{resourceClient[*corev1.Service, *corev1.ServiceList]{
		Client:    c,
		store:     c.server.services,
		namespace: namespace,
		list: func(meta metav1.ListMeta, items []*corev1.Service) *corev1.ServiceList {
			return &corev1.ServiceList{ListMeta: meta, Items: values(items)}
		},
	}}
}

type serviceClient struct {
	resourceClient[*corev1.Service, *corev1.ServiceList]
}

// UpdateStatus writes the status and the metadata, not the spec.
func (r serviceClient) UpdateStatus(ctx context.Context, obj *corev1.Service, opts metav1.UpdateOptions) (*corev1.Service, error) {
	return r.update(ctx, obj, opts, statusSubresource)
}

// Apply is server-side apply of all but the status. An absent Service is created.
func (r serviceClient) Apply(ctx context.Context, config *corev1apply.ServiceApplyConfiguration, opts metav1.ApplyOptions) (*corev1.Service, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, "")
}

// ApplyStatus is server-side apply of the status and the metadata. An absent Service
// is NotFound.
func (r serviceClient) ApplyStatus(ctx context.Context, config *corev1apply.ServiceApplyConfiguration, opts metav1.ApplyOptions) (*corev1.Service, error) {
	return applyConfig(ctx, r.resourceClient, config, opts, statusSubresource)
}

// ProxyGet is not simulated: its answer is an error.
func (r serviceClient) ProxyGet(string, string, string, string, map[string]string) restclient.ResponseWrapper {
	return noProxy{}
}

type noProxy struct{}

func (noProxy) DoRaw(context.Context) ([]byte, error) { return nil, noProxyError() }

func (noProxy) Stream(context.Context) (io.ReadCloser, error) { return nil, noProxyError() }

func noProxyError() error {
	return apierrors.NewInternalError(errors.New("simapi: the proxy subresource is not simulated: call the backend itself"))
}
