// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// world is one case: an API server, replicas, a controller, and what must be true.
// It lives in a bubble of testing/synctest. The goroutine of the test drives it;
// while an allocator's call runs, hooks act in its place.
type world struct {
	settings   settings
	server     *simapi.Server
	seed       uint64
	replicas   []*replica
	controller process
	sync       Controller
	checks     []check
	story      story
	names      int // of ServiceCIDRs and owners, so far

	held   map[netip.Addr]holding // confirmed, not given back
	unsure map[netip.Addr]holding // given back with an error: gone or not
	gone   []gone                 // given back

	// mu guards what follows against hooks of background calls.
	mu      sync.Mutex
	truth   truth
	foreign map[types.UID]bool    // created by nobody under test
	maker   map[types.UID]process // who created it
	unready map[cidr.Range]time.Time
	current *call
	middle  func() // happens before the controller's next write
	failure *Failure
}

type holding struct {
	uid   types.UID
	owner Owner
	by    string
	life  int // of by
	step  int
	since time.Time
}

type gone struct {
	addr  netip.Addr
	owner Owner
}

// process is one life of a replica.
type process struct {
	name string
	life int
	stop func()
	dead *bool
}

type replica struct {
	name    string
	process process
	alloc   Allocator
	clock   *skewedClock
	known   knowledge
	watches int       // it has when it is in step
	cut     time.Time // when its watches were last cut
	// attempted are addresses of failed calls: the replica may spare them for a
	// while, for something of them may be there.
	attempted map[netip.Addr]time.Time
	err       error // of Run
}

// attemptMemory is how long a replica may spare an address after a failed call.
const attemptMemory = 2 * time.Minute

func newWorld(s settings, seed uint64) *world {
	w := &world{
		settings: s,
		server:   simapi.New(simapi.WithClock(clock.RealClock{})),
		seed:     seed,
		story:    story{begin: time.Now()},
		held:     map[netip.Addr]holding{},
		unsure:   map[netip.Addr]holding{},
		foreign:  map[types.UID]bool{},
		maker:    map[types.UID]process{},
		unready:  map[cidr.Range]time.Time{},
	}
	w.truth = truthOf(w.server)
	w.server.OnCall(w.onCall)
	return w
}

func (w *world) close() {
	for _, r := range w.replicas {
		if r.process.stop != nil {
			r.process.stop()
		}
	}
	if w.controller.stop != nil {
		w.controller.stop()
	}
	w.server.Close()
	w.sleep(time.Minute) // what still waits for time ends too
}

// quiet is a context without a log.
func quiet() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }

// launch runs a process in the background.
func launch(name string, life int, run func(context.Context) error, done func(error)) process {
	ctx, cancel := context.WithCancel(quiet())
	ended, dead := make(chan struct{}), new(bool)
	go func() {
		defer close(ended)
		done(run(ctx))
	}()
	return process{name: name, life: life, dead: dead, stop: func() { cancel(); <-ended; *dead = true }}
}

// start begins a replica's next life, with a clock of the given skew and rate.
func (w *world) start(i int, skew time.Duration, rate float64) {
	name := fmt.Sprint("r", i)
	w.mu.Lock()
	for i >= len(w.replicas) {
		w.replicas = append(w.replicas, &replica{name: name})
	}
	r := w.replicas[i]
	life := r.process.life + 1
	*r = replica{name: name, clock: newSkewedClock(skew, rate), attempted: map[netip.Addr]time.Time{}}
	w.mu.Unlock()
	w.seed++
	alloc, err := w.settings.factory(Env{Replica: name, Client: w.server.Client(name), Clock: r.clock, Random: rand.NewPCG(w.seed, uint64(i))})
	if err != nil {
		w.violate("Factory", "", "the factory failed: %v", err)
		w.giveUp()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.alloc = alloc
	r.process = launch(name, life, alloc.Run, func(err error) { r.err = err })
}

// stop ends a replica's life, as a crash does: what it was about to do is not done.
func (w *world) stop(r *replica) {
	r.process.stop()
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		w.violate("Run", "", "%s: Run ended with an error: %v", r.name, r.err)
	}
}

// controllerName is the controller's replica.
const controllerName = "controller"

func (w *world) startController() {
	env := Env{Replica: controllerName, Client: w.server.Client(controllerName), Clock: newSkewedClock(0, 1), Random: rand.NewPCG(w.seed, 99)}
	c, err := w.settings.controller(env)
	if err != nil {
		w.violate("ControllerFactory", "", "the controller's factory failed: %v", err)
		w.giveUp()
	}
	w.sync = c
	w.controller = launch(controllerName, 1, c.Run, func(error) {})
}

// onCall sees every call of everybody, on the caller's goroutine.
func (w *world) onCall(c simapi.Call) {
	if c.Replica == observer {
		return
	}
	if c.Phase == simapi.After && c.Err == nil && c.Verb != "get" && c.Verb != "list" && c.Verb != "watch" {
		w.observe(&c)
	}
	w.mu.Lock()
	current, middle := w.current, w.middle
	if c.Phase == simapi.After || c.Replica != controllerName || c.Verb != "update" && c.Verb != "patch" {
		middle = nil
	} else {
		w.middle = nil
	}
	w.mu.Unlock()
	if middle != nil {
		middle()
	}
	if current != nil && current.r.name == c.Replica && c.Verb != "watch" {
		current.onCall(w, c)
	}
}

// observe takes the server's state as it is now. It is called whenever that may
// have changed.
func (w *world) observe(c *simapi.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server.Revision() != w.truth.revision {
		w.advance(c)
	}
	if c == nil || c.Verb != "create" || c.Resource != "ipaddresses" {
		return
	}
	addr, err := netip.ParseAddr(c.Name)
	i := slices.IndexFunc(w.replicas, func(r *replica) bool { return r.name == c.Replica })
	if s, ok := w.truth.addrs[addr]; ok && err == nil && i >= 0 {
		w.maker[s.uid] = w.replicas[i].process
	}
}

// advance takes a new truth, after the given call if that was the only change. The
// caller holds mu.
func (w *world) advance(c *simapi.Call) {
	var now truth
	if c != nil {
		now = w.truth.after(w.server, *c)
	} else {
		now = truthOf(w.server)
	}
	before, after := w.truth.ready(false), now.ready(false)
	w.truth = now
	for r := range before {
		if !after[r] {
			w.unready[r] = time.Now()
		}
	}
	for _, r := range w.replicas {
		r.known.extend(now)
	}
	for at := w.current; at != nil; at = at.outer {
		if _, ok := now.addrs[at.addr]; ok {
			at.wasTaken = true
		}
	}
}

// readySince reports whether the prefix was ready at some moment since then.
func (w *world) readySince(r cidr.Range, since time.Time) bool {
	if w.truth.ready(false)[r] {
		return true
	}
	last, ok := w.unready[r]
	return ok && !last.Before(since)
}

// refresh lets everything that needs no time come to rest, and notes which
// replicas are in step with the server.
func (w *world) refresh() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
	w.observe(nil)
	for _, r := range w.replicas {
		open := w.server.Watches(r.name)
		if !r.alloc.Synced() || w.server.Pending(r.name) > 0 || open == 0 {
			continue
		}
		if !r.cut.IsZero() && (time.Since(r.cut) < time.Minute || open < r.watches) {
			continue
		}
		r.cut, r.watches = time.Time{}, max(r.watches, open)
		w.mu.Lock()
		r.known.reset(w.truth, w.story.step)
		w.mu.Unlock()
	}
}

// sleep lets time pass.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// violate notes the first violation of a check that the property asserts.
func (w *world) violate(property, rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = &Failure{Property: property, Rule: rule, Message: fmt.Sprintf(format, args...)}
	}
}

// stopped is what giveUp panics with.
type stopped struct{}

// giveUp ends the case if a check was violated.
func (w *world) giveUp() {
	w.mu.Lock()
	failed := w.failure != nil
	w.mu.Unlock()
	if failed {
		panic(stopped{})
	}
}

// conclude completes the story of a failure.
func (w *world) conclude() *Failure {
	if w.failure == nil {
		return nil
	}
	var b strings.Builder
	b.WriteString(w.story.String())
	b.WriteString("\n\nWhat the replicas believed:\n")
	for _, r := range w.replicas {
		pending := w.server.Pending(r.name)
		fmt.Fprintf(&b, "  %s: ", r.name)
		switch {
		case !r.known.valid:
			b.WriteString("has not seen the cluster in this life")
		default:
			fmt.Fprintf(&b, "in step with the server last before step %d; %d events are held back from it", r.known.inStep+1, pending)
		}
		b.WriteByte('\n')
		if e, ok := r.alloc.(Explainer); ok {
			for line := range strings.Lines(strings.TrimSpace(e.Explain()) + "\n") {
				b.WriteString("      " + line)
			}
		}
	}
	b.WriteString("\nWhat was true:\n")
	for _, row := range w.truth.rows {
		why := row.WhyNot(true)
		if why == "" {
			why = "ready"
		}
		fmt.Fprintf(&b, "  ServiceCIDR %s %v: %s\n", row.Name, row.Ranges, why)
	}
	if len(w.truth.rows) == 0 {
		b.WriteString("  no ServiceCIDR\n")
	}
	for _, addr := range sortedAddrs(w.truth.addrs) {
		s := w.truth.addrs[addr]
		note := "held by nobody"
		if h, ok := w.held[addr]; ok {
			note = fmt.Sprintf("confirmed to %s by %s in step %d", h.owner, h.by, h.step)
			if h.uid != s.uid {
				note += fmt.Sprintf(", as object %s", h.uid)
			}
		} else if w.foreign[s.uid] {
			note = "somebody else's"
		}
		fmt.Fprintf(&b, "  IPAddress %s of %s (%s): %s\n", addr, s.owner, s.uid, note)
	}
	for _, addr := range sortedAddrs(w.held) {
		if _, ok := w.truth.addrs[addr]; !ok {
			fmt.Fprintf(&b, "  no IPAddress %s, which was confirmed to %s in step %d\n", addr, w.held[addr].owner, w.held[addr].step)
		}
	}
	w.failure.Story = b.String()
	return w.failure
}

func sortedAddrs[V any](m map[netip.Addr]V) []netip.Addr {
	var out []netip.Addr
	for a := range m {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// addCIDR stores a ServiceCIDR.
func (w *world) addCIDR(finalizer bool, cidrs ...string) string {
	w.names++
	name := fmt.Sprint("c", w.names)
	w.server.CreateServiceCIDR(name, "", cidrs...)
	if finalizer {
		w.server.AddFinalizer(name, informer.Finalizer)
	}
	w.observe(nil)
	return name
}

// put stores an IPAddress as somebody else, with no label.
func (w *world) put(addr netip.Addr) {
	obj, err := w.server.Client("somebody").IPAddresses().Create(context.Background(), ipAddress(addr, informer.ServiceOwner("default", "theirs")), metav1.CreateOptions{})
	if err == nil {
		w.mu.Lock()
		w.foreign[obj.UID] = true
		w.mu.Unlock()
	}
}

// syncController has the controller look at ServiceCIDRs, all of them if no name
// is given.
func (w *world) syncController(names ...string) {
	if len(names) == 0 {
		names = w.cidrs()
	}
	for _, name := range names {
		before := w.row(name)
		_, err := w.sync.Sync(quiet(), name)
		w.observe(nil)
		switch after := w.row(name); {
		case err != nil:
			w.story.add("the controller failed on %s: %v", name, err)
		case before != nil && after == nil:
			w.story.add("ServiceCIDR %s is gone", name)
		case before != nil && !before.HasFinalizer && after.HasFinalizer:
			w.story.add("ServiceCIDR %s has its finalizer", name)
		}
	}
	w.observe(nil)
}

// syncInterrupted is syncController, with something that happens before the
// controller's first write.
func (w *world) syncInterrupted(name string, middle func()) {
	w.mu.Lock()
	w.middle = middle
	w.mu.Unlock()
	w.syncController(name)
	w.mu.Lock()
	w.middle = nil
	w.mu.Unlock()
}

// syncAtOnce has the controller look at all of them before it writes for the first.
func (w *world) syncAtOnce(names []string) {
	if len(names) > 0 {
		w.syncInterrupted(names[0], func() { w.syncAtOnce(names[1:]) })
	}
}

// cidrs are the names of all ServiceCIDRs.
func (w *world) cidrs() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, row := range w.truth.rows {
		out = append(out, row.Name)
	}
	return out
}

// row is that of a ServiceCIDR, nil if there is none.
func (w *world) row(name string) *informer.ServiceCIDR {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.truth.row(name)
}
