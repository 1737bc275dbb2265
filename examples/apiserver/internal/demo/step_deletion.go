// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// block deletes two ServiceCIDRs: one that nothing needs, and one that has the address of a Service.
func (w *walk) block(ctx context.Context) error {
	w.say("A ServiceCIDR goes when no address depends on it. %s has one Service; what is in %s, %s covers too.", tiny, nested, third)
	if err := w.createCIDR(ctx, "tiny", tiny); err != nil {
		return err
	}
	pinned := newService("pinned")
	pinned.Spec.ClusterIP = "10.99.0.3"
	w.command("kubectl create service clusterip pinned --tcp=80 --clusterip=%s", pinned.Spec.ClusterIP)
	err := eventually(ctx, "until the new range is used", func(ctx context.Context) error {
		_, err := w.create(ctx, pinned)
		return err
	})
	if err != nil {
		return err
	}
	w.say("service/pinned created")
	if err := w.deleteCIDRs(ctx, "tiny", "nested"); err != nil {
		return err
	}
	if err := w.showTerminating(ctx, "tiny", "blocks", "services/default/pinned"); err != nil {
		return err
	}
	w.say("\nIt says what holds it. That goes:")
	w.command("kubectl delete service pinned")
	if err := w.client.CoreV1().Services(namespace).Delete(ctx, "pinned", metav1.DeleteOptions{}); err != nil {
		return err
	}
	w.say("service \"pinned\" deleted")
	return w.showTerminating(ctx, "tiny", "grace period")
}

func (w *walk) deleteCIDRs(ctx context.Context, names ...string) error {
	w.command("kubectl delete servicecidr --wait=false %s", strings.Join(names, " "))
	for _, name := range names {
		if err := w.client.NetworkingV1().ServiceCIDRs().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		w.say("servicecidr.networking.k8s.io %q deleted", name)
	}
	return nil
}

// showTerminating waits until the condition says that the deletion waits, in a message with all words.
func (w *walk) showTerminating(ctx context.Context, name string, words ...string) error {
	var ready metav1.Condition
	err := eventually(ctx, "until ServiceCIDR "+name+" says what it waits for", func(ctx context.Context) (err error) {
		if ready, err = w.readyOf(ctx, name); err != nil {
			return err
		}
		if ready.Status != metav1.ConditionFalse || ready.Reason != networkingv1.ServiceCIDRReasonTerminating {
			return fmt.Errorf("condition Ready is %s, reason %s", ready.Status, ready.Reason)
		}
		for _, word := range words {
			if !strings.Contains(ready.Message, word) {
				return fmt.Errorf("the message lacks %q: %s", word, ready.Message)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.command("kubectl get servicecidr %s -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].message}'", name)
	w.say("%s", ready.Message)
	return nil
}

// waitGone waits until the ServiceCIDRs do not exist.
func (w *walk) waitGone(ctx context.Context, names ...string) error {
	w.command("kubectl wait --for=delete --timeout=1m servicecidr/%s", strings.Join(names, " servicecidr/"))
	for _, name := range names {
		err := eventually(ctx, "until ServiceCIDR "+name+" is gone", func(ctx context.Context) error {
			ready, err := w.readyOf(ctx, name)
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New(ready.Message), err)
		})
		if err != nil {
			return err
		}
		w.say("servicecidr.networking.k8s.io/%s condition met", name)
	}
	return w.showCIDRs(ctx)
}

// move is what became of one Service.
type move struct {
	name     string
	from, to netip.Addr
}

// renumber moves every Service out of the second range, and lets it go.
func (w *walk) renumber(ctx context.Context) error {
	w.say("%s is to go. From its deletion on nothing new is allocated from it.", second)
	if err := w.deleteCIDRs(ctx, "second"); err != nil {
		return err
	}
	if err := w.showTerminating(ctx, "second", "block", "services/default/"); err != nil {
		return err
	}
	s, err := takeStock(ctx, w.client)
	if err != nil {
		return err
	}
	affected := s.in(second)
	w.say("\nA Service keeps its clusterIP for life, but as ExternalName it has none. So each of the %d makes two updates,", len(affected))
	w.say("and keeps its UID and all else:")
	w.command("for s in $(kubectl get services -o name); do # those in %s\n"+
		"    kubectl patch $s -p '%s'\n"+
		"    kubectl patch $s -p '%s'\n  done", second, toExternalName, toClusterIP)
	moves := make([]move, len(affected))
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, svc := range affected {
		group.Go(func() (err error) {
			moves[i], err = w.move(limited, &svc)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	slices.SortFunc(moves, func(a, b move) int { return strings.Compare(a.name, b.name) })
	const shown = 4
	for _, m := range moves[:min(shown, len(moves))] {
		w.say("%-8s %-14s -> %s", m.name, m.from, m.to)
	}
	if more := len(moves) - shown; more > 0 {
		w.say("... and %d more", more)
	}
	w.say("\nNow all three deletions of this and the last step come to their end. Each takes 10 seconds at least: a grace")
	w.say("period for allocations that are under way.")
	if err := w.waitGone(ctx, "tiny", "nested", "second"); err != nil {
		return err
	}
	if s, err = takeStock(ctx, w.client); err != nil {
		return err
	}
	if left := s.in(second); len(left) > 0 {
		return fmt.Errorf("%d Services are still in %s", len(left), second)
	}
	return s.oneToOne()
}

// move turns a Service to ExternalName and back. It fails if anything but the address changes.
func (w *walk) move(ctx context.Context, svc *corev1.Service) (move, error) {
	var now *corev1.Service
	for _, patch := range []string{toExternalName, toClusterIP} {
		var err error
		now, err = w.client.CoreV1().Services(namespace).Patch(ctx, svc.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			return move{}, fmt.Errorf("patch %s with %s: %w", svc.Name, patch, err)
		}
	}
	from, _ := addressOf(svc)
	to, ok := addressOf(now)
	if !ok || second.Contains(to) {
		return move{}, fmt.Errorf("%s had %s and got %q", svc.Name, from, now.Spec.ClusterIP)
	}
	want, got := svc.Spec.DeepCopy(), now.Spec.DeepCopy()
	want.ClusterIP, want.ClusterIPs, got.ClusterIP, got.ClusterIPs = "", nil, "", nil
	if !equalSpecs(want, got) || now.UID != svc.UID {
		return move{}, fmt.Errorf("%s came back as another: %+v, was %+v", svc.Name, now, svc)
	}
	return move{svc.Name, from, to}, nil
}

// The two patches that move a Service.
const (
	toExternalName = `{"spec": {"type": "ExternalName", "externalName": "moving.invalid"}}`
	toClusterIP    = `{"spec": {"type": "ClusterIP", "externalName": null}}`
)
