// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"time"
)

// Controller is a ServiceCIDR controller: it gives each ServiceCIDR its
// finalizer, and takes it from a deleted one when no address depends on it.
type Controller interface {
	// Run keeps the controller's caches up to date, and may do its work by
	// itself, until ctx is done. It leaves no goroutine behind.
	Run(ctx context.Context) error
	// Sync looks at one ServiceCIDR, which may be gone, and does what is due. It
	// says after what time, by its own clock, it wants to look again; 0 means
	// when something changes. An error means that it has to be asked again. It is
	// called for another name while one call is in the middle of its writes, as
	// several workers do: hold no lock across an API call.
	Sync(ctx context.Context, name string) (requeueAfter time.Duration, err error)
}

// ControllerFactory makes the controller under test. Env.Replica is
// "controller"; its watches are late as an allocator's are.
type ControllerFactory func(Env) (Controller, error)
