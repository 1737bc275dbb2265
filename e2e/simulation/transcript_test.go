// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
)

// client is what both servers are talked to through.
type client interface {
	networkingv1client.ServiceCIDRsGetter
	networkingv1client.IPAddressesGetter
	corev1client.ServicesGetter
	coordinationv1client.LeasesGetter
}

// transcript is a run of a script on one server.
type transcript struct {
	client
	t     *testing.T
	ctx   context.Context
	lines []string

	symbols map[string]string // of UIDs and resourceVersions
}

func newTranscript(t *testing.T, c client) *transcript {
	return &transcript{client: c, t: t, ctx: t.Context(), symbols: map[string]string{}}
}

// say adds a line.
func (tr *transcript) say(step, format string, args ...any) {
	tr.lines = append(tr.lines, step+": "+fmt.Sprintf(format, args...))
}

// outcome adds the line of a call, and returns its object.
func outcome[T runtime.Object](tr *transcript, step string, obj T, err error) T {
	if err != nil {
		tr.say(step, "%s", errorKind(err))
		return obj
	}
	tr.say(step, "%s", tr.describe(obj))
	return obj
}

// done adds the line of a call that has no object.
func (tr *transcript) done(step string, err error) {
	if err != nil {
		tr.say(step, "%s", errorKind(err))
		return
	}
	tr.say(step, "ok")
}

// errorKind is what code can tell of an error.
func errorKind(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return "no answer of the server: " + err.Error()
	}
	s := status.Status()
	return fmt.Sprintf("%d %s", s.Code, s.Reason)
}

// symbol names a value by when it appeared first.
func (tr *transcript) symbol(kind, value string) string {
	if value == "" {
		return "none"
	}
	key := kind + value
	if tr.symbols[key] == "" {
		n := 0
		for k := range tr.symbols {
			if strings.HasPrefix(k, kind) {
				n++
			}
		}
		tr.symbols[key] = fmt.Sprint(kind, n+1)
	}
	return tr.symbols[key]
}

// describe is an object without what differs from run to run.
func (tr *transcript) describe(obj runtime.Object) string {
	raw, err := json.Marshal(obj)
	if err != nil {
		tr.t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		tr.t.Fatal(err)
	}
	delete(fields, "kind")
	delete(fields, "apiVersion")
	meta, _ := fields["metadata"].(map[string]any)
	version := fmt.Sprint(meta["uid"], "/", meta["resourceVersion"])
	if _, ok := obj.(*networkingv1.ServiceCIDR); ok {
		delete(meta, "generation") // a real server has none of ServiceCIDRs (v1.37); see simapi's doc
	}
	meta["uid"] = tr.symbol("uid", fmt.Sprint(meta["uid"]))
	meta["resourceVersion"] = tr.symbol("version", version)
	for _, name := range []string{"creationTimestamp", "deletionTimestamp"} {
		if meta[name] != nil {
			meta[name] = "set"
		}
	}
	managers, _ := meta["managedFields"].([]any)
	for _, m := range managers {
		delete(m.(map[string]any), "time")
	}
	slices.SortFunc(managers, func(a, b any) int { // they come by time, and two of a second in any order
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	if spec, ok := fields["spec"].(map[string]any); ok {
		if _, isService := obj.(*corev1.Service); isService {
			// What only a server with an allocator of its own fills in.
			for _, name := range []string{"ports", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy", "sessionAffinity"} {
				delete(spec, name)
			}
		}
	}
	out, err := json.Marshal(fields)
	if err != nil {
		tr.t.Fatal(err)
	}
	return string(out)
}

// names adds a line with the names in a list and whether there is more.
func (tr *transcript) names(step string, list *networkingv1.IPAddressList, err error) *networkingv1.IPAddressList {
	if err != nil {
		tr.say(step, "%s", errorKind(err))
		return list
	}
	var names []string
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	more := "no more"
	if list.Continue != "" {
		more = "more"
	}
	if list.RemainingItemCount != nil {
		more += fmt.Sprintf(", %d remain", *list.RemainingItemCount)
	}
	tr.say(step, "%v, %s", names, more)
	return list
}

// difference is a line, by its step, in which the two servers differ on purpose.
type difference struct{ simulated, real, reason string }

// compare fails on any difference that is not listed, and on any that is listed and
// is not there.
func compare(t *testing.T, simulated, real []string, differences map[string]difference) {
	t.Helper()
	if len(simulated) != len(real) {
		t.Errorf("%d steps on the simulated server, %d on the real one", len(simulated), len(real))
	}
	seen := map[string]bool{}
	for i := range min(len(simulated), len(real)) {
		step, _, _ := strings.Cut(simulated[i], ": ")
		d, listed := differences[step]
		s := simulated[i]
		if listed {
			seen[step] = true
			s = strings.Replace(s, d.simulated, d.real, 1)
			if s == simulated[i] {
				t.Errorf("step %q: the difference %q is listed, and not there", step, d.simulated)
			}
		}
		if s != real[i] {
			t.Errorf("they differ\n  simulated: %s\n  real:      %s", simulated[i], real[i])
		}
	}
	for step := range differences {
		if !seen[step] {
			t.Errorf("step %q is listed as different, and was not made", step)
		}
	}
	steps := map[string]bool{}
	for _, line := range simulated {
		step, _, _ := strings.Cut(line, ": ")
		if steps[step] {
			t.Errorf("two steps are called %q", step)
		}
		steps[step] = true
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
