// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"

	"github.com/metacidr/metacidr/proptest"
)

// client is a client some of whose calls do something else.
type client struct {
	proptest.Client
	// create and delete take the place of those of IPAddresses.
	create func(ctx context.Context, real networkingv1client.IPAddressInterface, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error)
	delete func(ctx context.Context, real networkingv1client.IPAddressInterface, name string, opts metav1.DeleteOptions) error
	// addresses changes what a list of IPAddresses answers.
	addresses func(*networkingv1.IPAddressList)
	// watched is told of each watch of IPAddresses that begins with all there are.
	watched func()
	// cidr changes every ServiceCIDR that is read, listed or watched.
	cidr func(*networkingv1.ServiceCIDR)
	// listed changes one that is listed; read is the name of the last one read.
	listed func(obj *networkingv1.ServiceCIDR, read string)
	read   string
}

func newClient(real proptest.Client, mislead func(*client)) proptest.Client {
	c := &client{Client: real}
	mislead(c)
	return c
}

func (c *client) IPAddresses() networkingv1client.IPAddressInterface {
	return addresses{c.Client.IPAddresses(), c}
}

func (c *client) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return cidrs{c.Client.ServiceCIDRs(), c}
}

type addresses struct {
	networkingv1client.IPAddressInterface
	c *client
}

func (a addresses) Create(ctx context.Context, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	if a.c.create == nil {
		return a.IPAddressInterface.Create(ctx, obj, opts)
	}
	return a.c.create(ctx, a.IPAddressInterface, obj, opts)
}

func (a addresses) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	if a.c.delete == nil {
		return a.IPAddressInterface.Delete(ctx, name, opts)
	}
	return a.c.delete(ctx, a.IPAddressInterface, name, opts)
}

func (a addresses) List(ctx context.Context, opts metav1.ListOptions) (*networkingv1.IPAddressList, error) {
	list, err := a.IPAddressInterface.List(ctx, opts)
	if err == nil && a.c.addresses != nil {
		a.c.addresses(list)
	}
	return list, err
}

func (a addresses) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	if a.c.watched != nil && opts.SendInitialEvents != nil && *opts.SendInitialEvents {
		a.c.watched()
	}
	return a.IPAddressInterface.Watch(ctx, opts)
}

type cidrs struct {
	networkingv1client.ServiceCIDRInterface
	c *client
}

func (s cidrs) change(obj *networkingv1.ServiceCIDR) {
	if s.c.cidr != nil {
		s.c.cidr(obj)
	}
}

func (s cidrs) Get(ctx context.Context, name string, opts metav1.GetOptions) (*networkingv1.ServiceCIDR, error) {
	if s.c.listed != nil {
		s.c.read = name
	}
	obj, err := s.ServiceCIDRInterface.Get(ctx, name, opts)
	if err == nil {
		s.change(obj)
	}
	return obj, err
}

func (s cidrs) List(ctx context.Context, opts metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	list, err := s.ServiceCIDRInterface.List(ctx, opts)
	if err == nil {
		for i := range list.Items {
			s.change(&list.Items[i])
			if s.c.listed != nil {
				s.c.listed(&list.Items[i], s.c.read)
			}
		}
	}
	return list, err
}

func (s cidrs) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.ServiceCIDRInterface.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if obj, ok := e.Object.(*networkingv1.ServiceCIDR); ok {
			s.change(obj)
		}
		return e, true
	}), nil
}
