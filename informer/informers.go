// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// newInformers makes informers of all ServiceCIDRs and all IPAddresses,
// whatever their labels: an address that somebody else manages is taken too.
func newInformers(client Client) (serviceCIDRs, ipAddresses cache.SharedIndexInformer) {
	serviceCIDRs = cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.ServiceCIDRs().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.ServiceCIDRs().Watch(ctx, o)
		},
	}, &networkingv1.ServiceCIDR{}, cache.SharedIndexInformerOptions{ObjectDescription: "ServiceCIDRs"})
	ipAddresses = cache.NewSharedIndexInformerWithOptions(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.IPAddresses().List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.IPAddresses().Watch(ctx, o)
		},
	}, &networkingv1.IPAddress{}, cache.SharedIndexInformerOptions{ObjectDescription: "IPAddresses"})
	return serviceCIDRs, ipAddresses
}
