// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// planFor writes a plan of the fake cluster and returns its file.
func planFor(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plan.yaml")
	code, _, stderr := callWith(fakeCluster("v1.37.2"), "plan", "replace", "--to", "10.112.0.0/16", "--name", name, "-f", file)
	if code != exitOK {
		t.Fatal(stderr)
	}
	return file
}

// edited is a plan that somebody has changed by hand.
func edited(t *testing.T, file, old, with string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(raw), old, with)
	if text == string(raw) {
		t.Fatalf("%q is not in the plan", old)
	}
	out := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(out, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// begun puts the journal of a plan into a folder, with a few entries.
func begun(t *testing.T, folder, file string, entries ...renumber.Entry) {
	t.Helper()
	plan, err := readPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	journal := renumber.NewFileJournal(filepath.Join(folder, plan.Name))
	if err := journal.Begin(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		entries[i].Seq, entries[i].Time = int64(i+1), metav1.NewMicroTime(time.Date(2027, 3, 1, 11, 0, i, 0, time.UTC))
	}
	if err := journal.Append(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever keeps a run from being begun is a sentence with the remedy; nothing is
// written to the cluster, and the exit code says so. Each is a golden file.
func TestGolden_RunRefused(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	file := planFor(t, "golden")
	second := planFor(t, "second")
	empty, one, two, undone := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	stopped := []renumber.Entry{{Type: renumber.StepBegun, Step: 1, Message: "create"}, {Type: renumber.Stopped, Step: 1, Message: "paused"}}
	begun(t, one, file, stopped...)
	begun(t, two, file, stopped...)
	begun(t, two, second, stopped...)
	begun(t, undone, file, append(stopped, renumber.Entry{Type: renumber.Undone, Message: "back-golden"})...)

	held := fakeCluster("v1.37.2")
	if err := held.Tracker().Add(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: renumber.LeaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("bastion:/var/journal"), LeaseDurationSeconds: ptr.To[int32](120),
			RenewTime: ptr.To(metav1.NewMicroTime(time.Date(2027, 3, 1, 11, 59, 30, 0, time.UTC)))},
	}); err != nil {
		t.Fatal(err)
	}
	another := fakeCluster("v1.37.2")
	if err := another.Tracker().Update(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "another"}}, ""); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock(filepath.Join(one, "golden"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()

	names := strings.NewReplacer(file, "plan.yaml", empty, "EMPTY", one, "ONE", two, "TWO", undone, "UNDONE")
	for name, test := range map[string]struct {
		client *fake.Clientset
		line   string
	}{
		"help-apply":    {nil, "apply --help"},
		"help-resume":   {nil, "resume --help"},
		"help-rollback": {nil, "rollback --help"},
		"help-status":   {nil, "status --help"},
		"help-pause":    {nil, "pause --help"},
		"help-verify":   {nil, "verify --help"},
		"help-history":  {nil, "history --help"},

		"apply-nothing":         {nil, "apply"},
		"apply-no-file":         {nil, "apply -f testdata/none.yaml"},
		"apply-no-plan":         {nil, "apply -f testdata/table.golden"},
		"apply-argument":        {nil, "apply plan.yaml"},
		"apply-dry-run":         {nil, "apply -f " + file + " --dry-run=maybe"},
		"apply-in-flight":       {nil, "apply -f " + file + " --max-in-flight=0"},
		"apply-selector":        {nil, "apply -f " + file + " --selector=!!"},
		"apply-edited":          {nil, "apply -f " + edited(t, file, "kind: CreateServiceCIDR", "kind: CreateEverything")},
		"apply-edited-strategy": {nil, "apply -f " + edited(t, file, "strategy: in-place", "strategy: fast")},
		"apply-other-cluster":   {another, "apply --yes -f " + file},
		"apply-forbidden":       {forbid(fakeCluster("v1.37.2"), "get", "namespaces"), "apply --yes -f " + file},
		"apply-secrets":         {forbid(fakeCluster("v1.37.2"), "list", "secrets"), "apply --yes -f " + file},
		"apply-old":             {fakeCluster("v1.31.4"), "apply --yes -f " + file},
		"apply-no-yes":          {fakeCluster("v1.37.2"), "apply --journal=" + empty + " -f " + file},
		"apply-held":            {held, "apply --yes --no-events --journal=" + empty + " -f " + file},
		"apply-begun":           {fakeCluster("v1.37.2"), "apply --yes --journal=" + one + " -f " + file},
		"apply-another-begun":   {fakeCluster("v1.37.2"), "apply --yes --journal=" + one + " -f " + second},
		"resume-none":           {fakeCluster("v1.37.2"), "resume --journal=" + empty},
		"resume-unknown":        {fakeCluster("v1.37.2"), "resume nothing --journal=" + one},
		"resume-several":        {fakeCluster("v1.37.2"), "resume --journal=" + two},
		"resume-two-names":      {nil, "resume one two"},
		"resume-undone":         {fakeCluster("v1.37.2"), "resume golden --journal=" + undone},
		"resume-locked":         {fakeCluster("v1.37.2"), "resume --no-events --journal=" + one},
		"resume-other-cluster":  {another, "resume golden --journal=" + one},
		"rollback-none":         {fakeCluster("v1.37.2"), "rollback --journal=" + empty},
		"rollback-several":      {fakeCluster("v1.37.2"), "rollback --journal=" + two},
		"rollback-undone":       {fakeCluster("v1.37.2"), "rollback --journal=" + undone},
		"rollback-no-yes":       {fakeCluster("v1.37.2"), "rollback --journal=" + one},
		"rollback-step":         {fakeCluster("v1.37.2"), "rollback --to-step=99 --journal=" + one},
		"status-none":           {fakeCluster("v1.37.2"), "status --journal=" + empty},
		"status-format":         {nil, "status -o wide"},
		"pause-none":            {fakeCluster("v1.37.2"), "pause"},
		"verify-none":           {fakeCluster("v1.37.2"), "verify --journal=" + empty},
		"verify-wrong-range":    {nil, "verify --range 10.96.0.0/33"},
		"verify-left":           {fakeCluster("v1.37.2"), "verify --range 10.96.0.0/16"},
		"history-unknown":       {fakeCluster("v1.37.2"), "history nothing --journal=" + one},
	} {
		t.Run(name, func(t *testing.T) {
			var client kubernetes.Interface
			if test.client != nil {
				client = test.client
			}
			code, stdout, stderr := callWith(client, strings.Fields(test.line)...)
			if strings.HasPrefix(name, "help-") != (code == exitOK) {
				t.Errorf("exit code %d", code)
			}
			line := names.Replace(test.line)
			if i := strings.Index(line, "-f /"); i >= 0 {
				line = line[:i] + "-f PLAN"
			}
			golden(t, name, line, code, names.Replace(stdout), hideFile(names.Replace(stderr)))
			if test.client == nil {
				return
			}
			for _, a := range test.client.Actions() {
				// resume takes a request to pause back before it sees that another process works here.
				if v := a.GetVerb(); v != "get" && v != "list" && a.GetResource().Resource != "selfsubjectaccessreviews" && (v != "patch" || a.GetResource().Resource != "leases") {
					t.Errorf("it wrote: %s %s", v, a.GetResource().Resource)
				}
			}
		})
	}
}

// hideFile leaves the name of a temporary file out.
func hideFile(text string) string {
	words := strings.Split(text, " ")
	for i, w := range words {
		if strings.HasPrefix(w, os.TempDir()) {
			words[i] = "PLAN" + w[strings.LastIndex(w, "plan.yaml")+len("plan.yaml"):]
		}
	}
	return strings.Join(words, " ")
}

// S58: without a cluster there is a sentence that says which flag or file to look at.
func TestRunWithoutACluster(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.URL
	server.Close()
	file := planFor(t, "golden")
	for _, line := range []string{"apply --yes -f " + file, "resume", "rollback", "status", "pause", "verify --range 10.96.0.0/16", "history"} {
		t.Run(strings.Fields(line)[0], func(t *testing.T) {
			code, stdout, stderr := callWith(nil, strings.Fields(line)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, "give --kubeconfig or set KUBECONFIG") {
				t.Errorf("no kubeconfig: exit code %d, %q, %q", code, stdout, stderr)
			}
			code, stdout, stderr = callWith(nil, strings.Fields(line+" --server="+address)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, "cannot be read") || !strings.Contains(stderr, "refused") {
				t.Errorf("unreachable: exit code %d, %q, %q", code, stdout, stderr)
			}
		})
	}
}
