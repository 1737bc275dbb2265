// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// operation is a call on one of a few ServiceCIDRs, with what it knows of it: the
// answer of an earlier call, which may be an old one.
type operation struct {
	verb         string
	name         int
	known        int  // by how many answers its knowledge is behind
	uid, version bool // whether it sends them
	flag         bool
	value        int
}

func drawOperation(t *rapid.T) operation {
	return operation{
		verb: rapid.SampledFrom([]string{"create", "create", "get", "update", "add finalizer", "add finalizer", "remove finalizer", "remove finalizer",
			"delete", "apply status", "apply status", "apply labels", "update status"}).Draw(t, "verb"),
		name:    rapid.IntRange(0, 1).Draw(t, "name"),
		known:   rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "known"),
		uid:     rapid.Bool().Draw(t, "uid"),
		version: rapid.Bool().Draw(t, "version"),
		flag:    rapid.Bool().Draw(t, "flag"),
		value:   rapid.IntRange(0, 2).Draw(t, "value"),
	}
}

// likeTheRealOne runs the same random operations on both servers.
func likeTheRealOne(t *testing.T, real *kubernetes.Clientset) {
	serial := 0
	rapid.Check(t, func(rt *rapid.T) {
		operations := rapid.SliceOfN(rapid.Custom(drawOperation), 5, 40).Draw(rt, "operations")
		serial++
		server := simapi.New()
		defer server.Close()
		simulated := newTranscript(t, server.Client("script"))
		simulated.random(serial, operations)
		onReal := newTranscript(t, realClient{real})
		onReal.random(serial, operations)
		onReal.sweep(serial)
		for i := range simulated.lines {
			if simulated.lines[i] != onReal.lines[i] {
				rt.Fatalf("they differ\n  simulated: %s\n  real:      %s", simulated.lines[i], onReal.lines[i])
			}
		}
	})
}

func randomName(serial, name int) string { return fmt.Sprintf("r%d-%d", serial, name) }

// sweep removes what a run has left on the real server.
func (tr *transcript) sweep(serial int) {
	for name := range 2 {
		n := randomName(serial, name)
		_, _ = tr.ServiceCIDRs().Patch(tr.ctx, n, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		_ = tr.ServiceCIDRs().Delete(tr.ctx, n, metav1.DeleteOptions{})
	}
}

func (tr *transcript) random(serial int, operations []operation) {
	c := tr.ServiceCIDRs()
	answers := map[int][]*networkingv1.ServiceCIDR{}
	for i, op := range operations {
		step := fmt.Sprintf("%d %s %d", i, op.verb, op.name)
		name := randomName(serial, op.name)
		known := serviceCIDR(name, fmt.Sprintf("10.%d.0.0/24", 100+op.name))
		if past := answers[op.name]; len(past) > op.known {
			known = past[len(past)-1-op.known].DeepCopy()
		}
		labels := map[string]string{"l": fmt.Sprint(op.value)}
		var got *networkingv1.ServiceCIDR
		var err error
		switch op.verb {
		case "create":
			obj := serviceCIDR(name, fmt.Sprintf("10.%d.0.0/24", 100+op.name))
			if op.flag {
				obj.Finalizers = []string{informer.Finalizer}
			}
			got, err = c.Create(tr.ctx, obj, creating())
		case "get":
			got, err = c.Get(tr.ctx, name, metav1.GetOptions{})
		case "update", "update status":
			if !op.version {
				known.ResourceVersion = ""
			}
			if !op.uid {
				known.UID = ""
			}
			if op.verb == "update" {
				known.Labels = labels
				got, err = c.Update(tr.ctx, known, updating())
			} else {
				known.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: labels["l"], LastTransitionTime: metav1.Unix(1000, 0)}}
				got, err = c.UpdateStatus(tr.ctx, known, updating())
			}
		case "add finalizer", "remove finalizer":
			metadata := map[string]any{"finalizers": []string{informer.Finalizer}}
			if op.verb == "remove finalizer" {
				metadata = map[string]any{"$deleteFromPrimitiveList/finalizers": []string{informer.Finalizer}}
			}
			if op.uid {
				metadata["uid"] = known.UID
			}
			if op.version {
				metadata["resourceVersion"] = known.ResourceVersion
			}
			got = tr.patch(step, name, metadata)
			if got.Name != "" {
				answers[op.name] = append(answers[op.name], got)
			}
			continue
		case "delete":
			o := metav1.DeleteOptions{}
			if known.UID != "" && (op.uid || op.version) {
				o.Preconditions = &metav1.Preconditions{}
				if op.uid {
					o.Preconditions.UID = &known.UID
				}
				if op.version {
					o.Preconditions.ResourceVersion = &known.ResourceVersion
				}
			}
			tr.done(step, c.Delete(tr.ctx, name, o))
			continue
		case "apply status", "apply labels":
			ac := networkingv1ac.ServiceCIDR(name)
			if op.uid && known.UID != "" {
				ac.WithUID(known.UID)
			}
			if op.version && known.ResourceVersion != "" {
				ac.WithResourceVersion(known.ResourceVersion)
			}
			o := metav1.ApplyOptions{FieldManager: fmt.Sprint("m", op.value), Force: op.flag}
			if op.verb == "apply labels" {
				got, err = c.Apply(tr.ctx, ac.WithLabels(labels), o)
			} else {
				got, err = c.ApplyStatus(tr.ctx, ac.WithStatus(networkingv1ac.ServiceCIDRStatus().WithConditions(metav1ac.Condition().
					WithType("Ready").WithStatus("False").WithReason("R").WithMessage(labels["l"]).WithLastTransitionTime(metav1.Unix(1000, 0)))), o)
			}
		}
		outcome(tr, step, got, err)
		if err == nil {
			answers[op.name] = append(answers[op.name], got)
		}
	}
}
