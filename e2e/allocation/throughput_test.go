// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
)

// creates is kube-apiserver's count of IPAddresses that it has created.
var creates = regexp.MustCompile(`^apiserver_request_total\{code="201",.*resource="ipaddresses",.*verb="POST",.*\} `)

// TestI11_ThroughputBesideBareCreates prints how fast addresses are allocated beside how fast bare IPAddresses are
// created, in turns on one control plane. It asserts nothing about the time, for the machine may be busy, but that
// an allocation costs one create.
func TestI11_ThroughputBesideBareCreates(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures")
	}
	c := startCluster(t, "10.96.0.0/16,fd00:10:96::/108")
	c.runController(t)
	c.waitUntilReady(t, "kubernetes")
	r := c.startReplica(t, "only", meta.VerifyStale)
	r.waitUntilReady(t, cidr.MustParse("10.96.0.0/16"), cidr.MustParse("fd00:10:96::/108"))
	const rounds = 4 // even: each kind goes first equally often
	for _, level := range []struct{ workers, calls int }{{1, 60}, {16, 300}, {64, 600}} {
		allocate := func(round int) time.Duration {
			return inParallel(t, level.workers, level.calls, func(ctx context.Context, i int) error {
				owner := widget(fmt.Sprintf("w%d-%d-%d", level.workers, round, i))
				_, err := r.Allocate(ctx, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4}})
				return err
			})
		}
		// Of the other family, so that neither meets an address of the other.
		create := func(round int) time.Duration {
			return inParallel(t, level.workers, level.calls, func(ctx context.Context, i int) error {
				return createBare(ctx, c, level.workers, round*level.calls+i)
			})
		}
		var ours, bare time.Duration
		before, err := c.metric(t.Context(), creates)
		if err != nil {
			t.Fatal(err)
		}
		for round := range rounds {
			if round%2 == 0 {
				ours += allocate(round)
				bare += create(round)
			} else {
				bare += create(round)
				ours += allocate(round)
			}
		}
		n := float64(rounds * level.calls)
		// One create each, whatever the concurrency: it is the only API call but for the lease's.
		switch after, err := c.metric(t.Context(), creates); {
		case err != nil:
			t.Fatal(err)
		case after-before != 2*n:
			t.Errorf("I11: %.0f creates by kube-apiserver's count for %.0f allocations and as many bare creates", after-before, n)
		}
		t.Logf("%2d workers: %5.0f allocations/s, %5.0f bare creates/s, ratio %.2f", level.workers, n/ours.Seconds(), n/bare.Seconds(), bare.Seconds()/ours.Seconds())
	}
}

// createBare creates the k-th IPAddress as a client without an allocator would, with the same labels and owner.
func createBare(ctx context.Context, c *cluster, workers, k int) error {
	addr := cidr.MustParse("fd00:10:96::/108").Dynamic().At(cidr.U128(uint(workers*10_000 + k)))
	_, err := c.client.NetworkingV1().IPAddresses().Create(ctx, &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr.String(), Labels: map[string]string{
			informer.LabelManagedBy: informer.DefaultManager,
			informer.LabelIPFamily:  cidr.IPv6.String(),
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: widget(fmt.Sprintf("bare-%d-%d", workers, k)).Reference()},
	}, metav1.CreateOptions{})
	return err
}

// inParallel makes n calls, so many at a time, and returns how long all of them took.
func inParallel(t *testing.T, workers, n int, call func(ctx context.Context, i int) error) time.Duration {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(workers)
	begin := time.Now()
	for i := range n {
		group.Go(func() error { return call(ctx, i) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}
