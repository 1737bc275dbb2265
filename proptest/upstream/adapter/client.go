// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/metacidr/metacidr/proptest"
)

// networking is the suite's client as upstream wants it. What the suite's client has
// not, upstream does not use: it is nil.
type networking struct {
	networkingv1client.NetworkingV1Interface
	client  proptest.Client
	section *section
	onCall  func()
}

func (n networking) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return n.client.ServiceCIDRs()
}

func (n networking) IPAddresses() networkingv1client.IPAddressInterface {
	return addresses{n.client.IPAddresses(), n}
}

// addresses writes the owners that the suite asks for, and tells of each write.
type addresses struct {
	networkingv1client.IPAddressInterface
	networking networking
}

func (a addresses) Create(ctx context.Context, obj *networkingv1.IPAddress, opts metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	a.networking.tell()
	obj = obj.DeepCopy()
	if ref := obj.Spec.ParentRef; ref != nil {
		obj.Spec.ParentRef = ownerOf(ref).Reference()
	}
	return a.IPAddressInterface.Create(ctx, obj, opts)
}

func (a addresses) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	a.networking.tell()
	return a.IPAddressInterface.Delete(ctx, name, opts)
}

func (n networking) tell() {
	n.section.onCall()
	n.onCall()
}

// serviceFor is the Service that stands for an owner. No name of an owner has the
// separator.
func serviceFor(o proptest.Owner) *api.Service {
	return &api.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.Namespace,
		Name:      strings.Join([]string{o.Group, o.Resource, o.Name}, "|"),
	}}
}

// ownerOf is the owner that a reference to such a Service stands for.
func ownerOf(ref *networkingv1.ParentReference) proptest.Owner {
	part := strings.SplitN(ref.Name, "|", 3)
	if len(part) < 3 {
		return proptest.Owner{Group: ref.Group, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
	}
	return proptest.Owner{Group: part[0], Resource: part[1], Namespace: ref.Namespace, Name: part[2]}
}

// clientset has what informers and the controller use of one.
type clientset struct {
	kubernetes.Interface
	networking networking
}

func (c clientset) NetworkingV1() networkingv1client.NetworkingV1Interface { return c.networking }
func (c clientset) CoreV1() corev1client.CoreV1Interface                   { return core{} }

// core takes events and forgets them.
type core struct{ corev1client.CoreV1Interface }

func (core) Events(string) corev1client.EventInterface { return events{} }

type events struct{ corev1client.EventInterface }

func (events) CreateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return e, nil
}
func (events) UpdateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return e, nil
}
func (events) PatchWithEventNamespaceWithContext(_ context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e, nil
}
