// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// manager is the field manager of the calls that name no other.
const manager = "comparison"

// session is one scenario on one server.
type session struct {
	client    kubernetes.Interface
	namespace string
	asked     map[string]bool   // addresses and node ports that the scenario named
	given     map[string]bool   // those that the server chose
	generated map[string]string // names that the server completed, and what stands for them
}

func newSession(client kubernetes.Interface, namespace string) *session {
	return &session{client: client, namespace: namespace, asked: map[string]bool{}, given: map[string]bool{}, generated: map[string]string{}}
}

// clear deletes what the scenario left, so that its addresses are free.
func (s *session) clear(ctx context.Context) error {
	services, err := s.client.CoreV1().Services(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, svc := range services.Items {
		if err := s.client.CoreV1().Services(s.namespace).Delete(ctx, svc.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	addresses, err := s.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, obj := range addresses.Items {
		if obj.Spec.ParentRef == nil || obj.Spec.ParentRef.Namespace != s.namespace {
			continue
		}
		if err := s.client.NetworkingV1().IPAddresses().Delete(ctx, obj.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// step is one call. What it returns is compared.
type step struct {
	name string
	do   func(context.Context, *session) (runtime.Object, error)
}

type edit = func(*corev1.Service)

// manifest is a Service with one port and a selector, edited: what a client writes.
func manifest(name string, edits ...edit) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

// send notes what svc asks for, and what the answer has beyond that.
func (s *session) send(svc *corev1.Service, call func() (*corev1.Service, error)) (runtime.Object, error) {
	for _, v := range chosen(svc) {
		if !s.given[v] {
			s.asked[v] = true
		}
	}
	answer, err := call()
	if err != nil {
		return nil, err
	}
	s.note(answer)
	return answer, nil
}

func (s *session) note(svc *corev1.Service) {
	for _, v := range chosen(svc) {
		if !s.asked[v] {
			s.given[v] = true
		}
	}
}

// chosen are the addresses and node ports of a Service, which the server chooses unless the client does.
func chosen(svc *corev1.Service) []string {
	values := append([]string{svc.Spec.ClusterIP}, svc.Spec.ClusterIPs...)
	for _, port := range svc.Spec.Ports {
		values = append(values, fmt.Sprint(port.NodePort))
	}
	values = append(values, fmt.Sprint(svc.Spec.HealthCheckNodePort))
	var out []string
	for _, v := range values {
		if v != "" && v != "0" && v != corev1.ClusterIPNone {
			out = append(out, v)
		}
	}
	return out
}

func create(name string, edits ...edit) step { return createWith("create", name, nil, edits) }

func dryCreate(name string, edits ...edit) step {
	return createWith("dry-run create", name, []string{metav1.DryRunAll}, edits)
}

func createWith(verb, name string, dryRun []string, edits []edit) step {
	return step{verb + " " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		svc := manifest(name, edits...)
		return s.send(svc, func() (*corev1.Service, error) {
			return s.client.CoreV1().Services(s.namespace).Create(ctx, svc, metav1.CreateOptions{FieldManager: manager, DryRun: dryRun})
		})
	}}
}

// update reads, edits and writes back.
func update(name string, edits ...edit) step { return updateWith("update", name, nil, edits) }

func dryUpdate(name string, edits ...edit) step {
	return updateWith("dry-run update", name, []string{metav1.DryRunAll}, edits)
}

func updateWith(verb, name string, dryRun []string, edits []edit) step {
	return step{verb + " " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		svc, err := s.client.CoreV1().Services(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			e(svc)
		}
		return s.put(ctx, svc, dryRun)
	}}
}

// replace writes a manifest over what is there, without a resourceVersion.
func replace(name string, edits ...edit) step {
	return step{"replace " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return s.put(ctx, manifest(name, edits...), nil)
	}}
}

func (s *session) put(ctx context.Context, svc *corev1.Service, dryRun []string) (runtime.Object, error) {
	return s.send(svc, func() (*corev1.Service, error) {
		return s.client.CoreV1().Services(s.namespace).Update(ctx, svc, metav1.UpdateOptions{FieldManager: manager, DryRun: dryRun})
	})
}

func updateStatus(name string, edits ...edit) step {
	return step{"update status of " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		svc, err := s.client.CoreV1().Services(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			e(svc)
		}
		return s.send(svc, func() (*corev1.Service, error) {
			return s.client.CoreV1().Services(s.namespace).UpdateStatus(ctx, svc, metav1.UpdateOptions{FieldManager: manager})
		})
	}}
}

func merge(name, patch string) step { return patchWith(types.MergePatchType, name, patch) }

func strategic(name, patch string) step { return patchWith(types.StrategicMergePatchType, name, patch) }

func patchWith(kind types.PatchType, name, patch string) step {
	return step{"patch " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return s.send(asked(patch), func() (*corev1.Service, error) {
			return s.client.CoreV1().Services(s.namespace).Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{FieldManager: manager})
		})
	}}
}

// apply is server-side apply of a Service by a field manager. spec is JSON.
func apply(by, name, spec string) step { return applyWith("apply", by, name, spec, false) }

func forceApply(by, name, spec string) step { return applyWith("force apply", by, name, spec, true) }

func applyWith(verb, by, name, spec string, force bool) step {
	return step{verb + " " + name + " by " + by, func(ctx context.Context, s *session) (runtime.Object, error) {
		body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":%q},"spec":%s}`, name, spec)
		return s.send(asked(body), func() (*corev1.Service, error) {
			return s.client.CoreV1().Services(s.namespace).Patch(ctx, name, types.ApplyPatchType, []byte(body),
				metav1.PatchOptions{FieldManager: by, Force: &force})
		})
	}}
}

// asked is what can be read of a patch as a Service: enough to see what it asks for.
func asked(patch string) *corev1.Service {
	var svc corev1.Service
	_ = json.Unmarshal([]byte(patch), &svc) // a patch that is no Service asks for nothing
	return &svc
}

func get(name string) step {
	return step{"get " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return s.client.CoreV1().Services(s.namespace).Get(ctx, name, metav1.GetOptions{})
	}}
}

func remove(name string) step {
	return step{"delete " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return nil, s.client.CoreV1().Services(s.namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}}
}

func dryRemove(name string) step {
	return step{"dry-run delete " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return nil, s.client.CoreV1().Services(s.namespace).Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}}
}

func removeAll() step {
	return step{"delete all", func(ctx context.Context, s *session) (runtime.Object, error) {
		return nil, s.client.CoreV1().RESTClient().Delete().Namespace(s.namespace).Resource("services").Do(ctx).Error()
	}}
}

// createIP makes an IPAddress whose owner is a Service of the scenario's namespace.
func createIP(name string, edits ...func(*networkingv1.IPAddress)) step {
	return step{"create IPAddress " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		s.asked[name] = true
		obj := &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: networkingv1.IPAddressSpec{
				ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Namespace: s.namespace, Name: "blue"},
			},
		}
		for _, e := range edits {
			e(obj)
		}
		return answer(s.client.NetworkingV1().IPAddresses().Create(ctx, obj, metav1.CreateOptions{FieldManager: manager}))
	}}
}

func updateIP(name string, edits ...func(*networkingv1.IPAddress)) step {
	return step{"update IPAddress " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		obj, err := s.client.NetworkingV1().IPAddresses().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for _, e := range edits {
			e(obj)
		}
		return answer(s.client.NetworkingV1().IPAddresses().Update(ctx, obj, metav1.UpdateOptions{FieldManager: manager}))
	}}
}

func removeIP(name string) step {
	return step{"delete IPAddress " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return nil, s.client.NetworkingV1().IPAddresses().Delete(ctx, name, metav1.DeleteOptions{})
	}}
}

// createCIDR makes a ServiceCIDR. Its name is completed, so that each play has its own.
func createCIDR(name string, cidrs ...string) step {
	return step{"create ServiceCIDR " + name, func(ctx context.Context, s *session) (runtime.Object, error) {
		return answer(s.client.NetworkingV1().ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name + "." + s.namespace},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
		}, metav1.CreateOptions{FieldManager: manager}))
	}}
}

// updateCIDR tries again after a conflict: controllers write too.
func updateCIDR(name string, cidrs ...string) step {
	return step{"update ServiceCIDR " + name, func(ctx context.Context, s *session) (obj runtime.Object, err error) {
		err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			old, err := s.client.NetworkingV1().ServiceCIDRs().Get(ctx, name+"."+s.namespace, metav1.GetOptions{})
			if err != nil {
				return err
			}
			old.Spec.CIDRs = cidrs
			obj, err = answer(s.client.NetworkingV1().ServiceCIDRs().Update(ctx, old, metav1.UpdateOptions{FieldManager: manager}))
			return err
		})
		return obj, err
	}}
}

// answer drops the empty object that comes with an error.
func answer[T runtime.Object](obj T, err error) (runtime.Object, error) {
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// eventually repeats st until it is not refused: a server hears of a new ServiceCIDR by watching.
func eventually(st step) step {
	return step{st.name, func(ctx context.Context, s *session) (obj runtime.Object, err error) {
		limit, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_ = wait.PollUntilContextCancel(limit, pollInterval, true, func(ctx context.Context) (bool, error) {
			obj, err = st.do(ctx, s)
			return err == nil, nil
		})
		return obj, err // of the last attempt
	}}
}
