// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"

	corev1 "k8s.io/api/core/v1"
)

// recorder writes events of core/v1, which is what the server serves, for controllers that speak of events.k8s.io.
type recorder struct {
	client      kubernetes.Interface
	broadcaster record.EventBroadcaster
	inner       record.EventRecorder
}

var _ events.EventRecorder = &recorder{}

func newRecorder(client kubernetes.Interface) *recorder {
	b := record.NewBroadcaster()
	return &recorder{client: client, broadcaster: b, inner: b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})}
}

// start writes events until stop is called.
func (r *recorder) start() (stop func()) {
	watch := r.broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: r.client.CoreV1().Events("")})
	return func() { watch.Stop(); r.broadcaster.Shutdown() }
}

// Eventf records one; core/v1 has no place for a related object and an action.
func (r *recorder) Eventf(regarding, _ runtime.Object, eventType, reason, _, note string, args ...any) {
	r.inner.Eventf(regarding, eventType, reason, note, args...)
}
