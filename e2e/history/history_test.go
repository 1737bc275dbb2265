// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHistory_KnowsEveryMoment(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	client := server.Client("somebody")
	server.CreateServiceCIDR("before", metav1.ConditionTrue, "10.0.0.0/24")
	h := Record(t, server.Client("history"))
	defer h.Stop()

	addr := netip.MustParseAddr("10.0.0.7")
	if _, err := client.IPAddresses().Create(t.Context(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr.String()},
		Spec:       networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("default", "web").Reference()},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.ServiceCIDRs().Delete(t.Context(), "before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.CreateServiceCIDR("after", metav1.ConditionTrue, "10.0.0.0/16")
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return h.UpToDate(ctx) == nil, nil
	}); err != nil {
		t.Fatal(h.UpToDate(t.Context()))
	}

	var last uint64
	covered := []bool{}
	end := Replay(h.Events(), func(e Event, w World) {
		if e.Revision < last {
			t.Errorf("revision %d after %d", e.Revision, last)
		}
		last = e.Revision
		if _, there := w.Addresses[addr]; there && (len(covered) == 0 || covered[len(covered)-1] != w.Covers(addr)) {
			covered = append(covered, w.Covers(addr))
		}
	})
	if len(covered) != 3 || !covered[0] || covered[1] || !covered[2] {
		t.Errorf("covered %v, want it to be, then not to be, then to be", covered)
	}
	if len(end.CIDRs) != 1 || end.CIDRs["after"] == nil || len(end.Addresses) != 1 {
		t.Errorf("in the end %v", end)
	}
	if last != server.Revision() {
		t.Errorf("it ends at revision %d, the server is at %d", last, server.Revision())
	}
}

func TestUpToDate_SaysWhatIsLacking(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	h := Record(t, server.Client("history"))
	defer h.Stop()
	server.Hold("history")
	server.CreateServiceCIDR("a", "", "10.0.0.0/24")
	if err := h.UpToDate(t.Context()); err == nil || err.Error() != "it has 0 of 0 IPAddresses, 0 of 1 ServiceCIDRs" {
		t.Errorf("error %v", err)
	}
}
