// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// oneOfEach is a cluster with an object of each kind that is read. It is only read, for which
// client-go's fake will do.
func oneOfEach() *fake.Clientset {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, ManagedFields: []metav1.ManagedFieldsEntry{managed("m", `{}`)}}
	}
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "cluster-1"}},
		&networkingv1.ServiceCIDR{ObjectMeta: meta("", "kubernetes"), Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}},
		&networkingv1.IPAddress{ObjectMeta: meta("", "10.96.0.1")},
		&corev1.Service{ObjectMeta: meta("default", "kubernetes")},
		&discoveryv1.EndpointSlice{ObjectMeta: meta("default", "kubernetes")},
		&corev1.Node{ObjectMeta: meta("", "node-1")},
		&networkingv1.NetworkPolicy{ObjectMeta: meta("shop", "egress")},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta("", "v"), Webhooks: []admissionregistrationv1.ValidatingWebhook{
			{Name: "a", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://10.96.3.7/")}}}},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta("", "m"), Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "b"}}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "apiserver-1", Labels: map[string]string{"apiserver.kubernetes.io/identity": "kube-apiserver"}}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler"}},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "kubeadm-config")},
		&corev1.ConfigMap{ObjectMeta: meta("kube-system", "kubelet-config"), Data: map[string]string{"kubelet": "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\n"}},
	)
	client.Discovery().(*discoveryfake.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.37.2"}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		r := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		if at := r.Spec.ResourceAttributes; at != nil {
			r.Status.Allowed = at.Verb != "delete"
			r.Status.Reason = "because"
		}
		return true, r, nil
	})
	return client
}

func TestReadWorld(t *testing.T) {
	client := oneOfEach()
	w, err := ReadWorld(context.Background(), client)
	if err != nil {
		t.Fatal(err)
	}
	if w.Cluster != (ClusterID{UID: "cluster-1", Version: "v1.37.2"}) {
		t.Errorf("%+v", w.Cluster)
	}
	if len(w.ServiceCIDRs) != 1 || len(w.IPAddresses) != 1 || len(w.Services) != 1 || len(w.EndpointSlices) != 1 || len(w.Nodes) != 1 || len(w.NetworkPolicies) != 1 {
		t.Errorf("%+v", w)
	}
	// Who names an address is told by managedFields; of others they are dead weight.
	if len(w.Services[0].ManagedFields) == 0 || len(w.IPAddresses[0].ManagedFields) != 0 {
		t.Errorf("managedFields: %+v, %+v", w.Services[0].ManagedFields, w.IPAddresses[0].ManagedFields)
	}
	if want := []Webhook{{"ValidatingWebhookConfiguration v", "a", "https://10.96.3.7/"}, {"MutatingWebhookConfiguration m", "b", ""}}; !slices.Equal(w.Webhooks, want) {
		t.Errorf("%+v", w.Webhooks)
	}
	if !w.Kubeadm || !slices.Equal(w.KubeletDNS, []string{"10.96.0.10"}) || len(w.APIServers) != 1 || w.APIServers[0].Name != "apiserver-1" || len(w.Unread) != 0 {
		t.Errorf("%+v", w)
	}
	if len(w.Reviews) != len(Accesses()) {
		t.Errorf("%d reviews of %d", len(w.Reviews), len(Accesses()))
	}
	for _, r := range w.Reviews {
		if r.Allowed != (r.Verb != "delete" && r.Path == "") {
			t.Errorf("%+v", r)
		}
	}
	for _, a := range client.Actions() {
		if v := a.GetVerb(); v != "get" && v != "list" && a.GetResource().Resource != "selfsubjectaccessreviews" {
			t.Errorf("it wrote: %s %s", v, a.GetResource().Resource)
		}
	}
}

// refuseList answers a list of a resource with an error.
func refuseList(verb, resource string, err error) *fake.Clientset {
	client := oneOfEach()
	client.PrependReactor(verb, resource, func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	return client
}

// What no plan can be made without is an error that says what and how to go on.
func TestReadWorld_Fails(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no role"))
	old := oneOfEach()
	old.Discovery().(*discoveryfake.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: "v1.32.9-gke.100"}
	for name, test := range map[string]struct {
		client *fake.Clientset
		is     error
		want   []string
	}{
		"too old":          {old, ErrTooOld, []string{"v1.32.9-gke.100", "1.33 or later", "upgrade"}},
		"API off":          {refuseList("list", "servicecidrs", apierrors.NewNotFound(schema.GroupResource{Resource: "servicecidrs"}, "")), ErrTooOld, []string{"v1.37.2"}},
		"unreachable":      {refuseList("get", "version", errors.New("dial tcp 192.0.2.1:6443: i/o timeout")), ErrUnreachable, []string{"192.0.2.1:6443", "--kubeconfig"}},
		"no namespace":     {refuseList("get", "namespaces", forbidden), ErrForbidden, []string{"kube-system", "permission"}},
		"no ServiceCIDRs":  {refuseList("list", "servicecidrs", forbidden), ErrForbidden, []string{"ServiceCIDRs", "permission"}},
		"no IPAddresses":   {refuseList("list", "ipaddresses", forbidden), ErrForbidden, []string{"IPAddresses"}},
		"no Services":      {refuseList("list", "services", forbidden), ErrForbidden, []string{"Services"}},
		"no slices":        {refuseList("list", "endpointslices", forbidden), ErrForbidden, []string{"EndpointSlices"}},
		"nodes, a failure": {refuseList("list", "nodes", apierrors.NewInternalError(errors.New("etcd"))), nil, []string{"nodes", "try again"}},
		"unauthorized":     {refuseList("get", "version", apierrors.NewUnauthorized("no")), nil, []string{"credentials"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := ReadWorld(context.Background(), test.client)
			var read *ReadError
			if w != nil || !errors.As(err, &read) || test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("%v, %v", w, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("without %q: %v", want, err)
				}
			}
		})
	}
}

// What may not be read is noted, and the plan is made without.
func TestReadWorld_NotesWhatItMayNotRead(t *testing.T) {
	for _, test := range []struct{ verb, resource, noted string }{
		{"list", "nodes", "nodes"}, {"list", "networkpolicies", "networkpolicies"},
		{"list", "validatingwebhookconfigurations", "validatingwebhookconfigurations"}, {"list", "mutatingwebhookconfigurations", "mutatingwebhookconfigurations"},
		{"list", "leases", "leases of the API servers"}, {"get", "configmaps", "configmap kubelet-config"}, {"get", "configmaps", "configmap kubeadm-config"},
		{"create", "selfsubjectaccessreviews", "permissions (selfsubjectaccessreviews)"},
	} {
		t.Run(test.noted, func(t *testing.T) {
			w, err := ReadWorld(context.Background(), refuseList(test.verb, test.resource, apierrors.NewForbidden(schema.GroupResource{Resource: test.resource}, "", nil)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(w.Unread, func(u Unread) bool { return u.Resource == test.noted && u.Reason != "" }) {
				t.Errorf("%+v", w.Unread)
			}
		})
	}
}

func TestReadWorld_StopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client := oneOfEach()
	client.PrependReactor("list", "services", func(kubetesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, ctx.Err()
	})
	if _, err := ReadWorld(ctx, client); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The runner's own calls are all asked about.
func TestAccesses_CoverTheRunner(t *testing.T) {
	have := map[string]bool{}
	for _, a := range Accesses() {
		if have[a.String()] {
			t.Errorf("%s is there twice", a)
		}
		have[a.String()] = true
	}
	for _, want := range []string{
		"get services", "list services", "create services", "update services", "delete services", "update services/status",
		"get servicecidrs.networking.k8s.io", "list servicecidrs.networking.k8s.io", "create servicecidrs.networking.k8s.io", "delete servicecidrs.networking.k8s.io",
		"list ipaddresses.networking.k8s.io", "list endpointslices.discovery.k8s.io",
		"create secrets in namespace kube-system", "list secrets in namespace kube-system",
		"get leases.coordination.k8s.io in namespace kube-system", "create leases.coordination.k8s.io in namespace kube-system", "update leases.coordination.k8s.io in namespace kube-system",
		"get namespaces kube-system", "get /flagz",
	} {
		if !have[want] {
			t.Errorf("nobody asks whether one may %s", want)
		}
	}
}
