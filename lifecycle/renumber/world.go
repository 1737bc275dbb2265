// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"
)

// World is one reading of a cluster: all that a plan is made from. It is read page
// by page, so it is no snapshot of one instant; what moves meanwhile is found by
// Moved, before anything is done.
type World struct {
	Cluster      ClusterID
	ServiceCIDRs []networkingv1.ServiceCIDR
	// IPAddresses come without managedFields.
	IPAddresses     []networkingv1.IPAddress
	Services        []corev1.Service
	EndpointSlices  []discoveryv1.EndpointSlice
	Nodes           []corev1.Node
	NetworkPolicies []networkingv1.NetworkPolicy
	Webhooks        []Webhook
	// APIServers are the identity leases of the running kube-apiservers.
	APIServers []coordinationv1.Lease
	// KubeletDNS is clusterDNS of the ConfigMap kubelet-config, which kubeadm makes.
	KubeletDNS []string
	// Kubeadm: there is a ConfigMap kubeadm-config.
	Kubeadm bool
	Reviews []Review
	// Unread are resources that could not be read, so nothing is known of them.
	Unread []Unread
}

// Webhook is one of a validating or mutating configuration.
type Webhook struct {
	// Object is "ValidatingWebhookConfiguration name".
	Object, Name string
	// URL is empty if it calls a Service.
	URL string
}

// resourceNodes is Unread.Resource of nodes.
const resourceNodes = "nodes"

// Unread is a resource that could not be read, and why.
type Unread struct{ Resource, Reason string }

// Oldest is the first version of Kubernetes with networking.k8s.io/v1 ServiceCIDR.
const Oldest = "1.33"

// Why a cluster could not be read. Each is wrapped in a *ReadError.
var (
	// ErrTooOld: its Kubernetes has no networking.k8s.io/v1 ServiceCIDR.
	ErrTooOld = errors.New("the cluster has no networking.k8s.io/v1 ServiceCIDR")
	// ErrForbidden: the user may not read what no plan can be made without.
	ErrForbidden = errors.New("forbidden")
	// ErrUnreachable: the API server did not answer.
	ErrUnreachable = errors.New("no answer from the API server")
)

// ReadError says what could not be read, why, and what would help.
type ReadError struct {
	What, Remedy string
	Err          error
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("cannot read %s: %v: %s", e.What, e.Err, e.Remedy)
}

func (e *ReadError) Unwrap() error { return e.Err }

// readError finds the remedy.
func readError(what string, err error) error {
	e := &ReadError{What: what}
	switch {
	case errors.Is(err, ErrTooOld):
		e.Err, e.Remedy = err, "renumbering needs Kubernetes "+Oldest+" or later, with the ServiceCIDR API on: upgrade the cluster first"
	case apierrors.IsUnauthorized(err):
		e.Err, e.Remedy = err, "the credentials of the kubeconfig are not valid there: renew them, or give another --context or --user"
	case apierrors.IsForbidden(err):
		e.Err, e.Remedy = fmt.Errorf("%w: %w", ErrForbidden, err), "ask for this permission: a plan cannot be made without it (docs/rbac.yaml has the roles)"
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err):
		// No status of an API server at all.
		e.Err, e.Remedy = fmt.Errorf("%w: %w", ErrUnreachable, err), "is the cluster up, and are --kubeconfig and --context those of the right one? A slow one needs a longer --request-timeout"
	default:
		e.Err, e.Remedy = err, "try again; if it stays so, look into the API server's log"
	}
	return e
}

// ReadWorld reads a cluster, and writes nothing. What may not be read becomes a
// finding, unless no plan can be made without it. Errors: *ReadError.
func ReadWorld(ctx context.Context, client kubernetes.Interface) (*World, error) {
	w := &World{}
	if err := w.identify(ctx, client); err != nil {
		return nil, err
	}
	if err := w.readCore(ctx, client); err != nil {
		return nil, err
	}
	if err := w.readAround(ctx, client); err != nil {
		return nil, err
	}
	if err := w.readReviews(ctx, client); err != nil {
		return nil, err
	}
	return w, nil
}

// identify tells which cluster it is.
func (w *World) identify(ctx context.Context, client kubernetes.Interface) error {
	info, err := discovery.ToServerVersionInterfaceWithContext(client.Discovery()).ServerVersionWithContext(ctx)
	if err != nil {
		return readError("the server's version", err)
	}
	w.Cluster.Version = info.GitVersion
	if v, err := version.ParseGeneric(info.GitVersion); err == nil && v.LessThan(version.MustParseGeneric(Oldest)) {
		return readError("the ServiceCIDRs", fmt.Errorf("%w: it is Kubernetes %s", ErrTooOld, info.GitVersion))
	}
	ns, err := client.CoreV1().Namespaces().Get(ctx, system, metav1.GetOptions{})
	if err != nil {
		return readError("namespace "+system+", whose UID tells one cluster from another", err)
	}
	w.Cluster.UID = ns.UID
	return nil
}

// readCore reads what no plan can be made without.
func (w *World) readCore(ctx context.Context, client kubernetes.Interface) error {
	err := each(ctx, listOf(client.NetworkingV1().ServiceCIDRs().List), func(o *networkingv1.ServiceCIDR) {
		o.ManagedFields = nil
		w.ServiceCIDRs = append(w.ServiceCIDRs, *o)
	})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: it is Kubernetes %s", ErrTooOld, w.Cluster.Version)
	}
	if err != nil {
		return readError("the ServiceCIDRs", err)
	}
	err = each(ctx, listOf(client.NetworkingV1().IPAddresses().List), func(o *networkingv1.IPAddress) {
		o.ManagedFields = nil
		w.IPAddresses = append(w.IPAddresses, *o)
	})
	if err != nil {
		return readError("the IPAddresses", err)
	}
	err = each(ctx, listOf(client.CoreV1().Services(metav1.NamespaceAll).List), func(o *corev1.Service) {
		w.Services = append(w.Services, *o)
	})
	if err != nil {
		return readError("the Services", err)
	}
	err = each(ctx, listOf(client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List), func(o *discoveryv1.EndpointSlice) {
		o.ManagedFields = nil
		w.EndpointSlices = append(w.EndpointSlices, *o)
	})
	if err != nil {
		return readError("the EndpointSlices, which tell what hangs on a Service", err)
	}
	return nil
}

// readAround reads what findings are made from.
func (w *World) readAround(ctx context.Context, client kubernetes.Interface) error {
	err := w.tolerate(resourceNodes, each(ctx, listOf(client.CoreV1().Nodes().List), func(o *corev1.Node) {
		o.ManagedFields, o.Status.Images = nil, nil
		w.Nodes = append(w.Nodes, *o)
	}))
	if err != nil {
		return err
	}
	err = w.tolerate("networkpolicies", each(ctx, listOf(client.NetworkingV1().NetworkPolicies(metav1.NamespaceAll).List), func(o *networkingv1.NetworkPolicy) {
		o.ManagedFields = nil
		w.NetworkPolicies = append(w.NetworkPolicies, *o)
	}))
	if err != nil {
		return err
	}
	hooks := client.AdmissionregistrationV1()
	err = w.tolerate("validatingwebhookconfigurations", each(ctx, listOf(hooks.ValidatingWebhookConfigurations().List), func(o *admissionregistrationv1.ValidatingWebhookConfiguration) {
		for _, h := range o.Webhooks {
			w.addWebhook("ValidatingWebhookConfiguration "+o.Name, h.Name, h.ClientConfig)
		}
	}))
	if err != nil {
		return err
	}
	err = w.tolerate("mutatingwebhookconfigurations", each(ctx, listOf(hooks.MutatingWebhookConfigurations().List), func(o *admissionregistrationv1.MutatingWebhookConfiguration) {
		for _, h := range o.Webhooks {
			w.addWebhook("MutatingWebhookConfiguration "+o.Name, h.Name, h.ClientConfig)
		}
	}))
	if err != nil {
		return err
	}
	leases := func(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
		o.LabelSelector = identityLabel
		return client.CoordinationV1().Leases(system).List(ctx, o)
	}
	err = w.tolerate("leases of the API servers", each(ctx, listOf(leases), func(o *coordinationv1.Lease) {
		o.ManagedFields = nil
		w.APIServers = append(w.APIServers, *o)
	}))
	if err != nil {
		return err
	}
	return w.readConfig(ctx, client)
}

// readConfig reads what kubeadm has left in the cluster.
func (w *World) readConfig(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(system)
	kubelet, err := maps.Get(ctx, "kubelet-config", metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		if err := w.tolerate("configmap kubelet-config", err); err != nil {
			return err
		}
	default:
		var config struct {
			ClusterDNS []string `json:"clusterDNS"`
		}
		if err := yaml.Unmarshal([]byte(kubelet.Data["kubelet"]), &config); err != nil {
			w.Unread = append(w.Unread, Unread{"configmap kubelet-config", "its key kubelet is no YAML: " + err.Error()})
		}
		w.KubeletDNS = config.ClusterDNS
	}
	_, err = maps.Get(ctx, "kubeadm-config", metav1.GetOptions{})
	switch {
	case err == nil:
		w.Kubeadm = true
		return nil
	case apierrors.IsNotFound(err):
		return nil
	}
	return w.tolerate("configmap kubeadm-config", err)
}

func (w *World) readReviews(ctx context.Context, client kubernetes.Interface) error {
	reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
	for _, a := range Accesses() {
		got, err := reviews.Create(ctx, a.review(), metav1.CreateOptions{})
		if err != nil {
			// The others fare no better.
			return w.tolerate("permissions (selfsubjectaccessreviews)", err)
		}
		w.Reviews = append(w.Reviews, Review{Access: a, Allowed: got.Status.Allowed && !got.Status.Denied, Reason: got.Status.Reason})
	}
	return nil
}

func (w *World) addWebhook(object, name string, c admissionregistrationv1.WebhookClientConfig) {
	hook := Webhook{Object: object, Name: name}
	if c.URL != nil {
		hook.URL = *c.URL
	}
	w.Webhooks = append(w.Webhooks, hook)
}

// tolerate notes what may not be read, and returns every other error.
func (w *World) tolerate(resource string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		w.Unread = append(w.Unread, Unread{resource, err.Error()})
		return nil
	}
	return readError("the "+resource, err)
}

// k3s: the versions of k3s and RKE2 say so.
func (w *World) k3s() bool {
	return strings.Contains(w.Cluster.Version, "+k3s") || strings.Contains(w.Cluster.Version, "+rke2")
}

// listOf makes a typed list a page function.
func listOf[L runtime.Object](list func(context.Context, metav1.ListOptions) (L, error)) pager.ListPageFunc {
	return func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		l, err := list(ctx, o)
		if err != nil {
			// A typed nil is no nil.
			return nil, err
		}
		return l, nil
	}
}

// each calls do with every object, page by page.
func each[T runtime.Object](ctx context.Context, list pager.ListPageFunc, do func(T)) error {
	return pager.New(list).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		t, ok := o.(T)
		if !ok {
			return fmt.Errorf("the API server sent a %T", o)
		}
		do(t)
		return nil
	})
}
