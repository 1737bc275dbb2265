// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinitySeconds is a day.
const maxAffinitySeconds int32 = 24 * 60 * 60

// Where things stand in an object. Paths are never written to.
var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
)

// oneOf are the values that a field takes.
type oneOf[T ~string] []T

var (
	serviceTypes = oneOf[corev1.ServiceType]{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
	}
	affinities              = oneOf[corev1.ServiceAffinity]{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone}
	protocols               = oneOf[corev1.Protocol]{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}
	ipFamilies              = oneOf[corev1.IPFamily]{corev1.IPv4Protocol, corev1.IPv6Protocol}
	internalTrafficPolicies = oneOf[corev1.ServiceInternalTrafficPolicy]{
		corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
	}
	externalTrafficPolicies = oneOf[corev1.ServiceExternalTrafficPolicy]{
		corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
	}
	familyPolicies = oneOf[corev1.IPFamilyPolicy]{
		corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
	}
	trafficDistributions = oneOf[string]{
		corev1.ServiceTrafficDistributionPreferClose,
		corev1.ServiceTrafficDistributionPreferSameNode,
		corev1.ServiceTrafficDistributionPreferSameZone,
	}
	ipModes = oneOf[corev1.LoadBalancerIPMode]{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}
)

func (o oneOf[T]) has(v T) bool { return slices.Contains(o, v) }

// check refuses all but the values of o.
func (o oneOf[T]) check(path *field.Path, v T) field.ErrorList {
	if o.has(v) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, v, o)}
}

// require refuses the empty value as missing, and all others but those of o.
func (o oneOf[T]) require(path *field.Path, v T) field.ErrorList {
	if v == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return o.check(path, v)
}

// invalid turns messages about a value into errors.
func invalid(path *field.Path, value any, messages []string) (errs field.ErrorList) {
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// Service says why a new Service is refused, after its defaults are set. It does not look at addresses beyond their
// syntax: whether one is in a range and free is the allocator's business.
func Service(svc *corev1.Service) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&svc.ObjectMeta, true, apivalidation.NameIsDNSLabel, metadataPath)
	return append(errs, service(svc, nil)...)
}

// service has the rules for a Service by itself. What old has, and what older rules let in, is not refused.
func service(svc, old *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	errs = append(errs, topologyAnnotations(svc)...)
	errs = append(errs, serviceTypes.require(specPath.Child("type"), spec.Type)...)
	errs = append(errs, typeRules(svc)...)
	errs = append(errs, ports(svc)...)
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabels(spec.Selector, specPath.Child("selector"))...)
	}
	errs = append(errs, affinity(spec)...)
	errs = append(errs, clusterIPsAndFamilies(svc, old)...)
	errs = append(errs, externalIPs(svc, old)...)
	errs = append(errs, loadBalancer(svc, old)...)
	return append(errs, traffic(svc)...)
}

// topologyAnnotations refuses two annotations that mean the same and say different things.
func topologyAnnotations(svc *corev1.Service) field.ErrorList {
	mode, hasMode := svc.Annotations[corev1.AnnotationTopologyMode]
	hints, hasHints := svc.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !hasMode || !hasHints || mode == hints {
		return nil
	}
	return field.ErrorList{field.Invalid(metadataPath.Child("annotations").Key(corev1.AnnotationTopologyMode), mode,
		fmt.Sprintf("differs from annotation %s", corev1.DeprecatedAnnotationTopologyAwareHints))}
}

func typeRules(svc *corev1.Service) (errs field.ErrorList) {
	spec := &svc.Spec
	if HasNodePorts(svc) && IsHeadless(svc) {
		errs = append(errs, field.Invalid(specPath.Child("clusterIPs").Index(0), corev1.ClusterIPNone,
			fmt.Sprintf("a %s Service has an address", spec.Type)))
	}
	if spec.Type != corev1.ServiceTypeExternalName {
		return errs
	}
	const none = "an ExternalName Service has none"
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("clusterIPs"), none))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(specPath.Child("ipFamilies"), none))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(specPath.Child("ipFamilyPolicy"), none))
	}
	path := specPath.Child("externalName")
	// A trailing dot says that the name is fully qualified.
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(path, "the DNS name that an ExternalName Service stands for"))
	}
	return append(errs, invalid(path, name, utilvalidation.IsDNS1123Subdomain(name))...)
}

func affinity(spec *corev1.ServiceSpec) field.ErrorList {
	errs := affinities.require(specPath.Child("sessionAffinity"), spec.SessionAffinity)
	path, config := specPath.Child("sessionAffinityConfig"), spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if config != nil {
			errs = append(errs, field.Forbidden(path, "only with affinity ClientIP"))
		}
	case corev1.ServiceAffinityClientIP:
		const needed = "affinity ClientIP needs it"
		if config == nil {
			return append(errs, field.Required(path, needed))
		}
		if path = path.Child("clientIP"); config.ClientIP == nil {
			return append(errs, field.Required(path, needed))
		}
		path = path.Child("timeoutSeconds")
		timeout := config.ClientIP.TimeoutSeconds
		if timeout == nil {
			return append(errs, field.Required(path, needed))
		}
		if most := maxAffinitySeconds; *timeout <= 0 || *timeout > most {
			errs = append(errs, field.Invalid(path, *timeout, fmt.Sprintf("1 to %d seconds", most)))
		}
	}
	return errs
}
