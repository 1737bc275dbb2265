// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/defaultcidr"
)

// TestDefaultServiceCIDR runs package defaultcidr beside kube-apiserver's own keeper of ServiceCIDR kubernetes,
// and on a ServiceCIDR that is its own alone.
func TestDefaultServiceCIDR(t *testing.T) {
	t.Parallel()
	const v4, v6 = "10.96.0.0/16", "fd00:10:96::/108"
	c := startCluster(t, v4+","+v6)
	runOurs(t, c)
	c.waitReady(t, defaultcidr.DefaultName)
	recorder := c.recorder(t)
	newController := func(t *testing.T, name string, ranges ...string) *defaultcidr.Controller {
		t.Helper()
		controller, err := defaultcidr.New(defaultcidr.Config{
			Client: c.client.NetworkingV1(), Name: name, Ranges: ranges, Recorder: recorder, Interval: time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		return controller
	}

	t.Run("kubernetes is found as kube-apiserver made it, and left", func(t *testing.T) {
		before := c.get(t, defaultcidr.DefaultName)
		for _, want := range []struct {
			kind   defaultcidr.Kind
			ranges []string
		}{
			{defaultcidr.Consistent, []string{v4, v6}},
			{defaultcidr.Mismatch, []string{"10.112.0.0/16", v6}},
			{defaultcidr.Mismatch, []string{"10.112.0.0/16"}},
			{defaultcidr.Mismatch, []string{"10.96.0.0/17", v6}},
			{defaultcidr.Downgrade, []string{v4}},
			{defaultcidr.Swapped, []string{v6, v4}},
		} {
			finding, err := newController(t, "", want.ranges...).Sync(klog.NewContext(t.Context(), logr.Discard()))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("configured %v: %s: %s", want.ranges, finding.Kind, finding)
			if finding.Kind != want.kind || finding.UID != before.UID {
				t.Errorf("configured %v: %+v; want %s of %s", want.ranges, finding, want.kind, before.UID)
			}
			if ok := want.kind == defaultcidr.Consistent; finding.Kind.AsConfigured() != ok || (finding.Remedy == "") != ok {
				t.Errorf("configured %v: %+v; want a remedy unless it is as configured", want.ranges, finding)
			}
		}
		controller := newController(t, "", v4, v6)
		background(t, "defaultcidr", controller.Run)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := controller.WaitConsistent(ctx); err != nil {
			t.Error(err)
		}
		if after := c.get(t, defaultcidr.DefaultName); after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
			t.Errorf("it was changed: %+v", after)
		}
		event := c.waitEvent(t, "ServiceCIDR", defaultcidr.DefaultName, defaultcidr.ReasonInconsistent)
		if event.Type != "Warning" || event.Regarding.UID != before.UID || !strings.Contains(event.Note, v4) {
			t.Errorf("event %s on %s: %s; want a warning that names %s", event.Type, event.Regarding.UID, event.Note, v4)
		}
	})

	t.Run("one that kube-apiserver does not know is made, extended, and made again", func(t *testing.T) {
		const name, mine4, mine6 = "metacidr", "10.130.0.0/24", "fd00:130::/112"
		sync := func(want defaultcidr.Kind, ranges ...string) {
			t.Helper()
			finding, err := newController(t, name, ranges...).Sync(klog.NewContext(t.Context(), logr.Discard()))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("configured %v: %s: %s", ranges, finding.Kind, finding)
			if finding.Kind != want {
				t.Fatalf("configured %v: %+v; want %s", ranges, finding, want)
			}
		}
		sync(defaultcidr.Created, mine4)
		if obj := c.get(t, name); !slices.Equal(obj.Finalizers, []string{informer.Finalizer}) {
			t.Errorf("finalizers %v; want it protected from the first moment on", obj.Finalizers)
		}
		c.waitReady(t, name)
		sync(defaultcidr.Consistent, mine4)
		sync(defaultcidr.Extended, mine4, mine6)
		sync(defaultcidr.Consistent, mine4, mine6)
		sync(defaultcidr.Downgrade, mine4)
		if got := c.get(t, name).Spec.CIDRs; !slices.Equal(got, []string{mine4, mine6}) {
			t.Errorf("it has %v", got)
		}

		c.placeService(t, "in-it", "10.130.0.9")
		old := c.get(t, name)
		c.delete(t, name)
		c.waitBlocked(t, name, "10.130.0.9 (services/default/in-it)")
		sync(defaultcidr.Terminating, mine4, mine6)
		c.deleteServices(t, "in-it")

		// Its Run makes it again as soon as it is gone.
		controller := newController(t, name, mine4, mine6)
		background(t, "defaultcidr", controller.Run)
		eventually(t, "it is made again, and ready", func(ctx context.Context) error {
			obj, err := c.client.NetworkingV1().ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if ready := readyOf(obj); obj.UID == old.UID || ready == nil || ready.Status != metav1.ConditionTrue {
				return fmt.Errorf("UID %s, the old one's was %s; Ready %+v", obj.UID, old.UID, ready)
			}
			return nil
		})
	})
}
