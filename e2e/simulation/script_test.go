// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// realClient has the interfaces of the real server in one.
type realClient struct{ *kubernetes.Clientset }

func (c realClient) ServiceCIDRs() networkingv1client.ServiceCIDRInterface {
	return c.NetworkingV1().ServiceCIDRs()
}

func (c realClient) IPAddresses() networkingv1client.IPAddressInterface {
	return c.NetworkingV1().IPAddresses()
}

func (c realClient) Services(namespace string) corev1client.ServiceInterface {
	return c.CoreV1().Services(namespace)
}

func (c realClient) Leases(namespace string) coordinationv1client.LeaseInterface {
	return c.CoordinationV1().Leases(namespace)
}

// chapters are the parts of the script.
var chapters = []struct {
	name        string
	run         func(*transcript)
	differences map[string]difference
}{
	{"ServiceCIDRs", serviceCIDRs, map[string]difference{
		"create with a resourceVersion": {"500 InternalError", "500 ", "the real one gives a 500 no reason"},
	}},
	{"finalizers", finalizers, nil},
	{"apply", apply, nil},
	{"IPAddresses", ipAddresses, nil},
	{"lists", lists, nil},
	{"watches", watches, map[string]difference{
		"from a version that is none": {"400 BadRequest", "500 ", "the real one says 500 for what a watch cannot parse, and 400 for a list"},
	}},
	{"Services", services, map[string]difference{
		"create it again": {"409 AlreadyExists", "422 Invalid", "the real one allocates the address first, and finds it taken"},
	}},
	{"Leases", leases, nil},
}

func TestSimulatedServerIsLikeTheRealOne(t *testing.T) {
	cp := controlplane.ForTest(t, controlplane.Config{})
	config := cp.RESTConfig()
	config.QPS = -1
	real, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("whatever rapid draws", func(t *testing.T) { likeTheRealOne(t, real) })
	steps := 0
	for _, chapter := range chapters {
		t.Run(chapter.name, func(t *testing.T) {
			server := simapi.New()
			defer server.Close()
			simulated := newTranscript(t, server.Client("script"))
			chapter.run(simulated)
			onReal := newTranscript(t, realClient{real})
			chapter.run(onReal)
			compare(t, simulated.lines, onReal.lines, chapter.differences)
			steps += len(simulated.lines)
			if testing.Verbose() {
				t.Log("\n" + strings.Join(onReal.lines, "\n"))
			}
		})
	}
	t.Logf("%d steps", steps)
}

const manager = "script"

func creating() metav1.CreateOptions { return metav1.CreateOptions{FieldManager: manager} }
func updating() metav1.UpdateOptions { return metav1.UpdateOptions{FieldManager: manager} }
func patching() metav1.PatchOptions  { return metav1.PatchOptions{FieldManager: manager} }

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: named(name), Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func serviceCIDRs(tr *transcript) {
	c := tr.ServiceCIDRs()
	create := func(step string, obj *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR {
		got, err := c.Create(tr.ctx, obj, creating())
		return outcome(tr, step, got, err)
	}
	obj := create("create", serviceCIDR("one", "10.200.0.0/24"))
	create("create it again", serviceCIDR("one", "10.200.0.0/24"))
	create("create a dual one", serviceCIDR("dual", "2001:db8::/112", "10.201.0.0/24"))
	create("create without a CIDR", serviceCIDR("none"))
	create("create with three", serviceCIDR("three", "10.202.0.0/24", "2001:db8:1::/112", "10.203.0.0/24"))
	create("create with two of a family", serviceCIDR("family", "10.202.0.0/24", "10.203.0.0/24"))
	create("create with host bits", serviceCIDR("bits", "10.202.0.1/24"))
	create("create with an address", serviceCIDR("address", "10.202.0.0"))
	create("create with capitals", serviceCIDR("capitals", "2001:DB8::/112"))
	create("create with a bad name", serviceCIDR("Not_A_Name", "10.202.0.0/24"))
	create("create a /32", serviceCIDR("host", "10.202.0.7/32"))
	withVersion := serviceCIDR("version", "10.202.0.0/24")
	withVersion.ResourceVersion = "5"
	create("create with a resourceVersion", withVersion)
	withStatus := serviceCIDR("status", "10.204.0.0/24")
	withStatus.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)}}
	create("create with a status", withStatus)
	_, err := c.Create(tr.ctx, serviceCIDR("dry", "10.205.0.0/24"), metav1.CreateOptions{FieldManager: manager, DryRun: []string{"All"}})
	tr.done("create dry", err)
	_, err = c.Get(tr.ctx, "dry", metav1.GetOptions{})
	tr.done("get what was dry", err)

	got, err := c.Get(tr.ctx, "one", metav1.GetOptions{})
	outcome(tr, "get", got, err)
	got, err = c.Get(tr.ctx, "absent", metav1.GetOptions{})
	outcome(tr, "get what is absent", got, err)

	update := func(step string, change func(*networkingv1.ServiceCIDR)) {
		in := obj.DeepCopy()
		change(in)
		got, err := c.Update(tr.ctx, in, updating())
		if outcome(tr, step, got, err); err == nil {
			obj = got
		}
	}
	update("update labels", func(o *networkingv1.ServiceCIDR) { o.Labels = map[string]string{"a": "b"} })
	update("update of nothing", func(o *networkingv1.ServiceCIDR) {})
	update("update without a resourceVersion", func(o *networkingv1.ServiceCIDR) { o.ResourceVersion = ""; o.Labels = map[string]string{"a": "c"} })
	update("update with an old resourceVersion", func(o *networkingv1.ServiceCIDR) { o.ResourceVersion = "1"; o.Labels = nil })
	update("update with another UID", func(o *networkingv1.ServiceCIDR) { o.UID = "other"; o.Labels = nil })
	update("update of the first CIDR", func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = []string{"10.209.0.0/24"} })
	update("update that puts a family before", func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = []string{"2001:db8:2::/112", "10.200.0.0/24"} })
	update("update that adds the same family", func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = append(o.Spec.CIDRs, "10.209.0.0/24") })
	update("update that adds a family", func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = append(o.Spec.CIDRs, "2001:db8:2::/112") })
	update("update that removes a family", func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = o.Spec.CIDRs[:1] })
	update("update of the status, by the main resource", func(o *networkingv1.ServiceCIDR) {
		o.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: metav1.Unix(1, 0)}}
	})
	update("update that sets the deletionTimestamp", func(o *networkingv1.ServiceCIDR) { o.DeletionTimestamp = ptr.To(metav1.Now()) })
	in := serviceCIDR("absent", "10.206.0.0/24")
	got, err = c.Update(tr.ctx, in, updating())
	outcome(tr, "update of what is absent", got, err)

	in.UID = "other"
	got, err = c.Update(tr.ctx, in, updating())
	outcome(tr, "update of what is absent, with a UID", got, err)
	in.ResourceVersion = "1"
	got, err = c.Update(tr.ctx, in, updating())
	outcome(tr, "update of what is absent, with a UID and a version", got, err)
	in.UID = ""
	got, err = c.Update(tr.ctx, in, updating())
	outcome(tr, "update of what is absent, with a version", got, err)
	got, err = c.UpdateStatus(tr.ctx, in, updating())
	outcome(tr, "update of the status of what is absent, with a version", got, err)
	in.UID = "other"
	got, err = c.UpdateStatus(tr.ctx, in, updating())
	outcome(tr, "update of the status of what is absent, with a UID and a version", got, err)
	in.ResourceVersion = ""
	got, err = c.UpdateStatus(tr.ctx, in, updating())
	outcome(tr, "update of the status of what is absent, with a UID", got, err)
	in = obj.DeepCopy()
	in.Labels = nil
	in.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "R", Message: "m", LastTransitionTime: metav1.Unix(1, 0)}}
	got, err = c.UpdateStatus(tr.ctx, in, updating())
	outcome(tr, "update of the status", got, err)
	in.ResourceVersion = "1"
	got, err = c.UpdateStatus(tr.ctx, in, updating())
	outcome(tr, "update of the status with an old resourceVersion", got, err)
}

// patch is a strategic merge patch of metadata.
func (tr *transcript) patch(step, name string, metadata map[string]any) *networkingv1.ServiceCIDR {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		tr.t.Fatal(err)
	}
	got, err := tr.ServiceCIDRs().Patch(tr.ctx, name, types.StrategicMergePatchType, data, patching())
	return outcome(tr, step, got, err)
}

// finalizers is how a ServiceCIDR lives and goes, by the patches that package
// lifecycle/servicecidr sends.
func finalizers(tr *transcript) {
	c := tr.ServiceCIDRs()
	obj, err := c.Create(tr.ctx, serviceCIDR("kept", "10.210.0.0/24"), creating())
	outcome(tr, "create", obj, err)
	own := []string{informer.Finalizer}
	const remove = "$deleteFromPrimitiveList/finalizers"
	tr.patch("add to another UID", "kept", map[string]any{"uid": "other", "finalizers": own})
	tr.patch("add to what is absent", "absent", map[string]any{"uid": obj.UID, "finalizers": own})
	tr.patch("add", "kept", map[string]any{"uid": obj.UID, "finalizers": own})
	tr.patch("add again", "kept", map[string]any{"uid": obj.UID, "finalizers": own})
	tr.patch("add a second one", "kept", map[string]any{"finalizers": []string{"example.com/other"}})
	tr.patch("add one that is no name", "kept", map[string]any{"finalizers": []string{"not a name"}})
	tr.done("delete with another UID", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}))
	tr.done("delete with an old version", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}}))
	tr.done("delete", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{}))
	held, err := c.Get(tr.ctx, "kept", metav1.GetOptions{})
	outcome(tr, "get what is terminating", held, err)
	tr.done("delete again", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{}))
	tr.patch("add one while terminating", "kept", map[string]any{"finalizers": []string{"example.com/late"}})
	_, err = c.Create(tr.ctx, serviceCIDR("kept", "10.210.0.0/24"), creating())
	tr.done("create while terminating", err)
	tr.patch("remove with an old version", "kept", map[string]any{"uid": obj.UID, "resourceVersion": obj.ResourceVersion, remove: own})
	tr.patch("remove with another UID", "kept", map[string]any{"uid": "other", "resourceVersion": held.ResourceVersion, remove: own})
	got := tr.patch("remove", "kept", map[string]any{"uid": obj.UID, "resourceVersion": held.ResourceVersion, remove: own})
	tr.patch("remove what is not there", "kept", map[string]any{"uid": obj.UID, remove: own})
	tr.patch("remove the last", "kept", map[string]any{"uid": got.UID, "resourceVersion": got.ResourceVersion, remove: []string{"example.com/other"}})
	_, err = c.Get(tr.ctx, "kept", metav1.GetOptions{})
	tr.done("get what is gone", err)
	tr.done("delete what is gone", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{}))
	tr.patch("patch what is gone", "kept", map[string]any{"labels": map[string]string{"a": "b"}})
	obj, err = c.Create(tr.ctx, serviceCIDR("kept", "10.210.0.0/24"), creating())
	outcome(tr, "create it anew", obj, err)
	tr.done("delete at once, with UID and version", c.Delete(tr.ctx, "kept", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion}}))
	_, err = c.Get(tr.ctx, "kept", metav1.GetOptions{})
	tr.done("get what went at once", err)
	obj, err = c.Create(tr.ctx, serviceCIDR("merged", "10.211.0.0/24"), creating())
	outcome(tr, "create another", obj, err)
	got, err = c.Patch(tr.ctx, "merged", types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/a","example.com/b"]}}`), patching())
	outcome(tr, "merge patch", got, err)
	got, err = c.Patch(tr.ctx, "merged", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers/0"}]`), patching())
	outcome(tr, "JSON patch", got, err)
	got, err = c.Patch(tr.ctx, "merged", types.JSONPatchType, []byte(`[{"op":"test","path":"/metadata/name","value":"other"}]`), patching())
	outcome(tr, "JSON patch whose test fails", got, err)
	got, err = c.Patch(tr.ctx, "merged", types.MergePatchType, []byte(`{"spec":{"cidrs":["10.212.0.0/24"]}}`), patching())
	outcome(tr, "merge patch of what never changes", got, err)
	got, err = c.Patch(tr.ctx, "merged", types.MergePatchType, []byte(`{`), patching())
	outcome(tr, "merge patch that is no JSON", got, err)
}

// ready applies the condition Ready, as package lifecycle/servicecidr does.
func (tr *transcript) ready(step string, uid types.UID, by string, force bool, status metav1.ConditionStatus, reason string) *networkingv1.ServiceCIDR {
	ac := networkingv1ac.ServiceCIDR("applied").WithStatus(networkingv1ac.ServiceCIDRStatus().WithConditions(metav1ac.Condition().
		WithType("Ready").WithStatus(status).WithReason(reason).WithMessage("message").WithObservedGeneration(0).WithLastTransitionTime(metav1.Unix(1000, 0))))
	if uid != "" {
		ac.WithUID(uid)
	}
	got, err := tr.ServiceCIDRs().ApplyStatus(tr.ctx, ac, metav1.ApplyOptions{FieldManager: by, Force: force})
	return outcome(tr, step, got, err)
}

func apply(tr *transcript) {
	c := tr.ServiceCIDRs()
	tr.ready("status of what is absent", "", "a", true, "True", "Ready")
	obj, err := c.Create(tr.ctx, serviceCIDR("applied", "10.220.0.0/24"), creating())
	outcome(tr, "create", obj, err)
	tr.ready("status", obj.UID, "a", true, "True", "Ready")
	tr.ready("status again", obj.UID, "a", true, "True", "Ready")
	tr.ready("status of another UID", "other", "a", true, "False", "Terminating")
	tr.ready("status by another, without force", obj.UID, "b", false, "False", "Terminating")
	tr.ready("status by another, with force", obj.UID, "b", true, "False", "Terminating")
	tr.ready("status by the first, who lost it, with force", obj.UID, "a", true, "True", "Ready")

	labels := func(step, by string, force bool, labels map[string]string) {
		got, err := c.Apply(tr.ctx, networkingv1ac.ServiceCIDR("applied").WithLabels(labels), metav1.ApplyOptions{FieldManager: by, Force: force})
		outcome(tr, step, got, err)
	}
	labels("apply labels", "a", false, map[string]string{"x": "1", "y": "1"})
	labels("apply fewer labels", "a", false, map[string]string{"x": "1"})
	labels("apply a label of another", "b", false, map[string]string{"x": "2"})
	labels("apply the same label by another", "b", false, map[string]string{"x": "1"})
	labels("apply a shared label without force", "b", false, map[string]string{"x": "3"})
	labels("apply a shared label with force", "b", true, map[string]string{"x": "3"})
	got, err := c.Apply(tr.ctx, networkingv1ac.ServiceCIDR("made").WithSpec(networkingv1ac.ServiceCIDRSpec().WithCIDRs("10.221.0.0/24")), metav1.ApplyOptions{FieldManager: "a"})
	outcome(tr, "apply creates", got, err)
	got, err = c.Apply(tr.ctx, networkingv1ac.ServiceCIDR("made").WithSpec(networkingv1ac.ServiceCIDRSpec().WithCIDRs("10.222.0.0/24")), metav1.ApplyOptions{FieldManager: "a"})
	outcome(tr, "apply what never changes", got, err)
	got, err = c.Apply(tr.ctx, networkingv1ac.ServiceCIDR("applied").WithResourceVersion("1").WithLabels(map[string]string{"z": "1"}), metav1.ApplyOptions{FieldManager: "a"})
	outcome(tr, "apply with an old resourceVersion", got, err)
}

func address(name string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: named(name),
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "widgets", Namespace: "default", Name: "w"}},
	}
}

func ipAddresses(tr *transcript) {
	c := tr.IPAddresses()
	create := func(step string, obj *networkingv1.IPAddress) *networkingv1.IPAddress {
		got, err := c.Create(tr.ctx, obj, creating())
		if err == nil {
			got.ManagedFields = nil // simapi keeps none of IPAddresses
		}
		return outcome(tr, step, got, err)
	}
	obj := create("create", address("192.0.2.1"))
	create("create it again", address("192.0.2.1"))
	create("IPv6", address("2001:db8::5"))
	for _, name := range []string{"2001:DB8::5", "2001:db8::0005", "::ffff:10.96.0.5", "10.096.0.5", "fe80::1%eth0", "web", ""} {
		create("named "+name, address(name))
	}
	bare := address("192.0.2.2")
	bare.Spec.ParentRef = nil
	create("without a parent", bare)
	nameless := address("192.0.2.3")
	nameless.Spec.ParentRef.Name = ""
	create("parent without a name", nameless)
	kindless := address("192.0.2.4")
	kindless.Spec.ParentRef.Resource = ""
	create("parent without a resource", kindless)
	global := address("192.0.2.5")
	global.Spec.ParentRef.Namespace = ""
	create("parent without a namespace", global)

	in := obj.DeepCopy()
	in.Spec.ParentRef.Name = "other"
	_, err := c.Update(tr.ctx, in, updating())
	tr.done("update of the parent", err)
	in = obj.DeepCopy()
	in.Labels = map[string]string{"a": "b"}
	got, err := c.Update(tr.ctx, in, updating())
	tr.done("update of labels", err)
	tr.done("delete with another UID", c.Delete(tr.ctx, "192.0.2.1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}))
	tr.done("delete with an old version", c.Delete(tr.ctx, "192.0.2.1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &obj.UID, ResourceVersion: &obj.ResourceVersion}}))
	tr.done("delete", c.Delete(tr.ctx, "192.0.2.1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &got.UID, ResourceVersion: &got.ResourceVersion}}))
	tr.done("delete again", c.Delete(tr.ctx, "192.0.2.1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &got.UID}}))
	again := create("create it anew", address("192.0.2.1"))
	tr.say("it is another one", "%v", again.UID != obj.UID)
	tr.done("delete by the old UID", c.Delete(tr.ctx, "192.0.2.1", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &obj.UID}}))
}

func lists(tr *transcript) {
	c := tr.IPAddresses()
	mine := func(o metav1.ListOptions) metav1.ListOptions { o.LabelSelector = "list=mine"; return o }
	for i := range 7 {
		obj := address(fmt.Sprintf("198.51.100.%d", i+1))
		obj.Labels = map[string]string{"list": "mine"}
		_, err := c.Create(tr.ctx, obj, creating())
		tr.done(fmt.Sprint("create ", i), err)
	}
	list := func(step string, o metav1.ListOptions) *networkingv1.IPAddressList {
		l, err := c.List(tr.ctx, mine(o))
		return tr.names(step, l, err)
	}
	list("all", metav1.ListOptions{})
	first := list("three of them", metav1.ListOptions{Limit: 3})
	tr.done("delete one of the next", c.Delete(tr.ctx, "198.51.100.5", metav1.DeleteOptions{}))
	obj := address("198.51.100.9")
	obj.Labels = map[string]string{"list": "mine"}
	_, err := c.Create(tr.ctx, obj, creating())
	tr.done("create a later one", err)
	second := list("the next three, as they were", metav1.ListOptions{Limit: 3, Continue: first.Continue})
	list("the rest, as it was", metav1.ListOptions{Limit: 3, Continue: second.Continue})
	list("all of now", metav1.ListOptions{})
	list("a token that is none", metav1.ListOptions{Limit: 3, Continue: "none"})
	list("a token and a resourceVersion", metav1.ListOptions{Limit: 3, Continue: first.Continue, ResourceVersion: first.ResourceVersion})
	list("exactly as it was", metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	list("not older than that", metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	list("a match without a version", metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	list("a version that is none", metav1.ListOptions{ResourceVersion: "none"})
	one, err := c.List(tr.ctx, metav1.ListOptions{FieldSelector: "metadata.name=198.51.100.2"})
	tr.names("by name", one, err)
	tr.done("delete those with the label", c.DeleteCollection(tr.ctx, metav1.DeleteOptions{}, mine(metav1.ListOptions{})))
	list("none is left", metav1.ListOptions{})
}

// follow adds the events of a watch until one is of the object "end".
func (tr *transcript) follow(step string, o metav1.ListOptions, end string) {
	o.LabelSelector = "watch=mine"
	w, err := tr.ServiceCIDRs().Watch(tr.ctx, o)
	if err != nil {
		tr.say(step, "%s", errorKind(err))
		return
	}
	defer w.Stop()
	deadline := time.After(30 * time.Second) // reached only if an event is missing
	var events []string
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open {
				tr.say(step, "%v, and the watch ended", events)
				return
			}
			switch obj := e.Object.(type) {
			case *networkingv1.ServiceCIDR:
				text := string(e.Type) + " " + obj.Name
				if e.Type == watch.Bookmark {
					text = "BOOKMARK"
					if obj.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
						text += " of the initial events"
					}
				} else if obj.DeletionTimestamp != nil {
					text += " terminating"
				}
				if e.Type != watch.Bookmark || strings.Contains(text, "initial") {
					events = append(events, text)
				}
				if text == end {
					tr.say(step, "%v", events)
					return
				}
			case *metav1.Status:
				tr.say(step, "%v, then %d %s", events, obj.Code, obj.Reason)
				return
			}
		case <-deadline:
			tr.say(step, "%v, and no more came", events)
			return
		}
	}
}

func watches(tr *transcript) {
	c := tr.ServiceCIDRs()
	labelled := func(name, prefix string) *networkingv1.ServiceCIDR {
		obj := serviceCIDR(name, prefix)
		obj.Labels = map[string]string{"watch": "mine"}
		return obj
	}
	first, err := c.Create(tr.ctx, labelled("w1", "10.230.0.0/24"), creating())
	tr.done("create w1", err)
	tr.patch("keep w1", "w1", map[string]any{"finalizers": []string{informer.Finalizer}})
	_, err = c.Create(tr.ctx, labelled("w2", "10.231.0.0/24"), creating())
	tr.done("create w2", err)
	tr.done("delete w1", c.Delete(tr.ctx, "w1", metav1.DeleteOptions{}))
	tr.done("delete w2", c.Delete(tr.ctx, "w2", metav1.DeleteOptions{}))
	tr.patch("let w1 go", "w1", map[string]any{"$deleteFromPrimitiveList/finalizers": []string{informer.Finalizer}})
	unlabelled, err := c.Create(tr.ctx, labelled("w3", "10.232.0.0/24"), creating())
	tr.done("create w3", err)
	unlabelled.Labels = nil
	_, err = c.Update(tr.ctx, unlabelled, updating())
	tr.done("w3 leaves the selection", err)
	tr.patch("w3 comes back", "w3", map[string]any{"labels": map[string]string{"watch": "mine"}})
	_, err = c.Create(tr.ctx, labelled("w4", "10.233.0.0/24"), creating())
	tr.done("create w4", err)

	tr.follow("all since the first", metav1.ListOptions{ResourceVersion: first.ResourceVersion}, "ADDED w4")
	tr.follow("what there is, and on", metav1.ListOptions{}, "ADDED w4")
	tr.follow("a streaming list", metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}, "BOOKMARK of the initial events")
	tr.follow("a streaming list without a match", metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true}, "")
	tr.follow("from a version that is none", metav1.ListOptions{ResourceVersion: "none"}, "")
}

func services(tr *transcript) {
	c := tr.Services("default")
	service := func(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
		obj := &corev1.Service{ObjectMeta: named(name)}
		obj.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		obj.Spec.Type = corev1.ServiceTypeClusterIP
		change(&obj.Spec)
		return obj
	}
	noManagers := func(step string, obj *corev1.Service, err error) *corev1.Service {
		if err == nil {
			obj = obj.DeepCopy()
			obj.ManagedFields = nil // of fields that a server fills in
		}
		return outcome(tr, step, obj, err)
	}
	in := service("web", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.7.7"; s.ClusterIPs = []string{"10.96.7.7"} })
	obj, err := c.Create(tr.ctx, in, creating())
	noManagers("create", obj, err)
	_, err = c.Create(tr.ctx, in, creating())
	tr.done("create it again", err)
	update := func(step string, change func(*corev1.Service)) {
		in := obj.DeepCopy()
		change(in)
		got, err := c.Update(tr.ctx, in, updating())
		if noManagers(step, got, err); err == nil {
			obj = got
		}
	}
	update("update labels", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
	update("update with an old resourceVersion", func(s *corev1.Service) { s.ResourceVersion = "1" })
	update("update of the address", func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.7.8"; s.Spec.ClusterIPs = []string{"10.96.7.8"} })
	update("update that differs in the list", func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.7.8"} })
	update("turn ExternalName", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com", Ports: s.Spec.Ports}
	})
	update("turn back with another address", func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.7.9", ClusterIPs: []string{"10.96.7.9"}, Ports: s.Spec.Ports}
	})
	update("finalizer", func(s *corev1.Service) { s.Finalizers = []string{"example.com/keep"} })
	tr.done("delete with another UID", c.Delete(tr.ctx, "web", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}))
	tr.done("delete", c.Delete(tr.ctx, "web", metav1.DeleteOptions{}))
	got, err := c.Get(tr.ctx, "web", metav1.GetOptions{})
	if noManagers("get what is terminating", got, err); err == nil {
		obj = got
	}
	update("let it go", func(s *corev1.Service) { s.Finalizers = nil })
	_, err = c.Get(tr.ctx, "web", metav1.GetOptions{})
	tr.done("get what is gone", err)
	headless, err := c.Create(tr.ctx, service("headless", func(s *corev1.ServiceSpec) { s.ClusterIP = "None"; s.ClusterIPs = []string{"None"} }), creating())
	noManagers("create a headless one", headless, err)
	external, err := c.Create(tr.ctx, service("external", func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	}), creating())
	noManagers("create an ExternalName", external, err)
	_, err = c.Create(tr.ctx, service("Not_A_Name", func(s *corev1.ServiceSpec) {}), creating())
	tr.done("create with a bad name", err)
}

func leases(tr *transcript) {
	c := tr.Leases("default")
	lease := &coordinationv1.Lease{ObjectMeta: named("leader"), Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("a"), LeaseDurationSeconds: ptr.To(int32(15)), RenewTime: ptr.To(metav1.NewMicroTime(time.Unix(1000, 0)))}}
	bare := func(step string, obj *coordinationv1.Lease, err error) *coordinationv1.Lease {
		if err == nil {
			obj.ManagedFields = nil // simapi keeps none of Leases
		}
		return outcome(tr, step, obj, err)
	}
	obj, err := c.Create(tr.ctx, lease, creating())
	bare("create", obj, err)
	_, err = c.Create(tr.ctx, lease, creating())
	tr.done("create it again", err)
	in := obj.DeepCopy()
	in.Spec.HolderIdentity = ptr.To("b")
	got, err := c.Update(tr.ctx, in, updating())
	bare("update", got, err)
	_, err = c.Update(tr.ctx, in, updating())
	tr.done("update by the version before", err)
	in.ResourceVersion = ""
	_, err = c.Update(tr.ctx, in, updating())
	tr.done("update without a version", err)
	short := lease.DeepCopy()
	short.Name = "short"
	short.Spec.LeaseDurationSeconds = ptr.To(int32(0))
	_, err = c.Create(tr.ctx, short, creating())
	tr.done("create with no duration", err)
	tr.done("delete", c.Delete(tr.ctx, "leader", metav1.DeleteOptions{}))
	_, err = c.Get(tr.ctx, "leader", metav1.GetOptions{})
	tr.done("get what is gone", err)
}
