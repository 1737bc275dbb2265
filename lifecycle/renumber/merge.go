// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FieldManager is who the runner is in managedFields, while a Service moves.
const FieldManager = "metacidr-renumber"

// parkedSuffix ends the externalName of a Service on its way. The top-level domain never
// resolves (RFC 2606).
const parkedSuffix = ".renumbering.metacidr.invalid"

// parkedName is the externalName of a Service that a plan moves.
func parkedName(plan string) string { return plan + parkedSuffix }

// isParked tells whether a Service is on its way, by any plan.
func isParked(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeExternalName && strings.HasSuffix(svc.Spec.ExternalName, parkedSuffix)
}

// parked is a Service turned ExternalName, without all that such a one may not have.
// The rest stays: it is what the way back starts from.
func parked(svc *corev1.Service, plan string) *corev1.Service {
	out := svc.DeepCopy()
	s := &out.Spec
	s.Type, s.ExternalName = corev1.ServiceTypeExternalName, parkedName(plan)
	s.ClusterIP, s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy = "", nil, nil, nil
	dropNodePorts(s)
	s.ExternalTrafficPolicy, s.InternalTrafficPolicy = "", nil
	s.LoadBalancerClass, s.AllocateLoadBalancerNodePorts, s.LoadBalancerSourceRanges = nil, nil, nil
	return out
}

// unparked is the way back: the live Service, with what parking took given back, and
// nothing else. What another has changed meanwhile stays, and what of it stands
// against the original is told.
//
//	parked == live   -> original
//	parked != live   -> live, and told if parking had changed the field too
func unparked(live, original *corev1.Service, plan string) (_ *corev1.Service, told []string, err error) {
	base, err := fields(parked(original, plan).Spec)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := fields(live.Spec)
	if err != nil {
		return nil, nil, err
	}
	ours, err := fields(original.Spec)
	if err != nil {
		return nil, nil, err
	}
	if isParked(live) {
		// Another plan's mark is as good as ours.
		base["externalName"] = live.Spec.ExternalName
	}
	merged := make(map[string]any, len(theirs))
	for _, key := range keys(base, theirs, ours) {
		b, t, o := base[key], theirs[key], ours[key]
		switch {
		case addressField(key):
			// The caller's.
		case reflect.DeepEqual(b, t):
			t = o
		case key == "ports":
			// Below.
		case !reflect.DeepEqual(b, o) && !reflect.DeepEqual(t, o):
			told = append(told, fmt.Sprintf("spec.%s was changed by another meanwhile: it stays %v, and was %v", key, show(t), show(o)))
		}
		if t != nil {
			merged[key] = t
		}
	}
	out := live.DeepCopy()
	out.Spec = corev1.ServiceSpec{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, &out.Spec); err != nil {
		return nil, nil, err
	}
	if out.Spec.Type == corev1.ServiceTypeNodePort || out.Spec.Type == corev1.ServiceTypeLoadBalancer {
		giveNodePorts(out.Spec.Ports, original.Spec.Ports)
	}
	if out.Spec.Type != original.Spec.Type {
		fit(&out.Spec)
	}
	return out, told, nil
}

// fit takes from a spec what its type may not have.
func fit(s *corev1.ServiceSpec) {
	if s.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	s.HealthCheckNodePort = 0
	s.LoadBalancerClass, s.AllocateLoadBalancerNodePorts, s.LoadBalancerSourceRanges = nil, nil, nil
	if s.Type == corev1.ServiceTypeNodePort {
		return
	}
	s.ExternalTrafficPolicy = ""
	dropNodePorts(s)
}

// addressField tells whether a field of the spec is about addresses, which change on
// purpose.
func addressField(key string) bool {
	switch key {
	case "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy":
		return true
	}
	return false
}

// giveNodePorts gives the ports that have none the one that they had.
func giveNodePorts(ports, original []corev1.ServicePort) {
	taken := map[int32]bool{}
	for _, p := range ports {
		taken[p.NodePort] = true
	}
	for i := range ports {
		p := &ports[i]
		for _, o := range original {
			if p.NodePort == 0 && o.NodePort != 0 && o.Port == p.Port && o.Protocol == p.Protocol && !taken[o.NodePort] {
				p.NodePort = o.NodePort
				taken[o.NodePort] = true
			}
		}
	}
}

// setAddresses writes what is asked for into a Service without addresses.
func setAddresses(svc *corev1.Service, w want) {
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = "", nil
	if w.addresses == nil {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy = w.families, w.policy
		return
	}
	var addresses []string
	svc.Spec.IPFamilies, svc.Spec.IPFamilyPolicy, addresses = w.asked()
	if len(addresses) > 0 {
		svc.Spec.ClusterIP, svc.Spec.ClusterIPs = addresses[0], addresses
	}
}

// fields are those of a spec by their names in JSON.
func fields(spec corev1.ServiceSpec) (map[string]any, error) {
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&spec)
}

func keys(maps ...map[string]any) []string {
	var all []string
	for _, m := range maps {
		for k := range m {
			all = append(all, k)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func show(v any) any {
	if v == nil {
		return "unset"
	}
	return v
}

// ownership is managedFields as they were before the move, with what others did
// meanwhile: an entry has the fields of both. The runner's own are left out.
func ownership(live, original []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	out := slices.Clone(original)
	for _, l := range live {
		if l.Manager == FieldManager {
			continue
		}
		i := slices.IndexFunc(out, func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == l.Manager && o.Operation == l.Operation && o.Subresource == l.Subresource && o.APIVersion == l.APIVersion
		})
		if i < 0 {
			out = append(out, l)
			continue
		}
		if union, grown := unite(out[i].FieldsV1, l.FieldsV1); grown {
			out[i].FieldsV1, out[i].Time = union, l.Time
		}
	}
	return out
}

// unite returns the fields of both, and whether b has any that a has not.
func unite(a, b *metav1.FieldsV1) (_ *metav1.FieldsV1, grown bool) {
	if a == nil || b == nil {
		return b, b != nil
	}
	var as, bs fieldpath.Set
	if as.FromJSON(a.GetRawReader()) != nil || bs.FromJSON(b.GetRawReader()) != nil {
		return b, true
	}
	if bs.Difference(&as).Empty() {
		return a, false
	}
	raw, err := as.Union(&bs).ToJSON()
	if err != nil {
		return b, true
	}
	return metav1.NewFieldsV1(string(raw)), true
}

// dropNodePorts leaves no node port: where the type has any, the API server draws them.
func dropNodePorts(spec *corev1.ServiceSpec) {
	for i := range spec.Ports {
		spec.Ports[i].NodePort = 0
	}
	spec.HealthCheckNodePort = 0
}

// takeNodePorts gives the ports of a Service on its way the node ports that they had, in place of those that were drawn
// meanwhile.
func takeNodePorts(spec, original *corev1.ServiceSpec) {
	if spec.Type != original.Type {
		return
	}
	for i := range spec.Ports {
		p := &spec.Ports[i]
		for _, o := range original.Ports {
			if o.Port == p.Port && o.Protocol == p.Protocol && o.NodePort != 0 {
				p.NodePort = o.NodePort
			}
		}
	}
	if spec.HealthCheckNodePort != 0 && original.HealthCheckNodePort != 0 {
		// It does not change but through another type.
		spec.HealthCheckNodePort = original.HealthCheckNodePort
	}
}

// owns tells whether the runner is among the managers.
func owns(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == FieldManager })
}

// SameService tells in what a Service differs from its original, beyond its
// addresses and resourceVersion; with recreated, also beyond its UID and
// creationTimestamp. families has the families and their policy compared too.
func SameService(got, original *corev1.Service, recreated, families bool) (differences []string) {
	a, b := neutral(got, recreated, families), neutral(original, recreated, families)
	av, bv := reflect.ValueOf(*a), reflect.ValueOf(*b)
	compare := func(prefix string, a, b reflect.Value) {
		for i := range a.NumField() {
			if !apiequality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
				differences = append(differences, fmt.Sprintf("%s%s is %v, and was %v", prefix, name, a.Field(i).Interface(), b.Field(i).Interface()))
			}
		}
	}
	for i := range av.NumField() {
		switch f := av.Type().Field(i); f.Name {
		case "TypeMeta":
		case "ObjectMeta", "Spec", "Status":
			compare(strings.ToLower(strings.TrimPrefix(f.Name, "Object"))+".", av.Field(i), bv.Field(i))
		}
	}
	return differences
}

func neutral(svc *corev1.Service, recreated, families bool) *corev1.Service {
	out := svc.DeepCopy()
	out.ResourceVersion, out.Spec.ClusterIP, out.Spec.ClusterIPs = "", "", nil
	if recreated {
		out.UID, out.CreationTimestamp = "", metav1.Time{}
	}
	if !families {
		out.Spec.IPFamilies, out.Spec.IPFamilyPolicy = nil, nil
	}
	for i := range out.ManagedFields {
		// The API server may write the same set in another order.
		fields := out.ManagedFields[i].FieldsV1
		if set := new(fieldpath.Set); fields != nil && set.FromJSON(fields.GetRawReader()) == nil {
			if raw, err := set.ToJSON(); err == nil {
				fields.SetRawBytes(raw)
			}
		}
	}
	slices.SortFunc(out.ManagedFields, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+string(a.Operation)+a.Subresource, b.Manager+string(b.Operation)+b.Subresource)
	})
	return out
}
