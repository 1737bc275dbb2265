// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// S34, I8: API servers with different flags, started, restarted and refused at
// the worst moment, beside people who delete the object and write into it.
//
// Every call of a replica stops before it is applied and again before its answer,
// until the test lets it go on: rapid chooses the interleaving. A watch sees every
// version ever stored.
func TestS34_NoFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(inBubble{t}, func(t *rapid.T) {
			m := newMachine(t)
			defer m.close()
			t.Repeat(map[string]func(*rapid.T){
				"step":    m.step,
				"step on": m.step, // more often than the rest
				"step, go": func(t *rapid.T) {
					for range 3 {
						m.step(t)
					}
				},
				"time passes":       func(t *rapid.T) { m.sleep(time.Duration(rapid.IntRange(1, 12000).Draw(t, "ms")) * time.Millisecond) },
				"restart":           m.restart,
				"people create":     m.create,
				"people delete":     m.delete,
				"controller":        m.controller,
				"people write":      m.touch,
				"status is written": m.status,
				"":                  m.check,
			})
			m.settle(t)
		})
	})
}

type machine struct {
	server   *simapi.Server
	replicas []*process
	versions watch.Interface

	mu      sync.Mutex // guards parked
	parked  map[string]parked
	freeRun bool // calls do not stop any more

	now    *networkingv1.ServiceCIDR // the latest version the watch showed, nil if none
	grown  map[types.UID]int         // how often an object's ranges changed
	writes map[string]bool           // resourceVersions of what others than replicas wrote
	serial int
}

// process is one API server's controller.
type process struct {
	name   string
	letter string // its flags
	rec    *recorder
	*Controller
	stop func()
}

type parked struct {
	call simapi.Call
	on   chan struct{}
}

var flags = []string{"a", "A", "as", "as", "aS", "sa", "s", "AS"}

func newMachine(t *rapid.T) *machine {
	m := &machine{server: simapi.New(), parked: map[string]parked{}, grown: map[types.UID]int{}, writes: map[string]bool{}}
	var err error
	if m.versions, err = m.server.Client("watcher").ServiceCIDRs().Watch(context.Background(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	m.server.OnCall(m.park)
	for i := range rapid.IntRange(2, 4).Draw(t, "replicas") {
		m.replicas = append(m.replicas, nil)
		m.start(t, i)
	}
	return m
}

func (m *machine) close() {
	m.letGo()
	for _, p := range m.replicas {
		p.stop()
	}
	m.versions.Stop()
	m.server.Close()
}

func (m *machine) start(t *rapid.T, i int) {
	p := &process{name: fmt.Sprint("r", i), letter: rapid.SampledFrom(flags).Draw(t, "flags"), rec: &recorder{}}
	p.Controller = replica(t, m.server, p.name, p.rec, spell(p.letter, letters)...)
	p.stop = run(t, p.Controller)
	m.replicas[i] = p
	synctest.Wait()
}

// park stops a replica's call.
func (m *machine) park(call simapi.Call) {
	if !strings.HasPrefix(call.Replica, "r") {
		return
	}
	m.mu.Lock()
	if m.freeRun {
		m.mu.Unlock()
		return
	}
	on := make(chan struct{})
	m.parked[call.Replica] = parked{call, on}
	m.mu.Unlock()
	<-on
}

// unpark lets a replica's call go on to its next stop.
func (m *machine) unpark(name string) {
	m.mu.Lock()
	p, ok := m.parked[name]
	delete(m.parked, name)
	m.mu.Unlock()
	if ok {
		close(p.on)
	}
}

func (m *machine) letGo() {
	m.mu.Lock()
	m.freeRun = true
	names := slices.Collect(maps.Keys(m.parked))
	m.mu.Unlock()
	for _, name := range names {
		m.unpark(name)
	}
}

// step lets one call on, with or without a fault.
func (m *machine) step(t *rapid.T) {
	m.mu.Lock()
	names := slices.Sorted(maps.Keys(m.parked))
	m.mu.Unlock()
	if len(names) == 0 {
		m.sleep(time.Second)
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "replica")
	if p := m.parked[name]; p.call.Phase == simapi.Before && rapid.IntRange(0, 3).Draw(t, "fault") == 0 {
		all := faults()
		m.server.Fail(simapi.Fault{
			Replica: name, Verb: p.call.Verb,
			When: rapid.SampledFrom([]simapi.Phase{simapi.Before, simapi.After}).Draw(t, "when"),
			Err:  all[rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "error")],
		})
	}
	m.unpark(name)
	synctest.Wait()
}

// sleep lets time pass: calls that stand still run into their time limit.
func (m *machine) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// restart ends a process where it stands, and starts it with new flags.
func (m *machine) restart(t *rapid.T) {
	i := rapid.IntRange(0, len(m.replicas)-1).Draw(t, "replica")
	ended := make(chan struct{})
	go func() { m.replicas[i].stop(); close(ended) }()
	synctest.Wait()
	for {
		m.unpark(m.replicas[i].name)
		synctest.Wait()
		select {
		case <-ended:
			m.start(t, i)
			return
		default:
		}
	}
}

func (m *machine) create(t *rapid.T) {
	if stored(t, m.server) == nil {
		m.serial++
		word := rapid.SampledFrom(flags).Draw(t, "ranges")
		m.wrote(m.server.CreateServiceCIDR(DefaultName, "", spell(word, letters)...))
	}
}

func (m *machine) delete(t *rapid.T) {
	if obj := stored(t, m.server); obj != nil && obj.DeletionTimestamp == nil {
		terminate(t, m.server)
		if obj = stored(t, m.server); obj != nil {
			m.wrote(obj)
		}
	}
}

func (m *machine) controller(t *rapid.T) {
	obj := stored(t, m.server)
	switch {
	case obj == nil:
	case obj.DeletionTimestamp == nil:
		m.wrote(m.server.AddFinalizer(DefaultName, informer.Finalizer))
	default:
		m.server.RemoveFinalizer(DefaultName, informer.Finalizer)
	}
	synctest.Wait()
}

func (m *machine) touch(t *rapid.T) {
	obj := stored(t, m.server)
	if obj == nil {
		return
	}
	m.serial++
	metav1.SetMetaDataAnnotation(&obj.ObjectMeta, "touched", fmt.Sprint(m.serial))
	obj, err := m.server.Client("admin").ServiceCIDRs().Update(context.Background(), obj, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.wrote(obj)
}

func (m *machine) status(t *rapid.T) {
	if stored(t, m.server) != nil {
		m.wrote(m.server.SetReady(DefaultName, rapid.SampledFrom([]metav1.ConditionStatus{"True", "False"}).Draw(t, "ready")))
	}
}

func (m *machine) wrote(obj *networkingv1.ServiceCIDR) {
	m.writes[obj.ResourceVersion] = true
	synctest.Wait()
}

// check reads every version since the last one: what a replica wrote is a new
// object with its finalizer, or the second family and nothing else, once.
func (m *machine) check(t *rapid.T) {
	synctest.Wait()
	for {
		var e watch.Event
		select {
		case e = <-m.versions.ResultChan():
		default:
			for _, p := range m.replicas {
				for op := range m.server.Calls(p.name) {
					if op.Verb != "get" && op.Verb != "create" && op.Verb != "update" || op.Resource != "servicecidrs" {
						t.Fatalf("%s made a call %v", p.name, op)
					}
				}
			}
			return
		}
		obj := e.Object.(*networkingv1.ServiceCIDR)
		theirs, before := m.writes[obj.ResourceVersion], m.now
		m.now = obj
		switch e.Type {
		case watch.Deleted:
			m.now = nil
		case watch.Added:
			if !theirs && !slices.Equal(obj.Finalizers, []string{informer.Finalizer}) {
				t.Fatalf("created without a finalizer: %+v", obj)
			}
		case watch.Modified:
			if slices.Equal(obj.Spec.CIDRs, before.Spec.CIDRs) {
				if !theirs {
					t.Fatalf("a replica changed something else:\n%+v\n%+v", before, obj)
				}
				break
			}
			if m.grown[obj.UID]++; m.grown[obj.UID] > 1 || len(before.Spec.CIDRs) != 1 || len(obj.Spec.CIDRs) != 2 || obj.Spec.CIDRs[0] != before.Spec.CIDRs[0] {
				t.Fatalf("ranges went from %q to %q, change %d", before.Spec.CIDRs, obj.Spec.CIDRs, m.grown[obj.UID])
			}
			if before.DeletionTimestamp != nil {
				t.Fatalf("a terminating one was extended: %+v", obj)
			}
			rest := obj.DeepCopy()
			rest.Spec, rest.ResourceVersion, rest.Generation, rest.ManagedFields = before.Spec, before.ResourceVersion, before.Generation, before.ManagedFields
			if !apiequality.Semantic.DeepEqual(rest, before) {
				t.Fatalf("the extension changed something else:\n%+v\n%+v", before, obj)
			}
		default:
			t.Fatalf("watch: %+v", e)
		}
	}
}

// settle ends all disturbance. Then there is one ServiceCIDR, nobody could add to
// it any more, every replica's finding is that of the matrix, told by one Event at
// most, and nothing is written or told from then on.
func (m *machine) settle(t *rapid.T) {
	m.letGo()
	m.server.ClearFaults()
	if obj := stored(t, m.server); obj != nil && obj.DeletionTimestamp != nil {
		m.server.RemoveFinalizer(DefaultName, informer.Finalizer)
	}
	m.sleep(time.Minute)
	m.check(t)
	obj := stored(t, m.server)
	if obj == nil {
		t.Fatal("there is none")
	}
	version := obj.ResourceVersion
	told := map[string]int{}
	for _, p := range m.replicas {
		want := expect(obj.Spec.CIDRs, p.letter)
		if got := p.Status(); got.Err != nil || got.Finding.Kind != want || got.Finding.UID != obj.UID {
			t.Fatalf("%s with %s found %+v, want %s of %q", p.name, p.letter, got, want, obj.Spec.CIDRs)
		}
		events := p.rec.all()
		told[p.name] = len(events)
		if !want.AsConfigured() && (len(events) == 0 || events[len(events)-1].uid != obj.UID || events[len(events)-1].reason != ReasonInconsistent) {
			t.Fatalf("%s with %s did not tell of %s: %v", p.name, p.letter, want, events)
		}
		for i, e := range events {
			// The same again is news only if all was well in between, and an
			// object's ranges never go from right to wrong.
			if i > 0 && e == events[i-1] {
				t.Fatalf("%s told twice: %v", p.name, events)
			}
		}
	}
	m.sleep(time.Minute)
	if got := stored(t, m.server).ResourceVersion; got != version {
		t.Fatalf("written after it was settled: %s, %s", version, got)
	}
	for _, p := range m.replicas {
		if n := len(p.rec.all()); n != told[p.name] {
			t.Fatalf("%s told of nothing new: %v", p.name, p.rec.all())
		}
	}
}

// expect reads the matrix. A replica that could have extended the object must
// have done so: Extended is never what is left.
func expect(cidrs []string, configured string) Kind {
	for _, c := range cells() {
		if slices.Equal(spell(c.stored, letters), cidrs) && c.configured == configured {
			return c.want
		}
	}
	return Unknown
}
