// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func service(name string, addresses ...string) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	svc.Spec.ClusterIPs = addresses
	if len(addresses) > 0 {
		svc.Spec.ClusterIP = addresses[0]
	}
	return svc
}

func address(name, owner string) networkingv1.IPAddress {
	return networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: namespace, Name: owner}},
	}
}

// The last step's look finds a fault, and says which.
func TestOneToOne(t *testing.T) {
	s := stock{
		services:  []corev1.Service{service("blue", "10.96.0.3")},
		addresses: []networkingv1.IPAddress{address("10.96.0.3", "blue")},
		cidrs:     []networkingv1.ServiceCIDR{{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/28"}}}},
	}
	if err := s.oneToOne(); err != nil {
		t.Error(err)
	}
	s.addresses = append(s.addresses, address("10.96.0.4", "green"))
	if err := s.oneToOne(); err == nil || !strings.Contains(err.Error(), "10.96.0.4") {
		t.Errorf("of a leak it says: %v", err)
	}
}

func TestFreeDynamic(t *testing.T) {
	// A /24 has a static band of 16 addresses, .1 to .16; .255 is the broadcast address.
	prefix := netip.MustParsePrefix("10.97.0.0/24")
	taken := []networkingv1.IPAddress{address("10.97.0.16", "a"), address("10.97.0.17", "b"), address("10.98.0.1", "c")}
	if got := freeDynamic(prefix, taken); got != 254-16-1 {
		t.Errorf("%d free", got)
	}
}

func TestChart(t *testing.T) {
	var out bytes.Buffer
	newScreen(&out).chart([]bar{
		{label: "10.97.0.0/24", free: 238, drawn: 20, expected: 25},
		{label: "10.98.0.0/22", free: 958, drawn: 100, expected: 95},
	})
	want := "" +
		"RANGE          FREE   DRAWN   EXPECTED   █ drawn  ┃ expected\n" +
		"10.97.0.0/24   238    20      25.0       ████████··┃······························\n" +
		"10.98.0.0/22   958    100     95.0       " + strings.Repeat("█", 38) + "┃█·\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTable_AsKubectlShowsIt(t *testing.T) {
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "CIDRs"}, {Name: "Wide", Priority: 1}, {Name: "Age"}},
		Rows: []metav1.TableRow{
			{Cells: []any{"kubernetes", "10.96.0.0/28", "x", "5s"}}, {Cells: []any{"second", "10.97.0.0/24", "x", "1s"}}, {Cells: []any{"third", "", "", ""}},
		},
	}
	var out bytes.Buffer
	newScreen(&out).table(table, 2)
	want := "" +
		"NAME         CIDRS          AGE\n" +
		"kubernetes   10.96.0.0/28   5s\n" +
		"second       10.97.0.0/24   1s\n" +
		"... and 1 more\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefused(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out)
	s.refused(apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, "blue"))
	s.refused(errors.New("boom"))
	want := "Error from server (NotFound): services \"blue\" not found\nError from server: boom\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A closed pipe ends the walk: it does not go on unseen.
func TestScreen_KeepsItsFirstError(t *testing.T) {
	s := newScreen(failingWriter{})
	s.say("one")
	s.say("two")
	if !errors.Is(s.out.err, errClosed) {
		t.Errorf("the error is %v", s.out.err)
	}
}

var errClosed = errors.New("closed")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errClosed }

// A program that ends at once is reported with the end of its log, not waited for until the time is over.
func TestStart_TheServerEndsAtOnce(t *testing.T) {
	self, err := os.Executable() // which does not know the flags
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(self, t.TempDir())
	client, err := s.start(t.Context(), first.String())
	if !errors.Is(err, errNever) || !strings.Contains(err.Error(), "exit status 2") {
		t.Errorf("client %v, error %v", client, err)
	}
}
