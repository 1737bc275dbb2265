// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/servicecidrs"
)

// controllerWorkers is what kube-controller-manager uses.
const controllerWorkers = 5

// RunServiceCIDRController runs upstream's ServiceCIDR controller in this process, so
// that ServiceCIDRs get their finalizer, the condition Ready and a safe deletion, as on
// an ordinary cluster. On such a cluster kube-controller-manager runs it: do not run a
// second one beside it.
//
// It returns at once; the controller works from when its caches are filled until
// stop is called or ctx ends, also over restarts of the control plane. stop waits until
// nothing of it runs any more, and must be called; more than once does no harm. The
// controller logs through klog, to the logger of ctx if it bears one.
func RunServiceCIDRController(ctx context.Context, config *rest.Config) (stop func(), err error) {
	config = rest.CopyConfig(config)
	config.UserAgent = "service-cidr-controller"
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("run the ServiceCIDR controller: %w", err)
	}
	client, err := kubernetes.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("run the ServiceCIDR controller: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	networking := factory.Networking().V1()
	controller := servicecidrs.NewController(ctx, networking.ServiceCIDRs(), networking.IPAddresses(), client)
	factory.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { controller.Run(ctx, controllerWorkers) })

	return func() {
		cancel()
		running.Wait()
		factory.Shutdown()
		httpClient.CloseIdleConnections()
	}, nil
}
