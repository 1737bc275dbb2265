// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// outcome is what came of a step, as path: value.
type outcome map[string]string

// run plays the scenario in a namespace of its own, and returns an outcome for each step and one for what is left.
func run(ctx context.Context, s *session, steps []step, ranges []netip.Prefix) (map[string]outcome, error) {
	all := map[string]outcome{}
	for i, st := range steps {
		obj, err := st.do(ctx, s)
		o, err := s.outcome(obj, err, ranges)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.name, err)
		}
		all[fmt.Sprintf("%d %s", i+1, st.name)] = o
	}
	left, err := s.left(ctx, ranges)
	if err != nil {
		return nil, err
	}
	all["addresses left"] = left
	return all, nil
}

// outcome flattens an answer. An error that is no answer of the server's is returned.
func (s *session) outcome(obj runtime.Object, err error, ranges []netip.Prefix) (outcome, error) {
	o := outcome{}
	if err != nil {
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, err
		}
		o.addError(status.Status())
		return o, nil
	}
	if obj == nil {
		o["done"] = "true"
		return o, nil
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	delete(fields, "kind") // typed clients drop both
	delete(fields, "apiVersion")
	metadata := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "creationTimestamp", "namespace"} {
		delete(metadata, name)
	}
	if prefix, generated := metadata["generateName"].(string); generated {
		s.generated[metadata["name"].(string)] = prefix + "<generated>"
	}
	if _, ok := obj.(*networkingv1.ServiceCIDR); ok {
		delete(fields, "status") // its controller's, at any moment
	}
	managed := metadata["managedFields"]
	delete(metadata, "managedFields")
	o.addManaged(managed)
	o.flatten("", fields)
	for path, value := range o {
		o[path] = s.generalise(path, value, ranges)
	}
	return o, nil
}

func (o outcome) addError(status metav1.Status) {
	o["error.code"] = fmt.Sprint(status.Code)
	o["error.reason"] = string(status.Reason)
	if status.Details == nil {
		return
	}
	o["error.kind"] = status.Details.Kind
	var causes []string
	for _, c := range status.Details.Causes {
		causes = append(causes, fmt.Sprintf("%s %s", c.Type, c.Field))
	}
	slices.Sort(causes)
	o["error.causes"] = strings.Join(causes, ", ")
}

// addManaged adds the managed fields of each manager, which say what server-side apply will do.
func (o outcome) addManaged(managed any) {
	entries, _ := managed.([]any)
	for _, e := range entries {
		entry := e.(map[string]any)
		if entry["manager"] == servicecidr.DefaultFieldManager {
			continue
		}
		key := fmt.Sprintf("managed[%v %v %v]", entry["manager"], entry["operation"], entry["subresource"])
		o.flatten(key, entry["fieldsV1"])
		o[key+".apiVersion"] = fmt.Sprint(entry["apiVersion"])
	}
}

// flatten adds a leaf for each value in v. An empty list or map is a leaf.
func (o outcome) flatten(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			o.flatten(strings.TrimPrefix(path+"."+key, "."), value)
		}
		if len(v) == 0 {
			o[path] = "{}"
		}
	case []any:
		for i, value := range v {
			o.flatten(fmt.Sprintf("%s[%d]", path, i), value)
		}
		if len(v) == 0 {
			o[path] = "[]"
		}
	default:
		o[path] = fmt.Sprint(v)
	}
}

// generalise replaces what the server chose by where it chose from.
func (s *session) generalise(path, value string, ranges []netip.Prefix) string {
	value = strings.ReplaceAll(value, s.namespace, "<namespace>")
	if name, ok := s.generated[value]; ok {
		return name
	}
	if !s.given[value] {
		return value
	}
	switch {
	case strings.HasPrefix(path, "spec.clusterIP"):
		return within(value, ranges)
	case strings.HasSuffix(path, "odePort"):
		return "<node port>"
	}
	return value
}

// within names the range that an address is in.
func within(address string, ranges []netip.Prefix) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	for _, r := range ranges {
		if r.Contains(addr) {
			return "<from " + r.String() + ">"
		}
	}
	return "<from no range: " + address + ">"
}

// left is the IPAddresses whose owners are in the scenario's namespace.
func (s *session) left(ctx context.Context, ranges []netip.Prefix) (outcome, error) {
	list, err := s.client.NetworkingV1().IPAddresses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	o := outcome{}
	for _, obj := range list.Items {
		ref := obj.Spec.ParentRef
		if ref == nil || ref.Namespace != s.namespace {
			continue
		}
		address := obj.Name
		if s.given[address] {
			address = within(address, ranges)
		}
		key := fmt.Sprintf("address %s of %s.%s/%s", address, ref.Resource, ref.Group, s.generalise("", ref.Name, nil))
		o[key] = "there"
		for name, value := range obj.Labels {
			o[key+" label "+name] = value
		}
	}
	return o, nil
}
