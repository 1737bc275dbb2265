// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"
	"unique"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/cidr"
)

// IPAddress is the row of one IPAddress object: what an allocator, a controller
// or a report reads of it. Rows are shared between snapshots: never change one.
type IPAddress struct {
	Name string
	// Addr is the address the name stands for, the zero Addr if it stands for none.
	Addr netip.Addr
	// Canonical reports whether Name is the one canonical spelling of Addr.
	Canonical       bool
	created         uint32 // Unix seconds, until 2106
	UID             types.UID
	ResourceVersion string
	// Nonce marks the call that created the object, empty if none did.
	Nonce string

	// There may be a million rows: what many of them share is kept once.
	ownerScope unique.Handle[Owner] // the owner but for its name
	ownerName  string
	manager    unique.Handle[string]
}

// Owner is the object that has the address, the zero Owner if none is named.
func (a *IPAddress) Owner() Owner {
	o := a.ownerScope.Value()
	o.Name = a.ownerName
	return o
}

// Manager is the value of the label that says who repairs and collects the
// object, empty if it has none.
func (a *IPAddress) Manager() string { return a.manager.Value() }

// Created is the object's creationTimestamp, of one second's precision.
func (a *IPAddress) Created() time.Time { return time.Unix(int64(a.created), 0) }

// GetObjectMeta lets an informer keep rows in place of objects: what client-go
// reads of a stored object is its name and version.
func (a *IPAddress) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Name: a.Name, UID: a.UID, ResourceVersion: a.ResourceVersion}
}

func newIPAddress(obj *networkingv1.IPAddress) *IPAddress {
	owner := OwnerOf(obj.Spec.ParentRef)
	row := &IPAddress{
		Name:            obj.Name,
		UID:             obj.UID,
		ResourceVersion: obj.ResourceVersion,
		Nonce:           obj.Annotations[AnnotationNonce],
		ownerName:       owner.Name,
		manager:         unique.Make(obj.Labels[LabelManagedBy]),
		created:         uint32(max(0, obj.CreationTimestamp.Unix())),
	}
	owner.Name = ""
	row.ownerScope = unique.Make(owner)
	if addr, canonical, err := cidr.ParseAddrLenient(obj.Name); err == nil {
		row.Addr, row.Canonical = addr, canonical
	}
	return row
}

// ServiceCIDR is the row of one ServiceCIDR object. Rows are shared between
// snapshots: never change one.
type ServiceCIDR struct {
	Name            string
	UID             types.UID
	ResourceVersion string
	Created         time.Time
	// Ranges are the usable ones of spec.cidrs, in their order.
	Ranges []cidr.Range
	// Problems are the entries of spec.cidrs that were skipped or read with
	// leniency, and an unreadable priority.
	Problems []Problem
	// ReadyStatus is the status of the Ready condition, empty if absent.
	ReadyStatus  metav1.ConditionStatus
	ReadyReason  string
	ReadyMessage string
	// Generation is the one of the spec, ReadyGeneration the one that the Ready
	// condition was made for.
	Generation, ReadyGeneration int64
	// Terminating reports a deletionTimestamp.
	Terminating bool
	// HasFinalizer reports Finalizer among its finalizers.
	HasFinalizer bool
	// Priority is AnnotationPriority.
	Priority int32
}

// Problem is something in a stored ServiceCIDR that could not be taken as it is.
type Problem struct {
	// Value is the entry as stored.
	Value string
	// Skipped reports that nothing is allocated from it; otherwise it was read
	// leniently.
	Skipped bool
	Message string
}

func (p Problem) String() string {
	verb := "read leniently"
	if p.Skipped {
		verb = "skipped"
	}
	return fmt.Sprintf("%q %s: %s", p.Value, verb, p.Message)
}

// NewServiceCIDR reads an object into a row. It never fails: what it cannot
// read becomes a Problem.
func NewServiceCIDR(obj *networkingv1.ServiceCIDR) *ServiceCIDR {
	row := &ServiceCIDR{
		Name:            obj.Name,
		UID:             obj.UID,
		ResourceVersion: obj.ResourceVersion,
		Created:         obj.CreationTimestamp.Time,
		Generation:      obj.Generation,
		Terminating:     obj.DeletionTimestamp != nil,
		HasFinalizer:    slices.Contains(obj.Finalizers, Finalizer),
	}
	if c := meta.FindStatusCondition(obj.Status.Conditions, networkingv1.ServiceCIDRConditionReady); c != nil {
		row.ReadyStatus, row.ReadyReason, row.ReadyMessage = c.Status, c.Reason, c.Message
		row.ReadyGeneration = c.ObservedGeneration
	}
	for _, s := range obj.Spec.CIDRs {
		r, notes, err := cidr.ParseLenient(s)
		switch {
		case err != nil:
			row.Problems = append(row.Problems, Problem{Value: s, Skipped: true, Message: err.Error()})
			continue
		case r.Size().IsZero():
			row.Problems = append(row.Problems, Problem{Value: s, Skipped: true, Message: "it has no usable address"})
			continue
		case slices.Contains(row.Ranges, r):
			row.Problems = append(row.Problems, Problem{Value: s, Skipped: true, Message: "it is there twice"})
			continue
		}
		for _, note := range notes {
			row.Problems = append(row.Problems, Problem{Value: s, Message: note})
		}
		row.Ranges = append(row.Ranges, r)
	}
	if s, ok := obj.Annotations[AnnotationPriority]; ok {
		p, err := strconv.ParseInt(s, 10, 32)
		if err != nil {
			row.Problems = append(row.Problems, Problem{Value: s, Message: "annotation " + AnnotationPriority + " is no 32-bit integer, taken as 0"})
		}
		row.Priority = int32(p)
		if err != nil {
			row.Priority = 0
		}
	}
	return row
}

// Ready reports that it has no deletionTimestamp, and the condition Ready is True
// or absent.
func (c *ServiceCIDR) Ready() bool {
	return !c.Terminating && (c.ReadyStatus == "" || c.ReadyStatus == metav1.ConditionTrue)
}

// WhyNot says why nothing may be allocated from the ServiceCIDR, the empty
// string if something may. With requireFinalizer one that lacks Finalizer is
// refused as well: its deletion would not wait for anybody.
func (c *ServiceCIDR) WhyNot(requireFinalizer bool) string {
	switch {
	case c.Terminating:
		return "it is terminating"
	case !c.Ready():
		why := "condition Ready is " + string(c.ReadyStatus)
		if c.ReadyReason != "" {
			why += " (" + c.ReadyReason + ")"
		}
		return why
	case requireFinalizer && !c.HasFinalizer:
		return "its finalizer is missing (does a ServiceCIDR controller run?)"
	}
	return ""
}

// CoversUsable reports whether the address is usable in one of its ranges.
func (c *ServiceCIDR) CoversUsable(addr netip.Addr) bool {
	return slices.ContainsFunc(c.Ranges, func(r cidr.Range) bool { return r.Contains(addr) })
}
