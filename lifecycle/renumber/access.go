// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Access is one thing that a plan, its application or its rollback does with the
// cluster, as the authorizer sees it.
type Access struct {
	Verb        string `json:"verb"`
	Group       string `json:"group,omitempty"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource,omitempty"`
	// Namespace is empty for resources without one, and for all namespaces.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Path is that of something that is no resource; Resource is empty then.
	Path string `json:"path,omitempty"`
	// Optional: without it something is not checked or not told, and nothing fails.
	Optional bool `json:"optional,omitempty"`
	// Use says what an optional one is for, if it is not for the plan's findings.
	Use string `json:"-"`
}

// String is "create services/status in namespace default".
func (a Access) String() string {
	if a.Path != "" {
		return a.Verb + " " + a.Path
	}
	s := a.Verb + " " + a.Resource
	if a.Group != "" {
		s = a.Verb + " " + a.Resource + "." + a.Group
	}
	if a.Subresource != "" {
		s += "/" + a.Subresource
	}
	if a.Name != "" {
		s += " " + a.Name
	}
	if a.Namespace != "" {
		s += " in namespace " + a.Namespace
	}
	return s
}

// review is the question to the API server.
func (a Access) review() *authorizationv1.SelfSubjectAccessReview {
	if a.Path != "" {
		return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: a.Verb, Path: a.Path},
		}}
	}
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: a.Verb, Group: a.Group, Resource: a.Resource,
			Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name},
	}}
}

// system is the namespace of the lease and of the journal.
const system = metav1.NamespaceSystem

// Accesses lists all that plan, apply and rollback do. docs/rbac.yaml makes a
// ClusterRole and a Role of it.
func Accesses() []Access {
	var all []Access
	add := func(a Access, verbs ...string) {
		for _, v := range verbs {
			a.Verb = v
			all = append(all, a)
		}
	}
	const networking = "networking.k8s.io"
	add(Access{Resource: "namespaces", Name: system}, "get")
	add(Access{Resource: "services"}, "get", "list", "create", "update", "delete")
	add(Access{Resource: "services", Subresource: "status"}, "update")
	add(Access{Group: networking, Resource: "servicecidrs"}, "get", "list", "create", "delete")
	add(Access{Group: networking, Resource: "ipaddresses"}, "list")
	add(Access{Group: "discovery.k8s.io", Resource: "endpointslices"}, "list")
	add(Access{Group: "coordination.k8s.io", Resource: "leases", Namespace: system}, "get", "list", "create", "update", "patch")
	add(Access{Resource: "secrets", Namespace: system}, "list", "create")
	add(Access{Resource: "secrets", Namespace: system, Optional: true, Use: "the journal of a finished run is not removed from the cluster"}, "deletecollection")
	add(Access{Group: "events.k8s.io", Resource: "events", Optional: true, Use: "moves are not told as events"}, "create")
	add(Access{Path: "/flagz", Optional: true, Use: "the runner asks you whether the API servers have the new flag"}, "get")
	add(Access{Resource: "nodes", Optional: true}, "list")
	add(Access{Group: networking, Resource: "networkpolicies", Optional: true}, "list")
	add(Access{Group: "admissionregistration.k8s.io", Resource: "validatingwebhookconfigurations", Optional: true}, "list")
	add(Access{Group: "admissionregistration.k8s.io", Resource: "mutatingwebhookconfigurations", Optional: true}, "list")
	add(Access{Resource: "configmaps", Namespace: system, Optional: true}, "get")
	return all
}

// Review is what the authorizer says to one.
type Review struct {
	Access
	Allowed bool
	// Reason is the authorizer's, if it gave one.
	Reason string
}

// denied lists those that are not allowed, in one line.
func denied(reviews []Review) string {
	all := make([]string, len(reviews))
	for i, r := range reviews {
		all[i] = r.String()
		if r.Reason != "" {
			all[i] += fmt.Sprintf(" (%s)", r.Reason)
		}
	}
	return strings.Join(all, "; ")
}
