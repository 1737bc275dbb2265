// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	root "github.com/metacidr/metacidr/lifecycle"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
)

// processEnv makes of the test binary a replica; it holds a processConfig.
const processEnv = "METACIDR_E2E_LIFECYCLE_REPLICA"

const (
	leaseNamespace = "kube-system"
	leaseName      = "metacidr-lifecycle"
)

// processConfig says what a replica's process does.
type processConfig struct {
	Kubeconfig  string
	Identity    string
	Elect       bool // compete for the Lease, or work at once
	GracePeriod time.Duration
}

// replicaMain is a process that runs the ServiceCIDR controller, as the leader if it is told so,
// until its standard input ends. So it does not outlive the test, whatever ends that.
func replicaMain(text string) int {
	var config processConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := runReplica(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runReplica(ctx context.Context, config processConfig) error {
	rest, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return err
	}
	rest.QPS = -1
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	recorder, stop, err := newRecorder(context.Background(), client)
	if err != nil {
		return err
	}
	defer stop()
	controller, err := servicecidr.New(servicecidr.Config{Client: client.NetworkingV1(), Recorder: recorder, GracePeriod: config.GracePeriod})
	if err != nil {
		return err
	}
	if !config.Elect {
		return controller.Run(ctx)
	}
	return root.Election{
		Client:    client.CoordinationV1(),
		Namespace: leaseNamespace,
		Name:      leaseName,
		Identity:  config.Identity,
		Duration:  3 * time.Second,
	}.Run(ctx, controller.Run)
}

// process is a replica that a test started.
type process struct {
	identity string
	cmd      *exec.Cmd
	stdin    io.Closer
	output   bytes.Buffer // to be read when it has ended
	end      sync.Once
}

// startProcess starts a replica. It is killed at the end of the test, unless it has ended.
func startProcess(t *testing.T, c *cluster, identity string, elect bool, grace time.Duration) *process {
	t.Helper()
	text, err := json.Marshal(processConfig{c.Kubeconfig(), identity, elect, grace})
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{identity: identity, cmd: exec.Command(binary)}
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("replica %s said:\n%s", p.identity, p.output.String())
		}
	})
	return p
}

// kill ends it with SIGKILL and waits.
func (p *process) kill() {
	p.end.Do(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
}

// quit lets it end in order, and fails the test if it does not.
func (p *process) quit(t *testing.T) {
	t.Helper()
	p.end.Do(func() {
		p.stdin.Close()
		killer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
		defer killer.Stop()
		if err := p.cmd.Wait(); err != nil {
			var status *exec.ExitError
			if errors.As(err, &status) {
				err = fmt.Errorf("%w: %s", err, p.output.String())
			}
			t.Errorf("replica %s: %v", p.identity, err)
		}
	})
}
