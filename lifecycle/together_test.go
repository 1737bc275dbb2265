// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/defaultcidr"
	"github.com/metacidr/metacidr/lifecycle/repair"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// startAll runs all controllers as one replica, with the ranges of its flags.
func startAll(t *testing.T, server *simapi.Server, name string, ranges ...string) (stop func()) {
	t.Helper()
	client := server.Client(name)
	keep, err := servicecidr.New(servicecidr.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	boot, err := defaultcidr.New(defaultcidr.Config{Client: client, Ranges: ranges})
	if err != nil {
		t.Fatal(err)
	}
	mend, err := repair.New(repair.Config{Client: client, Owners: []repair.Registration{{Owners: repair.Services(client)}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(quiet())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{keep.Run, boot.Run, mend.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	return func() { cancel(); wg.Wait() }
}

// service stores a Service, and the IPAddresses of those addresses that are
// for it.
func service(t *testing.T, server *simapi.Server, name string, addresses ...string) {
	t.Helper()
	obj := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	obj.Spec.Type = corev1.ServiceTypeClusterIP
	obj.Spec.ClusterIP, obj.Spec.ClusterIPs = addresses[0], addresses
	if _, err := server.Client("admin").Services("default").Create(quiet(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func address(t *testing.T, server *simapi.Server, addr, service string) {
	t.Helper()
	family := "IPv4"
	if strings.Contains(addr, ":") {
		family = "IPv6"
	}
	if _, err := server.Client("admin").IPAddresses().Create(quiet(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: addr, Labels: map[string]string{
			informer.LabelManagedBy: informer.CoreManager, informer.LabelIPFamily: family,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("default", service).Reference()},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// state is every IPAddress as "address service uid", and every Service as
// "service addresses version".
func state(server *simapi.Server) []string {
	var lines []string
	for _, a := range server.TrueIPAddresses() {
		lines = append(lines, fmt.Sprintf("%s %s %s", a.Name, a.Spec.ParentRef.Name, a.UID))
	}
	for _, s := range server.TrueServices() {
		lines = append(lines, fmt.Sprintf("%s %v %s", s.Name, s.Spec.ClusterIPs, s.ResourceVersion))
	}
	return lines
}

// S36, the part of these controllers: a second family is added to the default
// ServiceCIDR, and the Services stay as they are, with the addresses they have.
func TestS36_AddedFamilyLeavesServicesAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		stop := startAll(t, server, "v4", "10.96.0.0/24")
		time.Sleep(time.Minute)
		service(t, server, "web", "10.96.0.7")
		address(t, server, "10.96.0.7", "web")
		before := state(server)
		stop()

		defer startAll(t, server, "dual", "10.96.0.0/24", "2001:db8::/112")()
		time.Sleep(time.Hour)
		if got := server.TrueServiceCIDRs()[0]; fmt.Sprint(got.Spec.CIDRs) != "[10.96.0.0/24 2001:db8::/112]" || informer.NewServiceCIDR(&got).WhyNot(true) != "" {
			t.Errorf("the default ServiceCIDR is %v", got)
		}
		if got := state(server); !slices.Equal(got, before) {
			t.Errorf("Services and addresses\n%s\nwere\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
		}
	})
}

// S59, the part of these controllers: whatever they find wrong, no Service is
// written to, and no address is taken from an owner that lives.
func TestS59_NoControllerMovesAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simapi.New()
		defer server.Close()
		server.CreateServiceCIDR("kubernetes", "", "10.96.0.0/24")
		server.CreateServiceCIDR("going", "", "10.97.0.0/24")
		server.AddFinalizer("going", informer.Finalizer)
		service(t, server, "right", "10.96.0.1")
		address(t, server, "10.96.0.1", "right")
		service(t, server, "going", "10.97.0.1")
		address(t, server, "10.97.0.1", "going")
		service(t, server, "outside", "10.98.0.1")
		address(t, server, "10.98.0.1", "outside")
		service(t, server, "first", "10.96.0.2")
		service(t, server, "second", "10.96.0.2") // a duplicate
		address(t, server, "10.96.0.2", "second")
		if err := server.Client("admin").ServiceCIDRs().Delete(quiet(), "going", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		before := state(server)
		// The flags do not agree with the default ServiceCIDR either.
		stop := startAll(t, server, "a", "10.200.0.0/24", "2001:db8::/112")
		time.Sleep(3 * time.Hour)
		stop()
		if got := state(server); !slices.Equal(got, before) {
			t.Errorf("Services and addresses\n%s\nwere\n%s", strings.Join(got, "\n"), strings.Join(before, "\n"))
		}
		for op, n := range server.Calls("a") {
			if !slices.Contains([]string{"get", "list", "watch"}, op.Verb) && !strings.HasPrefix(op.Resource, "servicecidrs") {
				t.Errorf("%s %s: %d times", op.Verb, op.Resource, n)
			}
		}
		if len(server.TrueServiceCIDRs()) != 2 {
			t.Error("a ServiceCIDR went, or came")
		}
	})
}
