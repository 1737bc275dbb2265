// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/e2e/controlplane"
	"github.com/metacidr/metacidr/informer"
)

// complaints are the reasons of the Events by which kube-apiserver tells of a clusterIP or an IPAddress that is
// not as it should be.
var complaints = []string{
	"ClusterIPNotValid", "ClusterIPOutOfRange", "ClusterIPNotAllocated", "ClusterIPAlreadyAllocated",
	"IPAddressNotAllocated", "IPAddressWrongReference", "UnknownError",
}

var (
	// repairStarted is logged by the repair loop at its start.
	repairStarted = regexp.MustCompile(`Starting ipallocator-repair-controller`)
	// repairLog is what the repair loop, and the errors that it hands on, say.
	repairLog = regexp.MustCompile(`repairip\.go|(?i)clusterip.*(repairing|recreate)|IPAddress.*cleaning up|unable to (allocate ClusterIP|refresh)`)
	// repairTalk is harmless.
	repairTalk = regexp.MustCompile(`Starting |Shutting down `)
	// ownHaste is what kube-apiserver says, while Services are created, of Services that it has just created
	// itself: its caches of Services and of IPAddresses do not advance together. After a restart, when nobody
	// works, it would be a complaint.
	ownHaste = regexp.MustCompile(`is not allocated; repairing`)
)

// repairLoop restarts kube-apiserver, whose repair loop then goes through all Services and IPAddresses before
// it is ready, and once more by its work queues.
func (m *many) repairLoop(t *testing.T) {
	ctx := t.Context()
	before, err := m.addresses(ctx, informer.DefaultManager)
	if err != nil {
		t.Fatal(err)
	}
	m.StopAPIServer(ctx)
	stopped, starts := time.Now(), len(m.GrepLogs(controlplane.APIServer, repairStarted))
	old := len(m.GrepLogs(controlplane.APIServer, repairLog))
	if err := m.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if now := len(m.GrepLogs(controlplane.APIServer, repairStarted)); now != starts+1 {
		t.Fatalf("the repair loop has logged %d starts, want %d: does this test still know its words?", now, starts+1)
	}
	for _, queue := range []string{"services", "ipaddresses"} {
		eventually(t, "the repair loop's queue "+queue+" is worked off", func(ctx context.Context) error {
			return m.queueIsEmpty(ctx, queue)
		})
	}

	for i, line := range m.GrepLogs(controlplane.APIServer, repairLog) {
		if !repairTalk.MatchString(line) && (i >= old || !ownHaste.MatchString(line)) {
			t.Errorf("kube-apiserver complains: %s", line)
		}
	}
	events, err := m.client.EventsV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		latest := e.EventTime.Time
		if e.Series != nil {
			latest = e.Series.LastObservedTime.Time
		}
		if slices.Contains(complaints, e.Reason) && (latest.After(stopped) || !ownHaste.MatchString(e.Note)) {
			t.Errorf("kube-apiserver complains of %s %s: %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
		}
	}
	after, err := m.addresses(ctx, informer.DefaultManager)
	if err != nil {
		t.Fatal(err)
	}
	for addr, obj := range before {
		if now := after[addr]; now == nil || now.UID != obj.UID || now.ResourceVersion != obj.ResourceVersion {
			t.Errorf("IPAddress %s of %s was changed: now %+v", addr, informer.OwnerOf(obj.Spec.ParentRef), now)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d IPAddresses of ours, want %d", len(after), len(before))
	}
	m.serverAgrees(t)
}

// queueIsEmpty reads in kube-apiserver's metrics that the work queue has got something and nothing of it is left.
func (c *cluster) queueIsEmpty(ctx context.Context, name string) error {
	var values [3]float64
	for i, metric := range []string{"workqueue_adds_total", "workqueue_depth", "workqueue_work_duration_seconds_count"} {
		value, err := c.metric(ctx, regexp.MustCompile(`^`+metric+`\{name="`+name+`"\} `))
		if err != nil {
			return err
		}
		values[i] = value
	}
	if added, waiting, done := values[0], values[1], values[2]; added == 0 || waiting > 0 || done < added {
		return fmt.Errorf("%.0f added, %.0f waiting, %.0f done", added, waiting, done)
	}
	return nil
}

// metric reads kube-apiserver's metrics and returns the sum of the lines that begin so.
func (c *cluster) metric(ctx context.Context, series *regexp.Regexp) (float64, error) {
	text, err := c.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	var sum float64
	found := false
	for line := range strings.Lines(string(text)) {
		if name := series.FindString(line); name != "" {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[len(name):]), 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+value, true
		}
	}
	if !found {
		return 0, fmt.Errorf("no metric %v", series)
	}
	return sum, nil
}
