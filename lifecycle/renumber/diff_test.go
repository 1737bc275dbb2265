// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDiff(t *testing.T) {
	const v4, v6 = "10.96.0.0/16", "fd00:96::/112"
	for name, test := range map[string]struct {
		world *builder
		req   Request
		key   string
		want  string
	}{
		"drawn": {shop(v4), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}}, "shop/cluster", `
--- Service shop/cluster
+++ Service shop/cluster (in-place)
@@ spec @@
-  clusterIP: 10.96.1.1
+  clusterIP: <drawn>
   clusterIPs:
-  - 10.96.1.1
+  - <drawn>
   ipFamilies:
   - IPv4
   ipFamilyPolicy: SingleStack
`},
		"recreated": {shop(v4), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}, Strategy: Recreate, Mapping: MapOffset}, "shop/node", `
--- Service shop/node
+++ Service shop/node (recreate)
@@ metadata @@
-  uid: uid-of-shop/node
+  uid: <new>
@@ spec @@
-  clusterIP: 10.96.1.2
+  clusterIP: 10.112.1.2
   clusterIPs:
-  - 10.96.1.2
+  - 10.112.1.2
   ipFamilies:
   - IPv4
   ipFamilyPolicy: SingleStack
`},
		"one family of two": {shop(v4, v6), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}}, "shop/dual", `
--- Service shop/dual
+++ Service shop/dual (in-place)
@@ spec @@
-  clusterIP: 10.96.1.4
+  clusterIP: <drawn>
   clusterIPs:
-  - 10.96.1.4
-  - fd00:96::14
+  - <drawn>
+  - fd00:96::14
   ipFamilies:
   - IPv4
   - IPv6
   ipFamilyPolicy: RequireDualStack
`},
		"a second family": {shop(v4), Request{Playbook: AddFamily, To: []string{v6}}, "shop/cluster", `
--- Service shop/cluster
+++ Service shop/cluster (in-place)
@@ spec @@
   clusterIP: 10.96.1.1
   clusterIPs:
   - 10.96.1.1
+  - <drawn>
   ipFamilies:
   - IPv4
+  - IPv6
-  ipFamilyPolicy: SingleStack
+  ipFamilyPolicy: PreferDualStack
`},
		"headless": {shop(v4, v6), Request{Playbook: DropFamily, Family: corev1.IPv4Protocol}, "shop/headless", `
--- Service shop/headless
+++ Service shop/headless (in-place)
@@ spec @@
   clusterIP: None
   clusterIPs:
   - None
   ipFamilies:
-  - IPv4
-  - IPv6
+  - IPv6
   ipFamilyPolicy: SingleStack
`},
		"the API server's": {shop(v4), Request{Playbook: Replace, To: []string{"10.112.0.0/16"}}, "default/kubernetes", `
--- Service default/kubernetes
+++ Service default/kubernetes (in-place)
@@ spec @@
-  clusterIP: 10.96.0.1
+  clusterIP: 10.112.0.1
   clusterIPs:
-  - 10.96.0.1
+  - 10.112.0.1
   ipFamilies:
   - IPv4
   ipFamilyPolicy: SingleStack
`},
		"what stays is not there": {shop(v4), Request{Playbook: Expand, To: []string{"10.96.0.0/12"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Diff(&out, mustMake(t, test.world, test.req), test.world.Services); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if test.key != "" {
				got = ""
				for _, part := range strings.SplitAfter("\n"+out.String(), "\n--- ") {
					if strings.HasPrefix(part, "Service "+test.key+"\n") {
						got = "\n--- " + strings.TrimSuffix(part, "--- ")
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, out.String())
			}
		})
	}
}

func TestDiff_OfAServiceThatIsGone(t *testing.T) {
	b := small()
	p := mustMake(t, b, *replaceBy("10.112.0.0/16"))
	b.without("shop/web")
	var out bytes.Buffer
	if err := Diff(&out, p, b.Services); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "--- Service shop/web\n+++ it is gone: nothing will be done\n") {
		t.Error(out.String())
	}
}

var errFull = errors.New("disk full")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

func TestDiff_TellsWhatItCouldNotWrite(t *testing.T) {
	b := small()
	if err := Diff(fullDisk{}, mustMake(t, b, *replaceBy("10.112.0.0/16")), b.Services); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
