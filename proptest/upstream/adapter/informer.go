// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"sync"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	networkingv1informers "k8s.io/client-go/informers/networking/v1"
	networkingv1listers "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// serviceCIDRs is the informer of ServiceCIDRs as one MetaAllocator sees it: events
// wait for the section, and the first look at the cache is noticed.
type serviceCIDRs struct {
	networkingv1informers.ServiceCIDRInformer
	section *section
	looked  func()
}

func (i serviceCIDRs) Informer() cache.SharedIndexInformer {
	return gated{i.ServiceCIDRInformer.Informer(), i.section}
}

func (i serviceCIDRs) Lister() networkingv1listers.ServiceCIDRLister {
	return lister{i.ServiceCIDRInformer.Lister(), i.looked}
}

type gated struct {
	cache.SharedIndexInformer
	section *section
}

func (g gated) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return g.SharedIndexInformer.AddEventHandler(handler{h, g.section})
}

type handler struct {
	cache.ResourceEventHandler
	section *section
}

func (h handler) OnAdd(obj any, initial bool) {
	h.section.across(func() { h.ResourceEventHandler.OnAdd(obj, initial) })
}
func (h handler) OnUpdate(old, obj any) {
	h.section.across(func() { h.ResourceEventHandler.OnUpdate(old, obj) })
}
func (h handler) OnDelete(obj any) {
	h.section.across(func() { h.ResourceEventHandler.OnDelete(obj) })
}

type lister struct {
	networkingv1listers.ServiceCIDRLister
	looked func()
}

// List is what MetaAllocator makes its allocators from.
func (l lister) List(selector labels.Selector) ([]*networkingv1.ServiceCIDR, error) {
	l.looked()
	return l.ServiceCIDRLister.List(selector)
}

// once is a channel that closes once.
type once struct {
	sync.Once
	done chan struct{}
}

func newOnce() *once   { return &once{done: make(chan struct{})} }
func (o *once) close() { o.Do(func() { close(o.done) }) }
func (o *once) closed() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}
