// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// plugin is the program that operators run.
type plugin struct {
	path       string
	kubeconfig string
	journal    string
}

func buildPlugin(t *testing.T, c *cluster) plugin {
	t.Helper()
	p := plugin{path: filepath.Join(t.TempDir(), "kubectl-service_cidr"), kubeconfig: c.Kubeconfig(), journal: filepath.Join(t.TempDir(), "journal")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.path, "./cmd/kubectl-service_cidr")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return p
}

// command is one call; its journals are the plugin's if it has any.
func (p plugin) command(ctx context.Context, args ...string) *exec.Cmd {
	switch args[0] {
	case "plan", "explain", "diff":
	default:
		args = append(args, "--journal="+p.journal)
	}
	if args[0] != "explain" {
		args = append(args, "--kubeconfig="+p.kubeconfig)
	}
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	return cmd
}

// run returns what a call says, and fails unless it ends with the exit code.
func (p plugin) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%v: exit code %d, want %d: %s", args, got, code, out)
	}
	return string(out)
}

func says(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// interrupted calls and sends SIGINT as soon as the call has said what is looked for.
func (p plugin) interrupted(t *testing.T, at string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := p.command(ctx, args...)
	watch := &watcher{for_: at, then: func() { _ = cmd.Process.Signal(syscall.SIGINT) }}
	cmd.Stdout, cmd.Stderr = watch, watch
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 4 {
		t.Fatalf("%v: want exit code 4, got %v: %s", args, err, watch.said.String())
	}
	return watch.said.String()
}

// watcher is both streams of one process, which exec then writes one at a time.
type watcher struct {
	said bytes.Buffer
	for_ string
	then func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.said.Write(p)
	if w.then != nil && strings.Contains(w.said.String(), w.for_) {
		w.then()
		w.then = nil
	}
	return len(p), nil
}

// The plugin as an operator uses it: plan, diff, dry runs, a canary, Ctrl-C in the middle, resume,
// verify, and all the way back.
func TestCommand_FromPlanToRollback(t *testing.T) {
	c := startQuick(t)
	p := buildPlugin(t, c)
	c.namespace(t, "web")
	c.sideRange(t, "side", "10.200.0.0/24")
	for i := range 40 {
		svc := plain(fmt.Sprintf("web-%d", i), nil)
		svc.Spec.ClusterIP = fmt.Sprintf("10.200.0.%d", 20+i)
		if i == 0 {
			svc.Labels["canary"] = "yes"
		}
		c.eventually(t, "creating "+svc.Name, func(ctx context.Context) error { return c.create(ctx, svc, false) })
	}
	originals := c.services(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")

	says(t, p.run(t, 0, "plan", "replace", "--from", "side", "--to", "10.201.0.0/24", "--map", "offset", "-f", file), "apply -f "+file)
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := renumber.ReadPlan(in)
	if err := errors.Join(err, in.Close()); err != nil {
		t.Fatal(err)
	}
	says(t, p.run(t, 0, "diff", "-f", file), "10.200.0.20", "10.201.0.20")
	says(t, p.run(t, 0, "apply", "-f", file, "--dry-run=client"), "web/web-0")
	says(t, p.run(t, 0, "apply", "-f", file, "--dry-run=server"), "stored none of them")
	says(t, p.run(t, 1, "status"), "no plan has been begun")
	says(t, p.run(t, 2, "apply", "-f", file), "give --yes")
	c.same(t, originals, renumber.InPlace, true)

	says(t, p.run(t, 4, "apply", "-f", file, "--yes", "--selector", "canary=yes"), "39 Services still to be moved", "resume "+plan.Name)
	if got := c.services(t)["web/web-0"].Spec.ClusterIP; got != "10.201.0.20" {
		t.Errorf("the canary has %s", got)
	}
	says(t, p.run(t, 3, "verify"), "web/web-1")
	says(t, p.run(t, 3, "apply", "-f", file, "--yes"), "resume "+plan.Name)

	says(t, p.interrupted(t, "web/web-15:", "resume", "--batch-size=5", "--qps=20"), "Nothing is lost", "resume "+plan.Name)
	says(t, p.run(t, 0, "status"), "stopped")
	p.run(t, 0, "resume")
	says(t, p.run(t, 0, "verify"), "Nothing is left")
	says(t, p.run(t, 0, "status"), "finished")
	says(t, p.run(t, 0, "history"), plan.Name, "Finished")
	says(t, p.run(t, 0, "history", plan.Name), "10.200.0.21 -> 10.201.0.21")
	c.same(t, originals, renumber.InPlace, true)

	// Either journal is enough.
	if err := os.RemoveAll(p.journal); err != nil {
		t.Fatal(err)
	}
	says(t, p.run(t, 2, "rollback", plan.Name), "give --yes")
	p.run(t, 0, "rollback", plan.Name, "--yes", "--max-in-flight=4")
	says(t, p.run(t, 0, "status"), "back-"+plan.Name, "finished")
	says(t, p.run(t, 1, "resume"), "no run can be resumed")
	for k, got := range c.services(t) {
		if got.Spec.ClusterIP != originals[k].Spec.ClusterIP {
			t.Errorf("Service %s has %s back, and had %s", k, got.Spec.ClusterIP, originals[k].Spec.ClusterIP)
		}
	}
	c.same(t, originals, renumber.InPlace, true)
	left, err := c.client.NetworkingV1().ServiceCIDRs().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(left.Items) != 2 {
		t.Errorf("ServiceCIDRs: %v", left.Items)
	}
}
