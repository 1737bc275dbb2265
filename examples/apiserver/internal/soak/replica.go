// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/metacidr/metacidr/examples/apiserver/internal/child"
)

const (
	// requestTimeout is how long a client waits for an answer.
	requestTimeout = 10 * time.Second
	// startTimeout is how long a replica may take until it is ready.
	startTimeout = 60 * time.Second
	// stopGrace is how long it may take to end by itself.
	stopGrace = 20 * time.Second
)

// replica is a metacidr-apiserver. It keeps its port, and so its clients, when it is started again. It is started and
// stopped by one goroutine.
type replica struct {
	name    string
	program string
	dir     string // data, keys, kubeconfig
	args    []string

	process *child.Process
	client  kubernetes.Interface
}

func newReplica(config Config, number int, etcd string) (*replica, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("replica-%d", number)
	r := &replica{name: name, program: config.Server, dir: filepath.Join(config.Dir, name)}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	r.args = append([]string{
		"--data-dir=" + r.dir,
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		"--service-cluster-ip-range=" + config.Ranges,
	}, config.ServerArgs...)
	return r, nil
}

// start starts the replica, and returns when it is ready, and how long that took.
func (r *replica) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	log, err := os.OpenFile(r.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close() // the child has its own
	r.process, err = child.Start(r.program, log, r.args...)
	if err != nil {
		return 0, err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		if state := r.process.State(); state != nil {
			return false, fmt.Errorf("it ended with %s", state)
		}
		if r.client == nil {
			if last = r.connect(); last != nil {
				return false, nil
			}
		}
		last = r.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		return last == nil, nil
	})
	if err != nil {
		r.process.Kill()
		return 0, fmt.Errorf("start %s: %w; the end of its log:\n%s", r.name, errors.Join(err, last), r.logTail())
	}
	return time.Since(began), nil
}

func (r *replica) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(r.dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1 // the server has its own limits
	config.Timeout = requestTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	r.client = client
	return nil
}

// kill ends the replica with SIGKILL.
func (r *replica) kill() { r.process.Kill() }

// stop lets it end in order.
func (r *replica) stop() error {
	if r.process == nil || r.process.State() != nil {
		return nil
	}
	if err := r.process.End(stopGrace); err != nil {
		return fmt.Errorf("stop %s: %w; the end of its log:\n%s", r.name, err, r.logTail())
	}
	return nil
}

func (r *replica) logPath() string { return filepath.Join(r.dir, "server.log") }

// logTail returns the last lines of the log.
func (r *replica) logTail() []byte {
	const lines = 20
	data, err := os.ReadFile(r.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.SplitAfter(data, []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], nil)
}

// freePort returns a port of 127.0.0.1 that is free at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("look for a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
