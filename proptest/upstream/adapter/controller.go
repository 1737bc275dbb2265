// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/controller/servicecidrs"

	"github.com/metacidr/metacidr/proptest"
)

// workers is how many kube-controller-manager gives it.
const workers = 5

// NewController is the proptest.ControllerFactory of upstream's ServiceCIDR
// controller, with its own queue and workers.
func NewController(env proptest.Env) (proptest.Controller, error) { return controller{env}, nil }

type controller struct{ env proptest.Env }

// Run runs its informers and workers.
func (c controller) Run(ctx context.Context) error {
	client := clientset{networking: networking{client: c.env.Client, section: newSection(false), onCall: func() {}}}
	factory := informers.NewSharedInformerFactory(client, 0)
	v1 := factory.Networking().V1()
	upstream := servicecidrs.NewController(ctx, v1.ServiceCIDRs(), v1.IPAddresses(), client)
	factory.StartWithContext(ctx)
	upstream.Run(ctx, workers)
	factory.Shutdown()
	return nil
}

// Sync has nothing to do: the workers act by themselves, when events or their own
// timers tell them.
func (c controller) Sync(context.Context, string) (time.Duration, error) { return 0, nil }
