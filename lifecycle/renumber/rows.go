// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/metacidr/metacidr/cidr"
)

// makeRows writes down what happens to every Service.
//
//	Service --class, traits--> row
//	        --after----------> families and addresses at the end, "" for new ones
//	        --decide---------> Skip, Keep, Renew, Hold, Convert, Move
//	rows    --choose---------> new addresses, where the plan chooses them
func (p *Plan) makeRows(w *World, src rand.Source) ([]Finding, error) {
	about := w.about()
	p.Services = make([]Row, 0, len(w.Services))
	for i := range w.Services {
		p.Services = append(p.Services, p.row(&w.Services[i], about))
	}
	slices.SortFunc(p.Services, func(a, b Row) int { return strings.Compare(a.Key(), b.Key()) })
	return p.choose(w, src)
}

func (p *Plan) row(svc *corev1.Service, about surroundings) Row {
	row := Row{
		Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID, ResourceVersion: svc.ResourceVersion,
		Class: about.class(svc), Traits: about.traits(svc),
		From: slices.Clone(svc.Spec.ClusterIPs), Families: slices.Clone(svc.Spec.IPFamilies),
	}
	p.decide(&row, svc, about)
	return row
}

// decide sets Action, Reason, Strategy, Families and To; the latter with "" for
// what is new.
func (p *Plan) decide(row *Row, svc *corev1.Service, about surroundings) {
	after := p.after(svc, nil)
	families, addresses := after.Spec.IPFamilies, after.Spec.ClusterIPs
	same := slices.Equal(families, svc.Spec.IPFamilies) && slices.Equal(addresses, svc.Spec.ClusterIPs)
	switch row.Class {
	case ClassExternalName:
		row.Action, row.Reason = ActionSkip, "it is a name: it has no address"
		return
	case ClassKubernetes:
		p.decideKubernetes(row)
		return
	case ClassHeadless:
		if same {
			row.Action, row.Reason = ActionSkip, "it is headless: it has no address"
			return
		}
	}
	switch {
	case len(families) == 0 || len(addresses) == 0:
		row.Action, row.Reason = ActionSkip, "it has no address"
		return
	case same && len(p.moves()) == 0:
		row.Action, row.Reason = ActionKeep, "the playbook moves no Service"
		return
	case same:
		row.Action, row.Reason = ActionKeep, "its addresses and families may stay"
		return
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !p.Request.LoadBalancers:
		row.Action, row.Reason = ActionHold, "it is a LoadBalancer: its load balancer may be set up anew, so it changes only with --load-balancers"
		return
	}
	row.Families, row.To = families, addresses
	row.Strategy = p.Request.Strategy
	if families[0] == svc.Spec.IPFamilies[0] && addresses[0] == svc.Spec.ClusterIPs[0] && len(families) != len(svc.Spec.IPFamilies) {
		row.Action, row.Strategy = ActionConvert, InPlace
		row.Reason = fmt.Sprintf("it has %s, and gets %s", quoted(svc.Spec.IPFamilies), quoted(families))
		if row.Class != ClassHeadless {
			row.Reason += ": its first address stays"
		}
		return
	}
	row.Action, row.Reason = ActionMove, p.why(svc, families)
	if why := about.losesIfRecreated(svc); why != "" && row.Strategy == Recreate {
		row.Strategy = InPlace
		row.Reason += "; in place, for " + why
	}
}

// why says why a Service moves.
func (p *Plan) why(svc *corev1.Service, families []corev1.IPFamily) string {
	leaves := p.leaves()
	var out []string
	for _, a := range svc.Spec.ClusterIPs {
		if leaves(a) {
			out = append(out, a)
		}
	}
	switch {
	case !slices.Equal(families, svc.Spec.IPFamilies):
		return fmt.Sprintf("its families change from %s to %s", quoted(svc.Spec.IPFamilies), quoted(families))
	case len(out) > 0:
		return strings.Join(out, ", ") + " is in a range to leave"
	}
	return "its addresses change"
}

func (p *Plan) decideKubernetes(row *Row) {
	for _, s := range slices.Backward(p.Steps) {
		if s.Kind == RenewKubernetes {
			r := parseAll(s.Ranges[:1])[0]
			row.Action, row.Strategy = ActionRenew, p.Request.Strategy
			row.Reason = fmt.Sprintf("it is the API server's: it moves into %s when that is its first range (step %d)", r, s.ID)
			row.Families, row.To = []corev1.IPFamily{corev1.IPFamily(r.Family().String())}, []string{r.First().String()}
			return
		}
	}
	if slices.ContainsFunc(row.From, p.leaves()) {
		row.Action, row.Reason = ActionHold, "it is the API server's, which gives it the first address of its own first range: no step changes that"
		return
	}
	row.Action, row.Reason = ActionKeep, "it is the API server's, and its address may stay"
}

// moves are the steps that move Services.
func (p *Plan) moves() []Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Kind != MoveServices })
}

// after is the Service as all steps leave it, as far as its addresses go; "" is a
// new one that is not among the chosen. A headless one keeps its "None".
func (p *Plan) after(svc *corev1.Service, chosen []string) *corev1.Service {
	out := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}, Spec: *svc.Spec.DeepCopy()}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return out
	}
	for _, s := range p.moves() {
		w := wants(out, s.Target, chosen)
		out.Spec.IPFamilies, out.Spec.IPFamilyPolicy = w.families, w.policy
		if w.addresses != nil {
			out.Spec.ClusterIPs, out.Spec.ClusterIP = w.addresses, ""
			if len(w.addresses) > 0 {
				out.Spec.ClusterIP = w.addresses[0]
			}
		}
	}
	return out
}

// surroundings is what tells the class and the traits of a Service beside itself.
type surroundings struct {
	kubeletDNS []string
	// referred are the UIDs that ownerReferences of others name.
	referred map[types.UID]string
	// manual are the Services, by "namespace/name", whose endpoints somebody makes by
	// hand.
	manual map[string]string
}

// Who makes the EndpointSlices of Services that have a selector, and who copies
// Endpoints, which are made by hand, into EndpointSlices.
const (
	slicesManager = "endpointslice-controller.k8s.io"
	mirrorManager = "endpointslicemirroring-controller.k8s.io"
)

func (w *World) about() surroundings {
	s := surroundings{kubeletDNS: w.KubeletDNS, referred: map[types.UID]string{}, manual: map[string]string{}}
	refer := func(kind string, o metav1.Object) {
		for _, r := range o.GetOwnerReferences() {
			s.referred[r.UID] = fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())
		}
	}
	for i := range w.EndpointSlices {
		e := &w.EndpointSlices[i]
		by := e.Labels[discoveryv1.LabelManagedBy]
		svc := e.Namespace + "/" + e.Labels[discoveryv1.LabelServiceName]
		switch by {
		case slicesManager:
			// Its controller makes them again.
		case mirrorManager:
			s.manual[svc] = "the Endpoints of the same name, which are made by hand and would be deleted with it"
		default:
			refer("EndpointSlice", e)
			s.manual[svc] = fmt.Sprintf("EndpointSlice %s/%s, which is made by hand", e.Namespace, e.Name)
		}
	}
	for i := range w.NetworkPolicies {
		refer("NetworkPolicy", &w.NetworkPolicies[i])
	}
	for i := range w.Services {
		refer("Service", &w.Services[i])
	}
	return s
}

func isKubernetes(svc *corev1.Service) bool {
	return svc.Namespace == metav1.NamespaceDefault && svc.Name == kubernetesService
}

func isHeadless(svc *corev1.Service) bool { return svc.Spec.ClusterIP == corev1.ClusterIPNone }

func (s surroundings) class(svc *corev1.Service) Class {
	switch {
	case isKubernetes(svc):
		return ClassKubernetes
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return ClassExternalName
	case isHeadless(svc):
		return ClassHeadless
	case s.isDNS(svc):
		return ClassDNS
	case svc.Spec.Type == corev1.ServiceTypeLoadBalancer:
		return ClassLoadBalancer
	case svc.Spec.Type == corev1.ServiceTypeNodePort:
		return ClassNodePort
	}
	return ClassClusterIP
}

func (s surroundings) isDNS(svc *corev1.Service) bool {
	if svc.Namespace == system && (svc.Name == "kube-dns" || svc.Labels["k8s-app"] == "kube-dns") {
		return true
	}
	return slices.ContainsFunc(svc.Spec.ClusterIPs, func(a string) bool { return slices.Contains(s.kubeletDNS, a) })
}

func (s surroundings) traits(svc *corev1.Service) []Trait {
	var all []Trait
	add := func(has bool, t Trait) {
		if has {
			all = append(all, t)
		}
	}
	add(hardCoded(svc) != "", TraitHardCoded)
	add(len(svc.Finalizers) > 0, TraitFinalizers)
	add(len(svc.OwnerReferences) > 0, TraitOwned)
	add(s.referred[svc.UID] != "" && svc.UID != "", TraitOwner)
	add(len(svc.Spec.Selector) == 0 && svc.Spec.Type != corev1.ServiceTypeExternalName && !isKubernetes(svc), TraitNoSelector)
	add(len(svc.Spec.IPFamilies) == 2, TraitDualStack)
	return all
}

// losesIfRecreated says what a deletion would lose, or wait for.
func (s surroundings) losesIfRecreated(svc *corev1.Service) string {
	if f := svc.Finalizers; len(f) > 0 {
		return "its finalizers " + strings.Join(f, ", ")
	}
	if by := s.referred[svc.UID]; by != "" && svc.UID != "" {
		return by + ", which refers to its UID and would be collected with it"
	}
	// Those without an ownerReference outlive the Service; the Endpoints of its name do
	// not.
	if by := s.manual[key(svc)]; by != "" {
		return by
	}
	return ""
}

// apiServerManagers write addresses on nobody's behalf.
func apiServerManagers() []string { return []string{"kube-apiserver"} }

// hardCoded says who names the address of a Service; "" if nobody does but the API
// server, which drew it.
func hardCoded(svc *corev1.Service) string {
	if isHeadless(svc) || svc.Spec.Type == corev1.ServiceTypeExternalName || isKubernetes(svc) {
		return ""
	}
	if raw, ok := svc.Annotations[corev1.LastAppliedConfigAnnotation]; ok {
		var applied struct {
			Spec struct {
				ClusterIP  string   `json:"clusterIP"`
				ClusterIPs []string `json:"clusterIPs"`
			} `json:"spec"`
		}
		if err := json.Unmarshal([]byte(raw), &applied); err == nil && (applied.Spec.ClusterIP != "" || len(applied.Spec.ClusterIPs) > 0) {
			return "the manifest of kubectl apply (annotation " + corev1.LastAppliedConfigAnnotation + ")"
		}
	}
	for _, m := range svc.ManagedFields {
		if m.Subresource != "" || m.FieldsV1 == nil || slices.Contains(apiServerManagers(), m.Manager) {
			continue
		}
		var set fieldpath.Set
		if err := set.FromJSON(m.FieldsV1.GetRawReader()); err != nil {
			continue
		}
		for _, field := range []string{"clusterIP", "clusterIPs"} {
			path := fieldpath.MakePathOrDie("spec", field)
			// clusterIPs is atomic: the field itself is in the set, not its items.
			if set.Has(path) {
				return "field manager " + m.Manager
			}
		}
	}
	return ""
}

// addrOf is the address that an IPAddress stands for.
func addrOf(ip *networkingv1.IPAddress) (netip.Addr, bool) {
	a, _, err := cidr.ParseAddrLenient(ip.Name)
	return a, err == nil
}
