// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// patience is far beyond what any wait here takes; it ends a test that hangs.
const patience = time.Minute

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	// What servers that are made to fail say is no news.
	utilruntime.ErrorHandlers = nil
	os.Exit(m.Run())
}

// replica is a server in this process.
type replica struct {
	*Server
	config *rest.Config
	client kubernetes.Interface
	stop   func() error
}

// close ends the connections of the client.
func (r *replica) close() {
	if client, ok := r.client.CoreV1().RESTClient().(*rest.RESTClient); ok {
		client.Client.CloseIdleConnections()
	}
}

// startReplica runs a server until stop is called, or the test ends. stop may be called from another goroutine.
func startReplica(t testing.TB, o *Options) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := New(ctx, o)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r := &replica{Server: s}
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	r.config, err = clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	r.config.QPS = -1
	r.client = kubernetes.NewForConfigOrDie(r.config)
	eventually(t, "the server is ready", func(ctx context.Context) error {
		return r.client.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	return r
}

// testOptions are those of a server with its data in a folder of the test.
func testOptions(t testing.TB) *Options {
	o := NewOptions()
	o.DataDir, o.Port = t.TempDir(), 0
	o.ServiceClusterIPRange = "10.96.0.0/24,fd00:10:96::/112"
	return o
}

// eventually looks until there is no error.
func eventually(t testing.TB, what string, look func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := look(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, last)
		case <-tick.C:
		}
	}
}

// ready waits for a ServiceCIDR.
func (r *replica) ready(t *testing.T, name string) {
	t.Helper()
	eventually(t, "ServiceCIDR "+name+" is ready", func(ctx context.Context) error {
		s, err := r.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range s.Status.Conditions {
			if c.Status == metav1.ConditionTrue {
				return nil
			}
		}
		return errors.New("not ready")
	})
}
