// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// TestProperty_WatchEqualsList: replaying a watch from any revision over the list of
// that revision gives the present, whatever was held, delivered and cut in between.
func TestProperty_WatchEqualsList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		s := simapi.New()
		defer s.Close()
		client := s.Client("a").IPAddresses()
		name := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("10.0.0.%d", rapid.IntRange(0, 4).Draw(t, "host"))
		})

		cache := map[string]string{} // name to resourceVersion
		var w watch.Interface
		last := "1"
		reopen := func() {
			var err error
			if w, err = client.Watch(ctx, metav1.ListOptions{ResourceVersion: last}); err != nil {
				t.Fatal(err)
			}
		}
		reopen()
		behind := 0 // changes not yet read
		read := func(n int) {
			for range n {
				ev := <-w.ResultChan()
				obj := ev.Object.(*networkingv1.IPAddress)
				before, _ := strconv.Atoi(last)
				if now, _ := strconv.Atoi(obj.ResourceVersion); now <= before {
					t.Fatalf("revision %d after %d", now, before)
				}
				last = obj.ResourceVersion
				if ev.Type == watch.Deleted {
					delete(cache, obj.Name)
				} else {
					cache[obj.Name] = obj.ResourceVersion
				}
				behind--
			}
		}
		write := func(change func() error) {
			before := s.Revision()
			if err := change(); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			behind += int(s.Revision() - before)
		}
		s.Hold("a")
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				write(func() error { return create(ctx, s.Client("b"), name.Draw(t, "name")) })
			},
			"delete": func(t *rapid.T) {
				write(func() error { return client.Delete(ctx, name.Draw(t, "name"), metav1.DeleteOptions{}) })
			},
			"label": func(t *rapid.T) {
				write(func() error {
					patch := fmt.Sprintf(`{"metadata":{"labels":{"v":"%d"}}}`, rapid.IntRange(0, 3).Draw(t, "v"))
					_, err := client.Patch(ctx, name.Draw(t, "name"), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
					return err
				})
			},
			"deliver": func(t *rapid.T) { read(s.Deliver("a", rapid.IntRange(0, 3).Draw(t, "n"))) },
			"cut": func(*rapid.T) {
				s.CutWatches("a")
				reopen()
			},
			"": func(t *rapid.T) {
				if s.Pending("a") != behind {
					t.Fatalf("%d pending, %d behind", s.Pending("a"), behind)
				}
				exact, err := client.List(ctx, metav1.ListOptions{ResourceVersion: last, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
				if err != nil {
					t.Fatal(err)
				}
				if got := versions(exact.Items); !maps.Equal(got, cache) {
					t.Fatalf("at %s the server had %v, the watcher %v", last, got, cache)
				}
			},
		})
		read(s.Deliver("a", -1))
		if got := versions(s.TrueIPAddresses()); !maps.Equal(got, cache) {
			t.Fatalf("the server has %v, the watcher %v", got, cache)
		}
	})
}

func versions(items []networkingv1.IPAddress) map[string]string {
	out := make(map[string]string, len(items))
	for _, i := range items {
		out[i.Name] = i.ResourceVersion
	}
	return out
}

// TestProperty_OptimisticLocking: of concurrent read-modify-writes none is lost.
func TestProperty_OptimisticLocking(t *testing.T) {
	s := newServer(t)
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			client := s.Client("a").ServiceCIDRs()
			for done := 0; done < each; {
				obj, err := client.Get(context.Background(), "x", metav1.GetOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(obj.Annotations["n"])
				obj.Annotations = map[string]string{"n": strconv.Itoa(n + 1)}
				_, err = client.Update(context.Background(), obj, metav1.UpdateOptions{})
				switch {
				case err == nil:
					done++
				case !apierrors.IsConflict(err):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := s.TrueServiceCIDRs()[0].Annotations["n"]; got != strconv.Itoa(workers*each) {
		t.Errorf("counted to %s, want %d", got, workers*each)
	}
}

// TestProperty_OneCreatorPerName: of concurrent creates of a name one wins, and every
// watch agrees with the truth.
func TestProperty_OneCreatorPerName(t *testing.T) {
	s := newServer(t)
	const workers, hosts = 8, 50
	w := mustWatch(t, s.Client("w"), metav1.ListOptions{ResourceVersion: "1"})
	var won atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range hosts {
				switch err := create(context.Background(), s.Client("a"), fmt.Sprintf("10.0.0.%d", i)); {
				case err == nil:
					won.Add(1)
				case !apierrors.IsAlreadyExists(err):
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if won.Load() != hosts {
		t.Errorf("%d creates won, want %d", won.Load(), hosts)
	}
	events := next(t, w, hosts)
	slices.Sort(events)
	if len(slices.Compact(events)) != hosts {
		t.Error("an event came twice")
	}
}
