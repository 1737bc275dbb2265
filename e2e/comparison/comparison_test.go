// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// plays is how often a scenario is played at most. kube-apiserver does not always do the same: when a Service takes an
// address by an update, its repair loop may see the IPAddress before the Service, and deletes it. A difference counts if
// it is there in every play. Our server has no such excuse: it has to do the same in each.
const plays = 4

// Each scenario comes out the same on both servers, but for the differences that are listed.
func TestSameOutcomes(t *testing.T) {
	met := map[int]int{} // how often each listed difference was
	program := buildOurs(t)
	for _, group := range []struct {
		ranges    string
		scenarios []scenario
	}{
		{"10.96.0.0/16", alone},
		{"10.96.0.0/16,fd00:10:96::/108", dual},
	} {
		t.Run(group.ranges, func(t *testing.T) {
			kube, ours := startServers(t, program, group.ranges)
			for i, sc := range group.scenarios {
				t.Run(sc.name, func(t *testing.T) {
					both := pair{kube: kube, ours: ours, scenario: sc, namespace: fmt.Sprintf("scenario-%d", i)}
					for _, d := range both.differences(t) {
						at := slices.IndexFunc(differences, func(known difference) bool { return known.covers(d) })
						if at < 0 {
							t.Errorf("not listed: %+v", d)
							continue
						}
						met[at]++
					}
				})
			}
		})
	}
	if t.Failed() {
		return // a scenario that did not run to its end leaves listed differences unseen
	}
	for i, d := range differences {
		if met[i] == 0 && !d.race {
			t.Errorf("this difference is listed and no longer there: %+v", d)
		}
	}
}

// pair is a scenario on both servers.
type pair struct {
	kube, ours kubernetes.Interface
	scenario   scenario
	namespace  string
}

// differences returns those that are in each play of the scenario. They are plays until there is none, or none but
// those that the table lists.
func (p pair) differences(t *testing.T) (lasting []difference) {
	t.Helper()
	var first map[string]outcome
	for n := range plays {
		namespace := fmt.Sprintf("%s-%d", p.namespace, n)
		var kube, ours map[string]outcome
		group, ctx := errgroup.WithContext(t.Context())
		group.Go(func() (err error) { kube, err = play(ctx, p.kube, p.scenario, namespace); return err })
		group.Go(func() (err error) { ours, err = play(ctx, p.ours, p.scenario, namespace); return err })
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = ours
		}
		if diff := cmp.Diff(first, ours); diff != "" {
			t.Errorf("metacidr-apiserver did two things (-first +now):\n%s", diff)
		}
		found := compare(p.scenario.name, kube, ours)
		if n == 0 {
			lasting = found
		} else {
			lasting = slices.DeleteFunc(lasting, func(d difference) bool { return !slices.Contains(found, d) })
		}
		unknown := slices.ContainsFunc(lasting, func(d difference) bool {
			return !slices.ContainsFunc(differences, func(known difference) bool { return known.covers(d) })
		})
		if !unknown {
			break
		}
	}
	return lasting
}

// play runs the scenario on one server, in a new namespace, and deletes what it left.
func play(ctx context.Context, client kubernetes.Interface, sc scenario, namespace string) (map[string]outcome, error) {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	s := newSession(client, namespace)
	all, err := run(ctx, s, sc.steps, prefixes)
	if err != nil {
		return nil, err
	}
	return all, s.clear(ctx)
}

// prefixes are all ranges from which a server may choose an address here.
var prefixes = []netip.Prefix{
	netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:10:96::/108"),
}

// compare returns a difference for each value that is not the same in both.
func compare(scenario string, kube, ours map[string]outcome) (found []difference) {
	for _, step := range slices.Sorted(maps.Keys(kube)) {
		paths := maps.Clone(kube[step])
		maps.Copy(paths, ours[step])
		for _, path := range slices.Sorted(maps.Keys(paths)) {
			if k, o := kube[step][path], ours[step][path]; k != o {
				found = append(found, difference{scenario: scenario, step: step, path: path, kube: k, ours: o})
			}
		}
	}
	return found
}

// covers reports whether d is what the entry known is about.
func (known difference) covers(d difference) bool {
	open := func(pattern, value string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(value, prefix)
		}
		return pattern == value
	}
	return open(known.scenario, d.scenario) && open(known.step, d.step) && open(known.path, d.path) &&
		open(known.kube, d.kube) && open(known.ours, d.ours)
}

// A difference that is planted in an outcome is found, and a listed one is known again.
func TestCompare(t *testing.T) {
	kube := map[string]outcome{"1 create blue": {"spec.type": "ClusterIP", "spec.clusterIP": "10.96.0.7"}}
	ours := map[string]outcome{"1 create blue": {"spec.type": "NodePort", "metadata.name": "blue"}}
	want := []difference{
		{scenario: "x", step: "1 create blue", path: "metadata.name", ours: "blue"},
		{scenario: "x", step: "1 create blue", path: "spec.clusterIP", kube: "10.96.0.7"},
		{scenario: "x", step: "1 create blue", path: "spec.type", kube: "ClusterIP", ours: "NodePort"},
	}
	got := compare("x", kube, ours)
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	known := difference{scenario: "*", step: "1*", path: "spec.*", kube: "ClusterIP", ours: "*"}
	for i, covered := range []bool{false, false, true} {
		if known.covers(want[i]) != covered {
			t.Errorf("%+v: covered %t", want[i], !covered)
		}
	}
}
