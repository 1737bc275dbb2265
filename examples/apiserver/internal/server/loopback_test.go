// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lossy is between the allocator and the API: it has the n-th call about one IPAddress go wrong.
type lossy struct {
	mu    sync.Mutex
	kind  string
	left  int
	where string
}

const (
	refusedCall = "no connection" // the call was not made
	lostCall    = "answer lost"   // it was made, and the connection broke
	busyCall    = "503, not made" // the server says that it is busy
	hiddenCall  = "500, made all the same"
)

var errBroken = errors.New("connection broken")

func (l *lossy) arm(kind string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kind, l.left, l.where = kind, n, ""
}

func (l *lossy) disarm() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = 0
	return l.where
}

// strike counts a call, and says what becomes of it.
func (l *lossy) strike(r *http.Request) string {
	const collection = "/apis/networking.k8s.io/v1/ipaddresses"
	// Lists and watches are the view's.
	if !strings.HasPrefix(r.URL.Path, collection) || r.Method == http.MethodGet && r.URL.Path == collection {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left == 0 {
		return ""
	}
	if l.left--; l.left > 0 {
		return ""
	}
	l.where = r.Method
	return l.kind
}

func (l *lossy) wrap(inner http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		kind := l.strike(r)
		switch kind {
		case refusedCall:
			return nil, errBroken
		case busyCall:
			return answer(r, http.StatusServiceUnavailable), nil
		}
		response, err := inner.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		switch kind {
		case lostCall:
			return nil, errors.Join(errBroken, response.Body.Close())
		case hiddenCall:
			return answer(r, http.StatusInternalServerError), response.Body.Close()
		}
		return response, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(r *http.Request, code int) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil)), Request: r}
}

// Every call that the allocator makes goes wrong in every way; afterwards Services and IPAddresses are one to one, and the
// client's call has failed or done what it says.
func TestI9_EveryCallOfTheAllocatorGoesWrong(t *testing.T) {
	l := &lossy{}
	o := testOptions(t)
	o.LeakGrace = 300 * time.Millisecond
	o.wrapLoopback = l.wrap
	r := startReplica(t, o)
	r.ready(t, "kubernetes")
	services := r.client.CoreV1().Services(metav1.NamespaceDefault)
	n, hits := 0, 0
	for _, s := range steps() {
		for _, kind := range []string{refusedCall, lostCall, busyCall, hiddenCall} {
			for at := 1; ; at++ {
				n++
				name := fmt.Sprintf("l-%d", n)
				if s.before != nil {
					svc := s.before()
					svc.Name = name
					if _, err := services.Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				l.arm(kind, at)
				err := s.call(t.Context(), r.client, name)
				where := l.disarm()
				if where == "" && err != nil {
					t.Fatalf("%s, with nothing wrong: %v", s.name, err)
				}
				what := fmt.Sprintf("%s, call %d (%s), %s", s.name, at, where, kind)
				if s.name == "delete" && err != nil {
					t.Errorf("%s: %v: the Service is gone whatever becomes of its address", what, err)
				}
				eventually(t, what+": one to one", func(ctx context.Context) error { return oneToOne(ctx, r, "") })
				remove(t, r, name)
				if where == "" {
					break
				}
				hits++
			}
		}
	}
	t.Logf("%d calls went wrong", hits)
	if hits < 60 {
		t.Errorf("%d calls went wrong: the allocator makes more than that", hits)
	}
}
