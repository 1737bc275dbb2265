// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"errors"
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Owner is the object that an address belongs to: the ParentReference of its
// IPAddress. Any resource may own one. The zero value is refused.
type Owner struct {
	Group     string // API group, empty for core
	Resource  string // plural, lower case: "services"
	Namespace string // empty for cluster-scoped owners
	Name      string
}

// ServiceOwner is the Owner for a core Service.
func ServiceOwner(namespace, name string) Owner {
	return Owner{Resource: "services", Namespace: namespace, Name: name}
}

// OwnerOf reads the owner of an IPAddress; nil gives the zero Owner.
func OwnerOf(ref *networkingv1.ParentReference) Owner {
	if ref == nil {
		return Owner{}
	}
	return Owner{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
}

// Reference returns the owner as an IPAddress names it.
func (o Owner) Reference() *networkingv1.ParentReference {
	return &networkingv1.ParentReference{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}
}

// IsService reports whether the owner is a core Service.
func (o Owner) IsService() bool { return o.Group == "" && o.Resource == "services" }

// Validate says what an owner lacks to be written into an IPAddress.
func (o Owner) Validate() error {
	switch {
	case o == Owner{}:
		return errors.New("owner is empty: set at least Resource (plural, such as \"services\") and Name")
	case o.Resource == "":
		return fmt.Errorf("owner %q has no Resource: set its plural, such as \"services\"", o.Name)
	case o.Name == "":
		return fmt.Errorf("owner of resource %q has no Name", o.Resource)
	}
	for _, part := range []struct{ what, value string }{
		{"Group", o.Group}, {"Resource", o.Resource}, {"Namespace", o.Namespace}, {"Name", o.Name},
	} {
		if strings.ContainsAny(part.value, "/\x00%") {
			return fmt.Errorf("owner's %s %q contains a character that no object name may have (/, %% or NUL)", part.what, part.value)
		}
	}
	return nil
}

// String is resource[.group]/[namespace/]name.
func (o Owner) String() string {
	var b strings.Builder
	b.WriteString(o.Resource)
	if o.Group != "" {
		b.WriteByte('.')
		b.WriteString(o.Group)
	}
	b.WriteByte('/')
	if o.Namespace != "" {
		b.WriteString(o.Namespace)
		b.WriteByte('/')
	}
	b.WriteString(o.Name)
	return b.String()
}
