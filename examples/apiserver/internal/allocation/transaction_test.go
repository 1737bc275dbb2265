// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// book gives out addresses, one after the other, and notes who has which.
type book struct {
	next  map[cidr.Family]netip.Addr
	held  map[string]string // address -> owner
	calls int
	fail  error
}

func newBook(held ...string) *book {
	b := &book{next: map[cidr.Family]netip.Addr{cidr.IPv4: netip.MustParseAddr("10.96.0.1"), cidr.IPv6: netip.MustParseAddr("fd00:96::1")}, held: map[string]string{}}
	for _, a := range held {
		b.held[a] = "ns/a"
	}
	return b
}

func (b *book) Allocate(_ context.Context, r meta.Request) ([]meta.Allocation, error) {
	b.calls++
	if b.fail != nil {
		return nil, b.fail
	}
	var out []meta.Allocation
	for _, f := range r.Families {
		addr := netip.Addr{}
		for _, fixed := range r.Addresses {
			if cidr.FamilyOf(fixed) == f {
				addr = fixed
			}
		}
		if !addr.IsValid() {
			addr = b.next[f]
			b.next[f] = addr.Next()
		}
		if b.held[addr.String()] != "" {
			return nil, fmt.Errorf("%s: %w", addr, meta.ErrAllocated)
		}
		if !r.DryRun {
			b.held[addr.String()] = r.Owner.Namespace + "/" + r.Owner.Name
		}
		out = append(out, meta.Allocation{Address: addr})
	}
	return out, nil
}

func (b *book) Release(_ context.Context, owner informer.Owner, addresses ...netip.Addr) error {
	for _, a := range addresses {
		if b.held[a.String()] == owner.Namespace+"/"+owner.Name {
			delete(b.held, a.String())
		}
	}
	return nil
}

var (
	one  = []corev1.IPFamily{corev1.IPv4Protocol}
	both = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
)

func service(families []corev1.IPFamily, addresses ...string) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
	svc.Spec.Type, svc.Spec.IPFamilies, svc.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, families, addresses
	if len(addresses) > 0 {
		svc.Spec.ClusterIP = addresses[0]
	}
	return svc
}

func external() *corev1.Service {
	svc := service(nil)
	svc.Spec.Type, svc.Spec.ExternalName = corev1.ServiceTypeExternalName, "a.example"
	return svc
}

var (
	conflict = apierrors.NewConflict(corev1.Resource("services"), "a", errors.New("changed"))
	unknown  = apierrors.NewTimeoutError("no answer", 1)
)

// What is held after a write, by what the Service had, what it shall have, and how the write ended.
func TestTransaction(t *testing.T) {
	for name, tc := range map[string]struct {
		old, now *corev1.Service
		applied  map[string]string
		refused  map[string]string
		unknown  map[string]string
	}{
		"create": {
			now:     service(one),
			applied: map[string]string{"10.96.0.1": "ns/a"}, refused: map[string]string{}, unknown: map[string]string{"10.96.0.1": "ns/a"},
		},
		"create dual-stack, one address asked for": {
			now:     service(both, "10.96.0.9"),
			applied: map[string]string{"10.96.0.9": "ns/a", "fd00:96::1": "ns/a"}, refused: map[string]string{},
			unknown: map[string]string{"10.96.0.9": "ns/a", "fd00:96::1": "ns/a"},
		},
		"create headless": {
			now:     service(one, corev1.ClusterIPNone),
			applied: map[string]string{}, refused: map[string]string{}, unknown: map[string]string{},
		},
		"nothing changes": {
			old: service(one, "10.96.0.7"), now: service(one, "10.96.0.7"),
			applied: map[string]string{"10.96.0.7": "ns/a"}, refused: map[string]string{"10.96.0.7": "ns/a"}, unknown: map[string]string{"10.96.0.7": "ns/a"},
		},
		"to ExternalName": {
			old: service(both, "10.96.0.7", "fd00:96::7"), now: external(),
			applied: map[string]string{}, refused: map[string]string{"10.96.0.7": "ns/a", "fd00:96::7": "ns/a"},
			unknown: map[string]string{"10.96.0.7": "ns/a", "fd00:96::7": "ns/a"},
		},
		"from ExternalName": {
			old: external(), now: service(one),
			applied: map[string]string{"10.96.0.1": "ns/a"}, refused: map[string]string{}, unknown: map[string]string{"10.96.0.1": "ns/a"},
		},
		"to dual-stack": {
			old: service(one, "10.96.0.7"), now: service(both, "10.96.0.7"),
			applied: map[string]string{"10.96.0.7": "ns/a", "fd00:96::1": "ns/a"}, refused: map[string]string{"10.96.0.7": "ns/a"},
			unknown: map[string]string{"10.96.0.7": "ns/a", "fd00:96::1": "ns/a"},
		},
		"to single-stack": {
			old: service(both, "10.96.0.7", "fd00:96::7"), now: service(one, "10.96.0.7"),
			applied: map[string]string{"10.96.0.7": "ns/a"}, refused: map[string]string{"10.96.0.7": "ns/a", "fd00:96::7": "ns/a"},
			unknown: map[string]string{"10.96.0.7": "ns/a", "fd00:96::7": "ns/a"},
		},
	} {
		for _, end := range []struct {
			outcome string
			err     error
			want    map[string]string
		}{{"applied", nil, tc.applied}, {"refused", conflict, tc.refused}, {"unknown", unknown, tc.unknown}} {
			t.Run(name+", "+end.outcome, func(t *testing.T) {
				var had []string
				if tc.old != nil {
					had = tc.old.Spec.ClusterIPs
				}
				b := newBook(had...)
				ctx, tx := With(t.Context(), b, nil, false)
				now := tc.now.DeepCopy()
				if err := From(ctx).Begin(ctx, now, tc.old); err != nil {
					t.Fatal(err)
				}
				tx.Settle(ctx, end.err)
				if diff := cmp.Diff(end.want, b.held); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if len(now.Spec.ClusterIPs) > 0 && now.Spec.ClusterIP != now.Spec.ClusterIPs[0] {
					t.Errorf("clusterIP is %s, clusterIPs %v", now.Spec.ClusterIP, now.Spec.ClusterIPs)
				}
			})
		}
	}
}

// A write that is tried again, because another came between, takes nothing twice, and leaves nothing of what the other
// write has made unnecessary.
func TestTransaction_TriedAgain(t *testing.T) {
	b := newBook("10.96.0.7")
	ctx, tx := With(t.Context(), b, nil, false)
	if err := tx.Begin(ctx, service(both, "10.96.0.7"), service(one, "10.96.0.7")); err != nil {
		t.Fatal(err)
	}
	again := service(both, "10.96.0.7")
	if err := tx.Begin(ctx, again, service(one, "10.96.0.7")); err != nil || b.calls != 1 {
		t.Fatalf("the second try: %v, after %d allocations, want 1", err, b.calls)
	}
	tx.Settle(ctx, nil)
	if diff := cmp.Diff([]string{"10.96.0.7", "fd00:96::1"}, again.Spec.ClusterIPs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// The other write has given the Service the second family: this one's is too much.
	b = newBook("10.96.0.7")
	ctx, tx = With(t.Context(), b, nil, false)
	if err := tx.Begin(ctx, service(both, "10.96.0.7"), service(one, "10.96.0.7")); err != nil {
		t.Fatal(err)
	}
	b.held["fd00:96::9"] = "ns/a"
	if err := tx.Begin(ctx, service(both, "10.96.0.7", "fd00:96::9"), service(both, "10.96.0.7", "fd00:96::9")); err != nil {
		t.Fatal(err)
	}
	tx.Settle(ctx, nil)
	if diff := cmp.Diff(map[string]string{"10.96.0.7": "ns/a", "fd00:96::9": "ns/a"}, b.held); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A generated name that is taken is generated anew: the address then is in the new name, and none in the old one.
func TestTransaction_GeneratedNameTaken(t *testing.T) {
	b := newBook()
	ctx, tx := With(t.Context(), b, nil, false)
	for _, name := range []string{"a-x", "a-y"} {
		svc := service(one)
		svc.Name = name
		if err := tx.Begin(ctx, svc, nil); err != nil {
			t.Fatal(err)
		}
	}
	tx.Settle(ctx, nil)
	if diff := cmp.Diff(map[string]string{"10.96.0.2": "ns/a-y"}, b.held); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// An error before the write proves that nothing was written, whatever the error is.
func TestTransaction_FailsBeforeTheWrite(t *testing.T) {
	b := newBook()
	ctx, tx := With(t.Context(), b, nil, false)
	if err := tx.Begin(ctx, service(one), nil); err != nil {
		t.Fatal(err)
	}
	b.fail = errors.New("no answer")
	err := tx.Begin(ctx, service(both), nil)
	if !errors.Is(err, b.fail) {
		t.Fatalf("got %v", err)
	}
	tx.Settle(ctx, err)
	if len(b.held) > 0 {
		t.Errorf("%v is left", b.held)
	}
}

func TestTransaction_DryRunTakesNothing(t *testing.T) {
	b := newBook()
	ctx, tx := With(t.Context(), b, nil, true)
	svc := service(both)
	if err := tx.Begin(ctx, svc, nil); err != nil {
		t.Fatal(err)
	}
	tx.Settle(ctx, conflict)
	if len(b.held) > 0 || len(svc.Spec.ClusterIPs) != 2 {
		t.Errorf("it holds %v; the Service shows %v", b.held, svc.Spec.ClusterIPs)
	}
}

func TestDeleted(t *testing.T) {
	b := newBook("10.96.0.7", "fd00:96::7")
	b.held["10.96.0.8"] = "ns/b"
	Deleted(t.Context(), b, nil, service(both, "10.96.0.7", "fd00:96::7"))
	Deleted(t.Context(), b, nil, service(one, "10.96.0.8")) // another's by now
	if diff := cmp.Diff(map[string]string{"10.96.0.8": "ns/b"}, b.held); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("Service").GroupKind()
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{conflict, true},
		{apierrors.NewAlreadyExists(corev1.Resource("services"), "a"), true},
		{apierrors.NewInvalid(kind, "a", nil), true},
		{apierrors.NewNotFound(corev1.Resource("services"), "a"), true},
		{fmt.Errorf("wrapped: %w", conflict), true},
		{unknown, false},
		{apierrors.NewServerTimeout(corev1.Resource("services"), "create", 1), false},
		{apierrors.NewInternalError(errors.New("etcd")), false},
		{apierrors.NewTooManyRequests("busy", 1), false},
		{context.DeadlineExceeded, false},
		{context.Canceled, false},
		{errors.New("connection lost"), false},
	} {
		if got := Refused(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, tc := range []struct {
		err  error
		svc  *corev1.Service
		want metav1.StatusReason
	}{
		{meta.ErrNotSynced, service(one), metav1.StatusReasonServerTimeout},
		{meta.ErrFull, service(one), metav1.StatusReasonInternalError},
		{meta.ErrFull, service(one, "10.96.0.7"), metav1.StatusReasonInvalid},
		{meta.ErrAllocated, service(one, "10.96.0.7"), metav1.StatusReasonInvalid},
		{meta.ErrNotInRange, service(one, "10.96.0.7"), metav1.StatusReasonInvalid},
		{apierrors.NewForbidden(corev1.Resource("ipaddresses"), "a", errors.New("no")), service(one), metav1.StatusReasonForbidden},
	} {
		if got := apierrors.ReasonForError(refusal(tc.svc, tc.err)); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}
