// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Errors of an Election; errors.Is finds them.
var (
	// ErrInvalidElection: something is missing or cannot work.
	ErrInvalidElection = errors.New("invalid election")
	// ErrLeadershipLost: the Lease could not be renewed in time. The work was
	// stopped; call Run again to stand again.
	ErrLeadershipLost = errors.New("leadership lost")
)

// DefaultLeaseDuration is how long a silent leader is waited for.
const DefaultLeaseDuration = 15 * time.Second

// Election is a Lease that several replicas compete for.
type Election struct {
	// Client reads and writes the Lease: a clientset's CoordinationV1().
	Client coordinationv1client.LeasesGetter
	// Namespace and Name are the Lease's: "kube-system", "metacidr-lifecycle".
	Namespace, Name string
	// Identity names this replica and no other: the name of the pod, or that of
	// the host with something random.
	Identity string
	// Duration is how long a silent leader is waited for; 0 means
	// DefaultLeaseDuration. Whole seconds, at least 3. A leader that could not
	// renew for two thirds of it stops.
	Duration time.Duration
}

// Run waits for leadership and then calls work, once, with a context that ends
// when leadership does. The Lease is given up only after work has returned, so
// the next leader neither waits nor overlaps.
//
// It returns what work returned; nil if ctx ended before; ErrLeadershipLost if
// the Lease was lost, joined with what work returned; ErrInvalidElection before
// any call.
func (e Election) Run(ctx context.Context, work func(context.Context) error) error {
	elector, leading, err := e.elector()
	if err != nil {
		return err
	}
	// The elector outlives ctx, to hold the Lease until work has returned.
	electorCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		elector.Run(electorCtx)
	}()
	defer func() { stop(); <-ended }()

	var leadership context.Context
	select {
	case <-ctx.Done():
		return nil
	case leadership = <-leading:
	}
	workCtx, cancel := context.WithCancel(leadership)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	err = work(workCtx)
	if leadership.Err() != nil {
		err = errors.Join(ErrLeadershipLost, err)
	}
	return err
}

// elector makes the elector, and the channel on which it tells, once, of a
// leadership, as a context that ends with it.
func (e Election) elector() (*leaderelection.LeaderElector, <-chan context.Context, error) {
	if e.Duration == 0 {
		e.Duration = DefaultLeaseDuration
	}
	switch {
	case e.Client == nil:
		return nil, nil, fmt.Errorf("%w: Client is nil: give a clientset's CoordinationV1()", ErrInvalidElection)
	case e.Namespace == "" || e.Name == "" || e.Identity == "":
		return nil, nil, fmt.Errorf("%w: Namespace %q, Name %q, Identity %q: set them all", ErrInvalidElection, e.Namespace, e.Name, e.Identity)
	case e.Duration < 3*time.Second || e.Duration%time.Second != 0:
		return nil, nil, fmt.Errorf("%w: Duration %v: give whole seconds, at least 3s, or leave it 0 for %v", ErrInvalidElection, e.Duration, DefaultLeaseDuration)
	}
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name: e.Name,
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.Namespace, Name: e.Name},
			Client:     e.Client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.Identity},
		},
		LeaseDuration: e.Duration,
		RenewDeadline: e.Duration * 2 / 3,
		RetryPeriod:   e.Duration / 6,
		// At the end of Run, when the work has returned.
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalidElection, err)
	}
	return elector, leading, nil
}
