// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
)

// MaxNamed is how many blockers a Report names.
const MaxNamed = 5

// Blocker is an address that holds up a deletion.
type Blocker struct {
	// Address is the IPAddress's, Name its name: they differ only in spelling.
	Address netip.Addr
	Name    string
	Owner   informer.Owner
}

// String is the address and, in parentheses, its owner.
func (b Blocker) String() string { return fmt.Sprintf("%s (%s)", b.Name, b.Owner) }

// Report says what the deletion of a ServiceCIDR waits for.
type Report struct {
	// ServiceCIDR is its name.
	ServiceCIDR string
	// Blocking is the number of managed addresses that only it covers.
	Blocking uint64
	// First are the first few of them, by address: at most MaxNamed.
	First []Blocker
	// Unmanaged is the number of addresses without a managed-by label of ours
	// that only it covers. They do not block; after the deletion they are
	// without a ServiceCIDR.
	Unmanaged uint64
	// Unblock are the prefixes that, in a new ServiceCIDR, would let this one go
	// without any address being given up.
	Unblock []netip.Prefix
	// NoCover are the other ServiceCIDRs that contain it and do not count, and why.
	NoCover []string
}

// Blocked reports whether anything blocks.
func (r *Report) Blocked() bool { return r.Blocking > 0 }

// String is what a condition says: the number, the first few, and the remedy.
func (r *Report) String() string {
	var b strings.Builder
	switch r.Blocking {
	case 0:
		b.WriteString("no managed address depends on it alone")
	case 1:
		b.WriteString("1 address blocks the deletion: ")
	default:
		fmt.Fprintf(&b, "%d addresses block the deletion: ", r.Blocking)
	}
	for i, blocker := range r.First {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(blocker.String())
	}
	if more := r.Blocking - uint64(len(r.First)); more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	if r.Blocked() {
		b.WriteString(". To go on, release them")
		if len(r.Unblock) > 0 {
			prefixes := make([]string, len(r.Unblock))
			for i, p := range r.Unblock {
				prefixes[i] = p.String()
			}
			fmt.Fprintf(&b, ", or create another ServiceCIDR that contains %s", strings.Join(prefixes, " and "))
		}
	}
	if len(r.NoCover) > 0 {
		fmt.Fprintf(&b, "; no cover: %s", strings.Join(r.NoCover, ", "))
	}
	if r.Unmanaged > 0 {
		fmt.Fprintf(&b, "; not waited for: %d without a managed-by label of ours", r.Unmanaged)
	}
	return b.String()
}

// Blockers says, by a view, what the deletion of a ServiceCIDR would wait for if
// it began now (or waits for), and with it the deletion of those named in
// together. The answer is as old as the view. It costs a few look-ups for each
// ServiceCIDR within this one, whatever the number of addresses. It fails with
// ErrNotFound.
func Blockers(s *informer.Snapshot, name string, together ...string) (*Report, error) {
	row := s.ServiceCIDR(name)
	if row == nil {
		return nil, fmt.Errorf("%w: %q: is it gone already?", ErrNotFound, name)
	}
	return blockersInView(s, row, together), nil
}

func blockersInView(s *informer.Snapshot, row *informer.ServiceCIDR, together []string) *Report {
	report := &Report{ServiceCIDR: row.Name}
	for _, span := range exposed(s.Topology(), row, together) {
		present, unmanaged := s.Present(span.Family()), s.Unmanaged(span.Family())
		// Most spans are the ends of nested ServiceCIDRs, and empty.
		if _, any := present.FirstPresent(span, span.First); !any {
			continue
		}
		strangers := unmanaged.Count(span)
		blocking := present.Count(span) - strangers
		report.Unmanaged += strangers
		report.Blocking += blocking
		if blocking == 0 {
			continue
		}
		for at := range present.Within(span) {
			if len(report.First) == MaxNamed {
				break
			}
			if unmanaged.Has(at) {
				continue
			}
			for a := range s.IPAddressesAt(at) {
				report.First = append(report.First, Blocker{Address: at, Name: a.Name, Owner: a.Owner()})
				break
			}
		}
	}
	if report.Blocked() {
		report.remedies(row, together, func(r cidr.Range) []*informer.ServiceCIDR {
			var rows []*informer.ServiceCIDR
			for p := range s.Topology().Containing(r) {
				rows = append(rows, p.Members...)
			}
			return rows
		})
	}
	return report
}

// BlockersLive is Blockers by consistent reads of the API server, for those who
// decide by it: admission, or an operator's tool. It lists all ServiceCIDRs, and
// all IPAddresses unless others cover everything. Addresses that bear one of
// managers block; nil means informer.CoreManager and informer.DefaultManager.
func BlockersLive(ctx context.Context, client informer.Client, managers []string, name string, together ...string) (*Report, error) {
	if managers == nil {
		managers = []string{informer.CoreManager, informer.DefaultManager}
	}
	live, err := readLive(ctx, client, managers, DefaultPageSize, name, together)
	if err != nil {
		return nil, err
	}
	if live.row == nil {
		return nil, fmt.Errorf("%w: %q: is it gone already?", ErrNotFound, name)
	}
	return live.report, nil
}

// live is what consistent reads say of one ServiceCIDR.
type live struct {
	row    *informer.ServiceCIDR // nil: it is gone
	report *Report
}

// readLive reads in the order on which safety rests: first the ServiceCIDRs,
// then the addresses. An address that was created before the first read began is
// in the second unless it is gone, and an address whose other cover was there at
// the first read is waited for by that one's deletion.
func readLive(ctx context.Context, client informer.Client, managers []string, pageSize int64, name string, together []string) (live, error) {
	// No resourceVersion: the answer is not older than the request.
	list, err := client.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return live{}, fmt.Errorf("listing ServiceCIDRs: %w", err)
	}
	var row *informer.ServiceCIDR
	rows := make([]*informer.ServiceCIDR, len(list.Items))
	for i := range list.Items {
		rows[i] = informer.NewServiceCIDR(&list.Items[i])
		if rows[i].Name == name {
			row = rows[i]
		}
	}
	if row == nil {
		return live{}, nil
	}
	report := &Report{ServiceCIDR: name}
	only := exposedAmong(rows, row, together)
	if len(only) == 0 {
		return live{row, report}, nil // whatever addresses there are, others cover them
	}
	// Pages are of one revision, the first one's, and are read ahead while the
	// one before is judged.
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return client.IPAddresses().List(ctx, o)
	})
	pages.PageSize = pageSize
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		report.judge(only, obj.(*networkingv1.IPAddress), managers)
		return nil
	})
	if err != nil {
		return live{}, fmt.Errorf("listing IPAddresses: %w", err)
	}
	if report.Blocked() {
		report.remedies(row, together, func(r cidr.Range) []*informer.ServiceCIDR {
			return slices.DeleteFunc(slices.Clone(rows), func(other *informer.ServiceCIDR) bool {
				return !slices.ContainsFunc(other.Ranges, func(o cidr.Range) bool { return o.Covers(r) })
			})
		})
	}
	return live{row, report}, nil
}

// judge counts an address if it is exposed.
func (r *Report) judge(only exposure, obj *networkingv1.IPAddress, managers []string) {
	addr, _, err := cidr.ParseAddrLenient(obj.Name)
	if err != nil || !only.Contains(addr) {
		return
	}
	if !slices.Contains(managers, obj.Labels[informer.LabelManagedBy]) {
		r.Unmanaged++
		return
	}
	r.Blocking++
	b := Blocker{Address: addr, Name: obj.Name, Owner: informer.OwnerOf(obj.Spec.ParentRef)}
	i, _ := slices.BinarySearchFunc(r.First, addr, func(b Blocker, a netip.Addr) int { return b.Address.Compare(a) })
	if i < MaxNamed {
		r.First = slices.Insert(r.First, i, b)
		r.First = r.First[:min(len(r.First), MaxNamed)]
	}
}

// remedies fills in what would unblock. containing lists the ServiceCIDRs with a
// range that covers r.
func (r *Report) remedies(row *informer.ServiceCIDR, together []string, containing func(cidr.Range) []*informer.ServiceCIDR) {
	for _, own := range cidr.Maximal(row.Ranges) {
		blockers := slices.DeleteFunc(slices.Clone(r.First), func(b Blocker) bool { return !own.Contains(b.Address) })
		switch {
		case len(blockers) == 0 && uint64(len(r.First)) == r.Blocking:
			continue // all are named, and none is in here
		case uint64(len(r.First)) == r.Blocking:
			r.Unblock = append(r.Unblock, tight(own, blockers[0].Address, blockers[len(blockers)-1].Address))
		default:
			r.Unblock = append(r.Unblock, own.Prefix())
		}
		for _, other := range containing(own) {
			if other.Name == row.Name {
				continue
			}
			why := ""
			switch {
			case other.Terminating:
				why = "is terminating too"
			case slices.Contains(together, other.Name):
				why = "is to be deleted too"
			case !other.HasFinalizer:
				why = "lacks the finalizer"
			default:
				continue
			}
			if text := other.Name + " " + why; !slices.Contains(r.NoCover, text) {
				r.NoCover = append(r.NoCover, text)
			}
		}
	}
	slices.Sort(r.NoCover)
}

// tight is the smallest prefix within own in which both addresses are usable.
func tight(own cidr.Range, first, last netip.Addr) netip.Prefix {
	for bits := first.BitLen(); bits > own.Prefix().Bits(); bits-- {
		p, err := first.Prefix(bits)
		if err != nil {
			break
		}
		r, err := cidr.RangeOf(p)
		if err == nil && r.Contains(first) && r.Contains(last) {
			return p
		}
	}
	return own.Prefix()
}
