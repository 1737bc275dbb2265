// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/metacidr/metacidr/examples/apiserver/internal/child"
)

// server is a metacidr-apiserver as a child process. It is used by one goroutine at a time.
type server struct {
	path string // of the program
	dir  string // its data, keys, kubeconfig and log
	run  *child.Process
}

// stopGrace is how long the server may take to end by itself.
const stopGrace = 15 * time.Second

func newServer(path, dir string) *server { return &server{path: path, dir: dir} }

func (s *server) kubeconfig() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// start starts the server with the given ranges, and returns a client when it is ready.
func (s *server) start(ctx context.Context, ranges string) (kubernetes.Interface, error) {
	// A kubeconfig of an earlier run names its port.
	if err := os.Remove(s.kubeconfig()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	s.run, err = child.Start(s.path, log, "--data-dir="+s.dir, "--bind-address=127.0.0.1", "--secure-port=0", "--service-cluster-ip-range="+ranges)
	if err != nil {
		return nil, err
	}
	var client kubernetes.Interface
	err = eventually(ctx, "until the server is ready", func(ctx context.Context) error {
		select {
		case <-s.run.Done():
			return fmt.Errorf("%w: it ended: %v", errNever, s.run.State())
		default:
		}
		if client == nil {
			config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig())
			if err != nil {
				return err
			}
			config.QPS = -1 // the server has its own limits
			if client, err = kubernetes.NewForConfig(config); err != nil {
				return err
			}
		}
		return client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	if err != nil {
		_ = s.stop() // how it ended is in the log
		return nil, fmt.Errorf("%w; the end of its log:\n%s", err, s.logTail())
	}
	return client, nil
}

// stop asks the server to end, and waits for that. It does nothing if the server does not run.
func (s *server) stop() error {
	if s.run == nil {
		return nil
	}
	run := s.run
	s.run = nil
	if err := run.End(stopGrace); err != nil {
		return fmt.Errorf("stop metacidr-apiserver: %w; the end of its log:\n%s", err, s.logTail())
	}
	return nil
}

func (s *server) logPath() string { return filepath.Join(s.dir, "server.log") }

// logTail returns the last lines of the log.
func (s *server) logTail() []byte {
	const lines = 20
	data, err := os.ReadFile(s.logPath())
	if err != nil {
		return []byte(err.Error())
	}
	all := bytes.SplitAfter(data, []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], nil)
}
