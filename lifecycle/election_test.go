// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestMain(m *testing.M) {
	// client-go waits between two errors by the time of the last one, which may
	// have been in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// diary notes who works when.
type diary struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *diary) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, want) {
		t.Errorf("diary %q, want %q", d.lines, want)
	}
}

// replica stands for election until stop; its work ends a second after its context.
func (d *diary) replica(server *simapi.Server, name string) (stop func() error) {
	ctx, cancel := context.WithCancel(quiet())
	done := make(chan error, 1)
	go func() {
		done <- Election{Client: server.Client(name), Namespace: "kube-system", Name: "lease", Identity: name}.
			Run(ctx, func(ctx context.Context) error {
				d.note("%s begins", name)
				<-ctx.Done()
				time.Sleep(time.Second)
				d.note("%s ends", name)
				return nil
			})
	}()
	return func() error { cancel(); return <-done }
}

func TestElection_OneAtATimeAndNoOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		var d diary
		stopA := d.replica(server, "a")
		time.Sleep(time.Minute)
		stopB := d.replica(server, "b")
		time.Sleep(time.Hour)
		d.want(t, "a begins")
		if err := stopA(); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second) // less than the Lease's time: it was given up
		d.want(t, "a begins", "a ends", "b begins")
		if err := stopB(); err != nil {
			t.Error(err)
		}
	})
}

func TestElection_ASilentLeaderStopsBeforeTheNextBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		var d diary
		stopA := d.replica(server, "a")
		time.Sleep(time.Minute)
		stopB := d.replica(server, "b")
		server.Fail(simapi.Fault{Replica: "a", Err: simapi.Unavailable(), Times: simapi.Forever})
		time.Sleep(time.Minute)
		d.want(t, "a begins", "a ends", "b begins")
		if err := stopA(); !errors.Is(err, ErrLeadershipLost) {
			t.Errorf("error %v", err)
		}
		if err := stopB(); err != nil {
			t.Error(err)
		}
	})
}

func TestElection_EndedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		var d diary
		stopA := d.replica(server, "a")
		time.Sleep(time.Minute)
		stopB := d.replica(server, "b")
		time.Sleep(time.Minute)
		if err := stopB(); err != nil {
			t.Error(err)
		}
		if err := stopA(); err != nil {
			t.Error(err)
		}
		d.want(t, "a begins", "a ends")
	})
}

func TestElection_WorkThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		broken := errors.New("broken")
		err := Election{Client: server.Client("a"), Namespace: "kube-system", Name: "lease", Identity: "a"}.
			Run(quiet(), func(context.Context) error { return broken })
		if !errors.Is(err, broken) || errors.Is(err, ErrLeadershipLost) {
			t.Errorf("error %v", err)
		}
	})
}

func TestElection_RefusesWhatCannotWork(t *testing.T) {
	client := simapi.New().Client("a")
	for want, e := range map[string]Election{
		"invalid election: Client is nil: give a clientset's CoordinationV1()":                    {},
		`invalid election: Namespace "", Name "x", Identity "a": set them all`:                    {Client: client, Name: "x", Identity: "a"},
		"invalid election: Duration 1s: give whole seconds, at least 3s, or leave it 0 for 15s":   {Client: client, Namespace: "n", Name: "x", Identity: "a", Duration: time.Second},
		"invalid election: Duration 3.5s: give whole seconds, at least 3s, or leave it 0 for 15s": {Client: client, Namespace: "n", Name: "x", Identity: "a", Duration: 3500 * time.Millisecond},
	} {
		err := e.Run(quiet(), nil)
		if !errors.Is(err, ErrInvalidElection) || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
