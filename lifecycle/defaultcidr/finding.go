// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// Kind is how the stored ServiceCIDR relates to the configured ranges.
type Kind string

const (
	// Unknown: it has not been read yet. The zero value.
	Unknown Kind = ""
	// Consistent: it has the configured ranges.
	Consistent Kind = "Consistent"
	// Created: so it has, and this look created it.
	Created Kind = "Created"
	// Extended: so it has, and this look added the second family.
	Extended Kind = "Extended"
	// Absent: there is none, and it could not be created yet.
	Absent Kind = "Absent"
	// FamilyMissing: it has the first of two configured ranges alone, and the
	// second could not be added yet.
	FamilyMissing Kind = "FamilyMissing"
	// Downgrade: it has a second family that is not configured.
	Downgrade Kind = "Downgrade"
	// Swapped: its ranges are configured, or the configured ones are its, but
	// another family comes first.
	Swapped Kind = "Swapped"
	// Mismatch: it has other ranges, or some that cannot be read.
	Mismatch Kind = "Mismatch"
	// Terminating: it is being deleted, whatever its ranges.
	Terminating Kind = "Terminating"
)

// kinds are all but Unknown.
func kinds() []Kind {
	return []Kind{Consistent, Created, Extended, Absent, FamilyMissing, Downgrade, Swapped, Mismatch, Terminating}
}

// AsConfigured reports Consistent, Created or Extended.
func (k Kind) AsConfigured() bool { return k == Consistent || k == Created || k == Extended }

// String is the name of the kind.
func (k Kind) String() string {
	if k == Unknown {
		return "Unknown"
	}
	return string(k)
}

// Finding is what one look at the default ServiceCIDR found. Findings are
// comparable with ==.
type Finding struct {
	Kind Kind
	// UID is that of the ServiceCIDR looked at, empty if there is none.
	UID types.UID
	// Message says what is stored and what is configured.
	Message string
	// Remedy says what an operator can do, empty if nothing has to be done.
	Remedy string
}

// String is the message and the remedy.
func (f Finding) String() string {
	s := f.Kind.String() + ": " + f.Message
	if f.Message == "" {
		s = "it has not been read yet"
	}
	if f.Remedy != "" {
		s += ". " + f.Remedy
	}
	return s
}

// judge compares a stored ServiceCIDR with the configured ranges. FamilyMissing
// is the one finding that a write may cure.
func (c *Controller) judge(obj *networkingv1.ServiceCIDR) Finding {
	row := informer.NewServiceCIDR(obj)
	stored, name := strings.Join(obj.Spec.CIDRs, ","), fmt.Sprintf("ServiceCIDR %q", obj.Name)
	// What cannot be read, has no usable address or is there twice is no row's range.
	allRead := len(row.Ranges) == len(obj.Spec.CIDRs) && len(row.Ranges) > 0
	same := allRead && slices.Equal(row.Ranges, c.ranges)
	f := Finding{UID: obj.UID}
	switch {
	case row.Terminating:
		f.Kind = Terminating
		f.Message = fmt.Sprintf("%s (%s) is being deleted", name, stored)
		if !same {
			f.Message += ", and " + c.want + " is configured"
		}
		f.Remedy = fmt.Sprintf("A deletion cannot be taken back. It ends when no address depends on the ServiceCIDR any more: the condition Ready names those that do. "+
			"The first API server that sees it gone creates it again, this one with %s. "+
			"To use the ranges until then, create another ServiceCIDR with them", c.want)
	case same:
		f.Kind = Consistent
		f.Message = fmt.Sprintf("%s has the configured ranges %s", name, c.want)
		if stored != c.want {
			f.Message += ", spelled " + stored
		}
	case !allRead:
		f.Kind = Mismatch
		f.Message = fmt.Sprintf("%s has ranges that cannot be used (%s), and %s is configured", name, problems(row), c.want)
		f.Remedy = "To come to the configured ones, " + c.recreate()
	case extends(c.ranges, row.Ranges):
		f.Kind = FamilyMissing
		f.Message = fmt.Sprintf("%s has %s alone, and %s is configured", name, stored, c.want)
	default:
		f.Kind = Mismatch
		f.Message = fmt.Sprintf("%s has %s, and %s is configured", name, stored, c.want)
		switch {
		case extends(row.Ranges, c.ranges):
			f.Kind = Downgrade
			f.Message += "; a family cannot be taken away from a ServiceCIDR"
		case swapped(row.Ranges, c.ranges):
			f.Kind = Swapped
			f.Message += "; the first family of a ServiceCIDR cannot change"
		}
		f.Remedy = fmt.Sprintf("If the stored ranges are right, start this API server with %s=%s. To come to the configured ones, %s",
			c.config.Flag, strings.Join(texts(row.Ranges), ","), c.recreate())
	}
	return f
}

// extends reports whether longer is shorter and a second family.
func extends(longer, shorter []cidr.Range) bool {
	return len(longer) == 2 && len(shorter) == 1 && longer[0] == shorter[0]
}

// swapped reports whether one has all of the other, and their first ones differ.
func swapped(a, b []cidr.Range) bool {
	has := func(all, some []cidr.Range) bool {
		return !slices.ContainsFunc(some, func(r cidr.Range) bool { return !slices.Contains(all, r) })
	}
	return a[0] != b[0] && (has(a, b) || has(b, a))
}

// recreate says how to come to the configured ranges when the object cannot.
func (c *Controller) recreate() string {
	return fmt.Sprintf("create another ServiceCIDR with %[1]s, so that addresses in it stay covered; start every API server with %[2]s=%[1]s; "+
		"then delete ServiceCIDR %[3]s. Addresses that no other ServiceCIDR covers hold it: move their Services. "+
		"The first API server that sees it gone creates it again; then delete the other one", c.want, c.config.Flag, c.config.Name)
}

// absent is the finding when a create failed.
func (c *Controller) absent(err error) Finding {
	return Finding{
		Kind:    Absent,
		Message: fmt.Sprintf("ServiceCIDR %q does not exist, and could not be created with %s yet", c.config.Name, c.want),
		Remedy:  c.remedy(err, "create"),
	}
}

// remedy says what to do about a write that failed.
func (c *Controller) remedy(err error, verb string) string {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Sprintf("If this lasts, allow this API server to %s servicecidrs.%s, and look for an admission policy in the way", verb, networkingv1.GroupName)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return "See the error: an admission policy may be in the way, or the stored spelling of the first range be refused. In that case, " + c.recreate()
	case apierrors.IsNotFound(err):
		return fmt.Sprintf("If this lasts, enable %s/v1 ServiceCIDR in the API server", networkingv1.GroupName)
	}
	return "It is tried again"
}

// problems lists what a row left out.
func problems(row *informer.ServiceCIDR) string {
	var out []string
	for _, p := range row.Problems {
		if p.Skipped {
			out = append(out, p.String())
		}
	}
	if len(out) == 0 {
		return "there is none"
	}
	return strings.Join(out, "; ")
}

// texts are the canonical spellings.
func texts(ranges []cidr.Range) []string {
	out := make([]string, len(ranges))
	for i, r := range ranges {
		out[i] = r.String()
	}
	return out
}
