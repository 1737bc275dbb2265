// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/meta"
)

// scenario is a way to delete ServiceCIDRs while an address needs them, many times on disjoint
// prefixes.
type scenario struct {
	name     string
	rounds   int
	prefixes func(round int) []string // of the ServiceCIDRs that are deleted together
	address  func(round int) string
	service  bool // or an owner of another kind
}

var scenarios = []scenario{
	{
		name: "equal prefixes, a Service", rounds: 20, service: true,
		prefixes: func(i int) []string { p := fmt.Sprintf("10.%d.7.0/24", 128+i); return []string{p, p} },
		address:  func(i int) string { return fmt.Sprintf("10.%d.7.9", 128+i) },
	}, {
		name: "/24 in /16, a Service", rounds: 20, service: true,
		prefixes: func(i int) []string {
			return []string{fmt.Sprintf("10.%d.7.0/24", 160+i), fmt.Sprintf("10.%d.0.0/16", 160+i)}
		},
		address: func(i int) string { return fmt.Sprintf("10.%d.7.9", 160+i) },
	}, {
		name: "one alone, a Service", rounds: 3, service: true,
		prefixes: func(i int) []string { return []string{fmt.Sprintf("10.%d.7.0/24", 192+i)} },
		address:  func(i int) string { return fmt.Sprintf("10.%d.7.9", 192+i) },
	}, {
		name: "one alone, another owner", rounds: 5,
		prefixes: func(i int) []string { return []string{fmt.Sprintf("10.%d.7.0/24", 208+i)} },
		address:  func(i int) string { return fmt.Sprintf("10.%d.7.9", 208+i) },
	}, {
		name: "equal prefixes, another owner", rounds: 5,
		prefixes: func(i int) []string { p := fmt.Sprintf("10.%d.7.0/24", 224+i); return []string{p, p} },
		address:  func(i int) string { return fmt.Sprintf("10.%d.7.9", 224+i) },
	},
}

// round is one of them on a cluster.
type round struct {
	scenario
	number int
	names  []string // of the ServiceCIDRs
	at     string   // the address
	owner  meta.Owner
}

func newRound(s scenario, kind, number int) round {
	r := round{scenario: s, number: number, at: s.address(number)}
	for i := range s.prefixes(number) {
		r.names = append(r.names, fmt.Sprintf("s%d-%d-%d", kind, number, i))
	}
	if s.service {
		r.owner = meta.Owner{Resource: "services", Namespace: "default", Name: fmt.Sprintf("s%d-%d", kind, number)}
	} else {
		r.owner = meta.Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: fmt.Sprintf("w%d-%d", kind, number)}
	}
	return r
}

// outcome is what became of the rounds of one scenario under one controller.
type outcome struct {
	controller string
	scenario   scenario
	orphaned   int // rounds in which the address was without a ServiceCIDR for a while
	cidrsLeft  int // ServiceCIDRs that were there when the grace period was long over, the address still in use
	forgotten  int // addresses that were there for good, or till kube-apiserver's repair, after their owner let go
}

// TestDeletedTogether deletes ServiceCIDRs, alone and in pairs, under the address of a Service or of
// another owner: with the controller of package servicecidr none of them ever leaves the address
// without a ServiceCIDR (I7), and they go when the address has gone. What upstream's makes of the
// same is written down, not judged.
func TestDeletedTogether(t *testing.T) {
	t.Parallel()
	results := map[string][]outcome{}
	var mu sync.Mutex // guards results
	t.Run("controllers", func(t *testing.T) {
		for _, controller := range []struct {
			name string
			run  func(*testing.T, *cluster)
			ours bool
		}{{"metacidr", runOurs, true}, {"upstream", runUpstream, false}} {
			t.Run(controller.name, func(t *testing.T) {
				t.Parallel()
				found := deleteTogether(t, controller.run, controller.ours)
				mu.Lock()
				defer mu.Unlock()
				for i := range found {
					found[i].controller = controller.name
				}
				results[controller.name] = found
			})
		}
	})
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "controller\tdeleted\trounds\torphaned\tServiceCIDRs kept\taddresses left behind")
	for _, name := range []string{"metacidr", "upstream"} {
		for _, o := range results[name] {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d of %d\t%d\n", o.controller, o.scenario.name, o.scenario.rounds, o.orphaned,
				o.cidrsLeft, o.scenario.rounds*len(o.scenario.prefixes(0)), o.forgotten)
		}
	}
	w.Flush()
	t.Logf("what held when ServiceCIDRs were deleted while an address was in use:\n%s", table.String())
}

func deleteTogether(t *testing.T, run func(*testing.T, *cluster), ours bool) []outcome {
	c := startCluster(t, "")
	run(t, c)
	m := c.runAllocator(t)
	h := c.record(t)

	var rounds []round
	for kind, s := range scenarios {
		for i := range s.rounds {
			rounds = append(rounds, newRound(s, kind, i))
		}
	}
	// All rounds do each step at the same time.
	each := func(step func(round)) {
		var running sync.WaitGroup
		for _, r := range rounds {
			running.Go(func() { step(r) })
		}
		running.Wait()
		if t.Failed() {
			t.FailNow()
		}
	}
	var errs errorsOf
	each(func(r round) {
		for i, prefix := range r.prefixes(r.number) {
			errs.keep(c.tryCreate(t.Context(), r.names[i], []string{prefix}))
		}
	})
	errs.check(t)
	for _, r := range rounds {
		c.waitReady(t, r.names...)
	}
	for _, r := range rounds {
		if r.service {
			c.placeService(t, r.owner.Name, r.at)
		} else {
			c.allocate(t, m, r.owner, r.at)
		}
	}

	each(func(r round) { c.delete(t, r.names...) })
	if ours {
		for _, r := range rounds {
			for i, name := range r.names {
				words := []string{"1 address blocks the deletion", fmt.Sprintf("%s (%s)", r.at, r.owner)}
				if i == 0 && len(r.names) == 2 { // and it is no use that the other contains it
					words = append(words, r.names[1]+" is terminating too")
				}
				c.waitBlocked(t, name, words...)
			}
		}
	}
	// Twice: the second time what the first one's end may have set in motion is over too.
	c.letGracePass(t, "canary-1", "192.168.1.0/24")
	c.letGracePass(t, "canary-2", "192.168.2.0/24")

	found := make([]outcome, len(scenarios))
	byName := map[string]*outcome{}
	for i, s := range scenarios {
		found[i].scenario = s
		byName[s.name] = &found[i]
	}
	for _, r := range rounds {
		for _, name := range r.names {
			_, err := c.client.NetworkingV1().ServiceCIDRs().Get(t.Context(), name, metav1.GetOptions{})
			switch {
			case err == nil:
				byName[r.name].cidrsLeft++
			case !apierrors.IsNotFound(err):
				t.Fatal(err)
			case ours:
				t.Errorf("%s, round %d: ServiceCIDR %s is gone while %s has %s", r.name, r.number, name, r.owner, r.at)
			}
		}
	}
	without := orphans(t, h)
	for _, r := range rounds {
		if since, ok := without[r.at]; ok {
			byName[r.name].orphaned++
			if ours {
				t.Errorf("I7: %s, round %d: %s of %s was without a ServiceCIDR from revision %d on", r.name, r.number, r.at, r.owner, since)
			}
		}
	}

	// The address is released: then they go, whoever held them.
	each(func(r round) {
		if r.service {
			errs.keep(c.client.CoreV1().Services("default").Delete(t.Context(), r.owner.Name, metav1.DeleteOptions{}))
		} else {
			errs.keep(m.Release(t.Context(), r.owner, netip.MustParseAddr(r.at)))
		}
	})
	errs.check(t)
	for _, r := range rounds {
		c.waitGone(t, r.names...)
		_, err := c.client.NetworkingV1().IPAddresses().Get(t.Context(), r.at, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			t.Fatal(err)
		default:
			byName[r.name].forgotten++
			if ours {
				t.Errorf("%s, round %d: IPAddress %s is left", r.name, r.number, r.at)
			}
		}
	}
	if ours {
		for address, since := range without {
			t.Errorf("I7: %s was without a ServiceCIDR from revision %d on", address, since)
		}
	}
	return found
}

// errorsOf gathers the errors of goroutines.
type errorsOf struct {
	mu   sync.Mutex // guards errs
	errs []error
}

func (e *errorsOf) keep(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, err)
}

func (e *errorsOf) check(t *testing.T) {
	t.Helper()
	if err := errors.Join(e.errs...); err != nil {
		t.Fatal(err)
	}
}
