// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	discoveryfake "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// fakeCluster is one with a few Services of several classes. It is only read, for
// which client-go's fake will do.
func fakeCluster(serverVersion string) *fake.Clientset {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "0a1b2c3d"}},
		&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", UID: "cidr"},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}},
			Status:     networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue}}},
		},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.0.0/24"}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubelet-config"},
			Data: map[string]string{"kubelet": "clusterDNS:\n- 10.96.0.10\n"}},
	}
	service := func(key, address string, kind corev1.ServiceType, change func(*corev1.Service)) {
		namespace, name, _ := strings.Cut(key, "/")
		svc := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
			Spec: corev1.ServiceSpec{Type: kind, ClusterIP: address, ClusterIPs: []string{address}, Selector: map[string]string{"app": name},
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack)},
		}
		if change != nil {
			change(svc)
		}
		objects = append(objects, svc)
		if address != "" && address != corev1.ClusterIPNone {
			objects = append(objects, &networkingv1.IPAddress{
				ObjectMeta: metav1.ObjectMeta{Name: address, Labels: map[string]string{informer.LabelManagedBy: informer.CoreManager}},
				Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: name}},
			})
		}
	}
	service("default/kubernetes", "10.96.0.1", corev1.ServiceTypeClusterIP, nil)
	service("kube-system/kube-dns", "10.96.0.10", corev1.ServiceTypeClusterIP, nil)
	service("shop/web", "10.96.3.7", corev1.ServiceTypeClusterIP, nil)
	service("shop/db", corev1.ClusterIPNone, corev1.ServiceTypeClusterIP, nil)
	service("shop/fixed", "10.96.0.77", corev1.ServiceTypeNodePort, func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"clusterIP":"10.96.0.77"}}`}
	})
	service("shop/mail", "", corev1.ServiceTypeExternalName, func(s *corev1.Service) {
		s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "mail.example.org"}
	})
	client := fake.NewClientset(objects...)
	client.Discovery().(*discoveryfake.FakeDiscovery).FakedServerVersion = &version.Info{GitVersion: serverVersion}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		r := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		r.Status.Allowed = true
		return true, r, nil
	})
	return client
}

func withLoadBalancer(client *fake.Clientset) *fake.Clientset {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "front", UID: "uid-front"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.9.9", ClusterIPs: []string{"10.96.9.9"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
	}
	if err := client.Tracker().Add(svc); err != nil {
		panic(err)
	}
	return client
}

func forbid(client *fake.Clientset, verb, resource string) *fake.Clientset {
	client.PrependReactor(verb, resource, func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", nil)
	})
	return client
}

func callWith(client kubernetes.Interface, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	d := realDeps(streams{&out, &err})
	if client != nil {
		d.client = func(*clientFlags) (kubernetes.Interface, error) { return client, nil }
	}
	d.clock = testingclock.NewFakeClock(time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC))
	d.rand = func() rand.Source { return rand.NewPCG(1, 2) }
	code = runWith(args, d)
	return code, out.String(), err.String()
}

func TestGolden_Plan(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if code, _, stderr := callWith(fakeCluster("v1.37.2"), "plan", "replace", "--to", "10.112.0.0/16", "--name", "golden", "-f", plan); code != exitOK {
		t.Fatal(stderr)
	}
	other := fakeCluster("v1.37.2")
	if err := other.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "another"}}, ""); err != nil {
		t.Fatal(err)
	}
	changed := fakeCluster("v1.37.2")
	if err := changed.CoreV1().Services("shop").Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		client *fake.Clientset
		line   string
	}{
		"help-plan":         {nil, "plan --help"},
		"help-diff":         {nil, "diff --help"},
		"plan":              {fakeCluster("v1.37.2"), "plan replace --to 10.112.0.0/16"},
		"plan-named":        {fakeCluster("v1.37.2"), "plan replace --to 10.112.0.0/16 --context prod --map offset --name move-1"},
		"plan-yaml":         {fakeCluster("v1.37.2"), "plan shrink --to 10.96.0.0/20 --name small -o yaml"},
		"plan-blocked":      {withLoadBalancer(fakeCluster("v1.37.2")), "plan replace --to 10.244.0.0/16"},
		"plan-accepted":     {withLoadBalancer(fakeCluster("v1.37.2")), "plan replace --to 10.244.0.0/16 --accept OverlapsPods --load-balancers"},
		"plan-too-small":    {fakeCluster("v1.37.2"), "plan replace --to 10.112.0.0/30"},
		"plan-k3s":          {fakeCluster("v1.37.2+k3s1"), "plan replace --to 10.112.0.0/16"},
		"plan-add-family":   {fakeCluster("v1.37.2"), "plan add-family --to fd00:10:96::/112"},
		"plan-nothing":      {nil, "plan"},
		"plan-two":          {nil, "plan replace shrink"},
		"plan-unknown":      {nil, "plan renumber"},
		"plan-strategy":     {nil, "plan replace --to 10.112.0.0/16 --strategy fast"},
		"plan-map":          {nil, "plan replace --to 10.112.0.0/16 --map hash"},
		"plan-format":       {nil, "plan replace --to 10.112.0.0/16 -o wide"},
		"plan-family":       {nil, "plan drop-family --family v4"},
		"plan-wrong-range":  {nil, "plan replace --to 10.112.0.0/33"},
		"plan-unaligned":    {nil, "plan replace --to 10.96.10.10/20"},
		"plan-unknown-flag": {nil, "plan replace --force"},
		"plan-no-range":     {fakeCluster("v1.37.2"), "plan replace"},
		"plan-same-range":   {fakeCluster("v1.37.2"), "plan replace --to 10.96.0.0/16"},
		"plan-wrong-family": {fakeCluster("v1.37.2"), "plan replace --to fd00:10:96::/112"},
		"plan-no-such-cidr": {fakeCluster("v1.37.2"), "plan drain --from extra"},
		"plan-accept":       {fakeCluster("v1.37.2"), "plan replace --to 10.112.0.0/16 --accept Everything"},
		"plan-accept-not":   {fakeCluster("v1.37.2"), "plan replace --to 10.112.0.0/16 --accept TargetTooSmall"},
		"plan-old":          {fakeCluster("v1.31.4"), "plan replace --to 10.112.0.0/16"},
		"plan-forbidden":    {forbid(fakeCluster("v1.37.2"), "list", "services"), "plan replace --to 10.112.0.0/16"},
		"plan-map-file":     {nil, "plan replace --to 10.112.0.0/16 --map-file testdata/none.yaml"},
		"diff":              {fakeCluster("v1.37.2"), "diff -f " + plan},
		"diff-changed":      {changed, "diff -f " + plan},
		"diff-other":        {other, "diff -f " + plan},
		"diff-nothing":      {nil, "diff"},
		"diff-no-file":      {nil, "diff -f testdata/none.yaml"},
		"diff-no-plan":      {nil, "diff -f testdata/table.golden"},
	} {
		t.Run(name, func(t *testing.T) {
			var client kubernetes.Interface
			if test.client != nil {
				client = test.client
			}
			code, stdout, stderr := callWith(client, strings.Fields(test.line)...)
			if code != exitOK && code != exitBlocked && stdout != "" {
				t.Errorf("exit code %d, and on standard output: %s", code, stdout)
			}
			golden(t, name, strings.ReplaceAll(test.line, plan, "plan.yaml"), code, stdout, strings.ReplaceAll(stderr, plan, "plan.yaml"))
			if test.client != nil {
				onlyReads(t, test.client)
			}
		})
	}
}

// onlyReads: nothing but questions goes to the cluster.
func onlyReads(t *testing.T, client *fake.Clientset) {
	t.Helper()
	for _, a := range client.Actions() {
		switch {
		case a.GetVerb() == "get", a.GetVerb() == "list":
		case a.GetVerb() == "create" && a.GetResource().Resource == "selfsubjectaccessreviews":
		case a.GetVerb() == "delete" && t.Name() == "TestGolden_Plan/diff-changed":
			// The test's own.
		default:
			t.Errorf("it wrote: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// S57: the plan can be read by programs, and the file is the plan.
func TestS57_ThePlanIsMachineReadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.yaml")
	code, stdout, stderr := callWith(fakeCluster("v1.37.2"), "plan", "replace", "--to", "10.112.0.0/16", "-o", "json", "-f", file)
	if code != exitOK || stderr != "" {
		t.Fatal(code, stderr)
	}
	var printed renumber.Plan
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil {
		t.Fatal(err)
	}
	written, err := readPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&printed, written); diff != "" {
		t.Errorf("(-printed +written):\n%s", diff)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v", info.Mode())
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the plan: %v, %v", entries, err)
	}
}

func TestPlan_MapFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "map.yaml")
	for name, test := range map[string]struct {
		content, want string
		code          int
	}{
		"one address":  {"shop/web: 10.112.9.9\n", "10.112.9.9", exitOK},
		"a list":       {"shop/web: [10.112.9.9]\n", "10.112.9.9", exitOK},
		"outside":      {"shop/web: 10.113.9.9\n", "addresses of shop/web: 10.113.9.9 is not usable in 10.112.0.0/16", exitFailed},
		"twice":        {"shop/web: 10.112.9.9\nshop/fixed: 10.112.9.9\n", "10.112.9.9 is taken", exitFailed},
		"no Service":   {"shop/wub: 10.112.9.9\n", "there is no such Service", exitFailed},
		"headless":     {"shop/db: 10.112.9.9\n", "it gets no other address", exitFailed},
		"a number":     {"shop/web: 7\n", "7 is no address", exitFailed},
		"same key":     {"shop/web: 10.112.9.9\nshop/web: 10.112.9.8\n", "already set in map", exitFailed},
		"first":        {"shop/web: 10.112.0.1\n", "10.112.0.1 is taken", exitFailed},
		"wrong family": {"shop/web: fd00::7\n", "fd00::7 is IPv6", exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := callWith(fakeCluster("v1.37.2"), "plan", "replace", "--to", "10.112.0.0/16", "--map-file", file)
			if code != test.code || !strings.Contains(stdout+stderr, test.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, test.code, test.want, stdout, stderr)
			}
		})
	}
}

// A user without permissions plans all the same, and reads what is missing.
func TestPlan_WithoutPermissions(t *testing.T) {
	client := fakeCluster("v1.37.2")
	for _, resource := range []string{"nodes", "networkpolicies", "validatingwebhookconfigurations", "leases", "configmaps"} {
		forbid(client, "*", resource)
	}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a kubetesting.Action) (bool, runtime.Object, error) {
		r := a.(kubetesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
		r.Status.Allowed = r.Spec.ResourceAttributes != nil && r.Spec.ResourceAttributes.Verb == "list"
		return true, r, nil
	})
	code, stdout, stderr := callWith(client, "plan", "replace", "--to", "10.112.0.0/16")
	for _, want := range []string{"PermissionMissing", "update services/status", "NodesNotChecked", "NotChecked  networkpolicies"} {
		if code != exitBlocked || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, without %q: %s%s", code, want, stdout, stderr)
		}
	}
	if code, stdout, _ := callWith(client, "plan", "replace", "--to", "10.112.0.0/16", "--accept", "PermissionMissing,NodesNotChecked"); code != exitOK {
		t.Errorf("accepted, and exit code %d: %s", code, stdout)
	}
}

// What goes wrong on the way to the cluster is a sentence that names the remedy.
func TestPlan_ClusterOutOfReach(t *testing.T) {
	refusing := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401,"message":"Unauthorized"}`))
	}))
	defer refusing.Close()
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubeconfig := func(name, server string) string {
		return write(name, `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "`+server+`", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret-token}}]
`)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	t.Setenv("HOME", dir)
	for name, test := range map[string]struct {
		args string
		want []string
	}{
		"no kubeconfig":      {"", []string{"no kubeconfig", "--kubeconfig", "KUBECONFIG"}},
		"missing kubeconfig": {"--kubeconfig " + filepath.Join(dir, "nowhere"), []string{"nowhere", "--kubeconfig"}},
		"broken kubeconfig":  {"--kubeconfig " + write("broken", "{"), []string{"the kubeconfig cannot be used"}},
		"no such context":    {"--kubeconfig " + kubeconfig("ok", refusing.URL) + " --context prod", []string{"prod", "--context"}},
		"unreachable":        {"--kubeconfig " + kubeconfig("closed", "https://127.0.0.1:1"), []string{"no answer from the API server", "is the cluster up"}},
		"unauthorized":       {"--kubeconfig " + kubeconfig("ok", refusing.URL), []string{"asked for the client to provide credentials", "renew them"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := callWith(nil, append([]string{"plan", "replace", "--to", "10.112.0.0/16"}, strings.Fields(test.args)...)...)
			if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || strings.Contains(stderr, "secret-token") {
				t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("without %q: %s", want, stderr)
				}
			}
		})
	}
}

func TestPlan_Completions(t *testing.T) {
	for line, want := range map[string]string{
		"plan ":                     "migrate-family",
		"plan replace --strategy ":  "recreate",
		"plan replace --map ":       "offset",
		"plan replace --accept Ove": "OverlapsPods",
		"plan drain --from ":        "kubernetes\t10.96.0.0/16",
		"plan drop-family --family": "--family",
		"diff --":                   "--filename",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if code, stdout, stderr := callWith(fakeCluster("v1.37.2"), args...); code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%q: exit code %d, without %q: %s%s", line, code, want, stdout, stderr)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"plan.yaml": "plan.yaml", "": "''", "my plan": "'my plan'", "it's": `'it'\''s'`} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
