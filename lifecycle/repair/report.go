// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/informer"
)

// Kind is what is wrong, also the value of the metrics' label "kind".
type Kind string

// What is put right.
const (
	// Missing: an owner claims the address, and there is no IPAddress. It is
	// created.
	Missing Kind = "missing"
	// Leaked: the owner of the IPAddress is gone or does not claim the address,
	// and nobody else does. It is deleted after Config.LeakGrace.
	Leaked Kind = "leaked"
	// WrongReference: an owner claims the address, and the IPAddress names
	// another, which is gone or does not claim it. It is deleted after
	// Config.MismatchGrace, and a new one is created.
	WrongReference Kind = "wrong_reference"
	// WrongLabel: the IPAddress is right but for its labels. They are patched.
	WrongLabel Kind = "wrong_label"
)

// What is reported only.
const (
	// AlreadyAllocated: an owner claims the address, and the IPAddress names
	// another and must not be deleted: its owner's resource is not registered,
	// somebody else manages it, or an allocation created it at that moment.
	AlreadyAllocated Kind = "already_allocated"
	// Duplicate: two owners claim the address. The IPAddress stays with the one
	// that it names, else the older one gets it. One finding for each younger one.
	Duplicate Kind = "duplicate"
	// OutOfRange: an owner claims an address that is usable in no ServiceCIDR.
	// Its IPAddress is kept all the same.
	OutOfRange Kind = "out_of_range"
	// NotValid: an owner claims something that is no address.
	NotValid Kind = "not_valid"
	// NonCanonical: an IPAddress whose name, or a claim whose text, is not the
	// canonical spelling of an address. Such an IPAddress keeps nobody from
	// taking the address; such a claim counts as one of the address it means.
	NonCanonical Kind = "non_canonical"
	// Unmanaged: the managed-by label of the IPAddress is none of those that
	// the controller is configured for.
	Unmanaged Kind = "unmanaged"
	// Unregistered: the IPAddress names an owner of a resource that is not
	// registered.
	Unregistered Kind = "unregistered"
)

// kinds lists all of them, for metrics.
func kinds() []Kind {
	return []Kind{Missing, Leaked, WrongReference, WrongLabel, AlreadyAllocated, Duplicate, OutOfRange, NotValid, NonCanonical, Unmanaged, Unregistered}
}

// Outcome is what became of a finding in the pass.
type Outcome string

const (
	// Reported: nothing was done, because nothing may be or because of DryRun.
	Reported Outcome = "reported"
	// Pending: its grace period is not over, or the IPAddress is deleted already
	// and waits for finalizers.
	Pending Outcome = "pending"
	// Repaired: it was put right.
	Repaired Outcome = "repaired"
	// Superseded: somebody else was faster; nothing was done.
	Superseded Outcome = "superseded"
	// Failed: a write failed, or its outcome is unknown; Finding.Err says why.
	// The next pass looks again.
	Failed Outcome = "failed"
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind    Kind
	Outcome Outcome
	// Name is the name of the IPAddress, there or missing, or the text of a
	// claim that has no meaning.
	Name string
	// Address is what Name stands for, the zero Addr if nothing.
	Address netip.Addr
	// UID is that of the IPAddress that was seen, empty if there is none.
	UID types.UID
	// Owner is whose claim, or whose IPAddress, it is about.
	Owner informer.Owner
	// Other is whom the IPAddress names (WrongReference, AlreadyAllocated), or
	// the older owner (Duplicate).
	Other informer.Owner
	// Wait is, if Pending, how long the grace period still lasts.
	Wait time.Duration
	// Detail is for people.
	Detail string
	// Err is why it Failed.
	Err error
}

func (f Finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: owner %s", f.Kind, f.Name, f.Owner)
	if f.Other != (informer.Owner{}) {
		fmt.Fprintf(&b, ", other %s", f.Other)
	}
	fmt.Fprintf(&b, ": %s", f.Outcome)
	if f.Outcome == Pending && f.Wait > 0 {
		fmt.Fprintf(&b, " for %v", f.Wait)
	}
	if f.Detail != "" {
		fmt.Fprintf(&b, " (%s)", f.Detail)
	}
	if f.Err != nil {
		fmt.Fprintf(&b, ": %v", f.Err)
	}
	return b.String()
}

// maxListed bounds the findings of one kind that a Report lists.
const maxListed = 1000

// Report is what one pass saw and did.
type Report struct {
	// Owners and Addresses are how many owners and IPAddresses were looked at.
	Owners, Addresses int
	// Findings are listed in no particular order, at most 1000 of each kind.
	Findings []Finding
	// Counts are all findings by kind, without those that are Pending or
	// Superseded.
	Counts map[Kind]int
	// Outstanding are those of Counts that are still so at the end of the pass.
	Outstanding map[Kind]int
	// Pending is how many wait for a grace period.
	Pending int
	// Next is when the first of those grace periods ends, 0 if none is pending.
	Next time.Duration
	// Duration is how long the pass took.
	Duration time.Duration

	listed map[Kind]int
}

func (r *Report) add(f Finding) {
	switch f.Outcome {
	case Pending:
		r.Pending++
		if f.Wait > 0 && (r.Next == 0 || f.Wait < r.Next) {
			r.Next = f.Wait
		}
	case Superseded:
	default:
		r.Counts[f.Kind]++
		if f.Outcome != Repaired {
			r.Outstanding[f.Kind]++
		}
	}
	if r.listed[f.Kind]++; r.listed[f.Kind] <= maxListed {
		r.Findings = append(r.Findings, f)
	}
}
