// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/metacidr/metacidr/informer"
)

// Owners is one resource whose objects own addresses. It must be safe for
// concurrent use.
type Owners interface {
	// Resource is the group and the plural that the ParentReference of an
	// IPAddress names.
	Resource() schema.GroupResource
	// List returns all owners, those with a deletionTimestamp too. It should be
	// consistent; a stale answer costs reads and delays repairs, and breaks
	// nothing.
	List(ctx context.Context) ([]Claims, error)
	// Get reads one owner from the API server, from no cache: it decides over
	// deletions. The error for one that is not there is apierrors.IsNotFound.
	Get(ctx context.Context, owner informer.Owner) (Claims, error)
}

// Claims is what the controller needs to know of one owner.
type Claims struct {
	Owner informer.Owner
	UID   types.UID
	// Created decides who was first, when two owners claim one address.
	Created time.Time
	// Deleting reports a deletionTimestamp. Such an owner still owns.
	Deleting bool
	// Addresses are the claims as they are stored.
	Addresses []string
	// Object is what events are about: the owner, or a reference to it. Get
	// sets it; List need not.
	Object runtime.Object
}

// Registration is a resource that the controller keeps one to one.
type Registration struct {
	Owners Owners
	// Manager is the managed-by label of its IPAddresses. Empty means
	// informer.CoreManager for core Services and informer.DefaultManager for
	// all others.
	Manager string
}

// Services makes Owners of the core Services. A Service claims its clusterIPs,
// unless it is headless or of type ExternalName.
func Services(client corev1client.ServicesGetter) Owners { return services{client} }

type services struct{ client corev1client.ServicesGetter }

func (services) Resource() schema.GroupResource { return corev1.Resource("services") }

func (s services) List(ctx context.Context) ([]Claims, error) {
	var out []Claims
	err := paged(ctx, func(ctx context.Context, opts metav1.ListOptions) (string, error) {
		list, err := s.client.Services(metav1.NamespaceAll).List(ctx, opts)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			claims := claimsOf(&list.Items[i])
			claims.Object = nil // would keep the whole list in memory
			out = append(out, claims)
		}
		return list.Continue, nil
	}, func() { out = nil })
	return out, err
}

func (s services) Get(ctx context.Context, owner informer.Owner) (Claims, error) {
	service, err := s.client.Services(owner.Namespace).Get(ctx, owner.Name, metav1.GetOptions{})
	if err != nil {
		return Claims{}, err
	}
	return claimsOf(service), nil
}

func claimsOf(service *corev1.Service) Claims {
	claims := Claims{
		Owner:    informer.ServiceOwner(service.Namespace, service.Name),
		UID:      service.UID,
		Created:  service.CreationTimestamp.Time,
		Deleting: service.DeletionTimestamp != nil,
		Object:   service,
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return claims
	}
	// clusterIP repeats the first of clusterIPs, unless an old server stored it.
	for _, ip := range append([]string{service.Spec.ClusterIP}, service.Spec.ClusterIPs...) {
		if ip != "" && ip != corev1.ClusterIPNone && !slices.Contains(claims.Addresses, ip) {
			claims.Addresses = append(claims.Addresses, ip)
		}
	}
	return claims
}

// pageSize is how many objects one answer to a list holds.
const pageSize = 500

// paged reads a consistent list page by page. A list that was compacted away
// before its last page is read again as one answer; restart drops what was read.
func paged(ctx context.Context, page func(context.Context, metav1.ListOptions) (next string, err error), restart func()) error {
	opts := metav1.ListOptions{Limit: pageSize}
	for {
		next, err := page(ctx, opts)
		switch {
		case err == nil && next == "":
			return nil
		case err == nil:
			opts.Continue = next
		case apierrors.IsResourceExpired(err) && opts.Continue != "":
			restart()
			opts = metav1.ListOptions{}
		default:
			return err
		}
	}
}

// identify sets what a registration knows of its owners' identities.
func (r *Registration) identify(claims *Claims) {
	resource := r.Owners.Resource()
	claims.Owner.Group, claims.Owner.Resource = resource.Group, resource.Resource
}

func (r *Registration) complete(i int) error {
	if r.Owners == nil {
		return fmt.Errorf("%w: Owners[%d].Owners is nil: give repair.Services(client) or an implementation of your own", ErrInvalidConfig, i)
	}
	resource := r.Owners.Resource()
	if resource.Resource == "" {
		return fmt.Errorf("%w: Owners[%d] names no resource: return its plural, such as \"services\"", ErrInvalidConfig, i)
	}
	if r.Manager == "" {
		r.Manager = informer.DefaultManager
		if resource == corev1.Resource("services") {
			r.Manager = informer.CoreManager
		}
	}
	return nil
}
