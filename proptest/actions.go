// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// profile is how a property's cases look: what happens how often. Weights of 0
// are things that do not happen.
type profile struct {
	replicas int
	inStep   bool // no event is ever late
	skewed   bool // clocks of different rates and starts
	prefixes []string
	initial  int // ServiceCIDRs at the start, with finalizers

	// Actions, by weight.
	allocate, fill, release               int
	create, delete, readiness, controller int
	deliver, time, restart, relist        int
	foreigners                            int

	// Of ten allocations, how many are static or dual-stack.
	static, dual int
	// What goes wrong in a call, and in how many of ten.
	faults        []fault
	faulty        int
	interruptions []event
	interrupted   int
	// Releases by strangers and of what is given back already.
	wrongReleases bool
	// The controller's events are late too.
	lateController bool
	// A restarted replica may be asked before its initial lists are complete.
	unsynced bool
}

// actions are the profile's, each under as many names as its weight says.
func (w *world) actions(p *profile) map[string]func(*rapid.T) {
	out := map[string]func(*rapid.T){"": func(*rapid.T) { w.check() }}
	for _, a := range []struct {
		name   string
		weight int
		do     func(*profile, *rapid.T)
	}{
		{"allocate", p.allocate, w.doAllocate}, {"fill", p.fill, w.doFill}, {"release", p.release, w.doRelease},
		{"create a ServiceCIDR", p.create, w.doCreate}, {"delete a ServiceCIDR", p.delete, w.doDelete},
		{"turn readiness", p.readiness, w.doReadiness}, {"controller", p.controller, w.doController},
		{"deliver", p.deliver, w.doDeliver}, {"time passes", p.time, w.doTime},
		{"restart", p.restart, w.doRestart}, {"relist", p.relist, w.doRelist},
		{"somebody creates or deletes", p.foreigners, w.doForeigner},
	} {
		for i := range a.weight {
			out[a.name+strings.Repeat("'", i)] = func(t *rapid.T) {
				w.settings.actions.Add(1)
				w.refresh()
				a.do(p, t)
			}
		}
	}
	return out
}

// check has every check judge the state, and ends the case if one is violated.
func (w *world) check() {
	w.refresh()
	w.giveUp()
	for _, c := range w.checks {
		if c.always != nil {
			c.always(w)
		}
	}
	w.giveUp()
}

// begin makes the first ServiceCIDRs and starts everybody.
func (w *world) begin(p *profile, t *rapid.T) {
	for range p.initial {
		cidrs := w.drawCIDRs(p, t)
		name := w.addCIDR(true, cidrs...)
		w.story.next("ServiceCIDR %s is created: %s", name, strings.Join(cidrs, ", "))
	}
	w.launchController(p)
	for i := range p.replicas {
		w.launchReplica(p, t, i)
	}
	w.refresh()
	w.giveUp()
}

// launchController starts the controller, and waits for its lists.
func (w *world) launchController(p *profile) {
	w.server.Release(controllerName)
	w.startController()
	w.refresh()
	if p.lateController {
		w.server.Hold(controllerName)
	}
}

// launchReplica starts a replica and, unless the profile says otherwise, waits for
// its lists; then its watches are held.
func (w *world) launchReplica(p *profile, t *rapid.T, i int) {
	skew, rate := time.Duration(0), 1.0
	if p.skewed {
		skew = time.Duration(rapid.IntRange(-2, 2).Draw(t, "skew")) * 30 * time.Minute
		rate = rapid.SampledFrom([]float64{1, slowest, 1 / slowest}).Draw(t, "rate")
	}
	name := fmt.Sprint("r", i)
	early := p.unsynced && rapid.Bool().Draw(t, "early")
	if early {
		w.server.Hold(name)
	} else {
		w.server.Release(name)
	}
	w.start(i, skew, rate)
	w.story.next("%s starts%s", name, map[bool]string{true: ", and its initial lists are late"}[early])
	if rate != 1 || skew != 0 {
		w.story.add("its clock is off by %s and runs at rate %.2f", skew, rate)
	}
	w.refresh()
	if !early && !w.replicas[i].alloc.Synced() {
		w.sleep(time.Minute)
		if !w.replicas[i].alloc.Synced() {
			w.violate("Synced", "", "%s did not sync within a minute, although every event was delivered", name)
			w.giveUp()
		}
		w.refresh()
	}
	if !p.inStep {
		w.server.Hold(name)
	}
}

// slowest is the rate of the slowest clock.
const slowest = 0.8

func (w *world) drawCIDRs(p *profile, t *rapid.T) []string {
	first := rapid.SampledFrom(p.prefixes).Draw(t, "prefix")
	cidrs := []string{first}
	others := slices.DeleteFunc(slices.Clone(p.prefixes), func(s string) bool { return strings.Contains(s, ":") == strings.Contains(first, ":") })
	if p.dual > 0 && len(others) > 0 && rapid.Bool().Draw(t, "both families") {
		cidrs = append(cidrs, rapid.SampledFrom(others).Draw(t, "second prefix"))
	}
	return cidrs
}

func (w *world) drawReplica(t *rapid.T) *replica {
	return w.replicas[rapid.IntRange(0, len(w.replicas)-1).Draw(t, "replica")]
}

// drawOther draws a replica other than r, or r itself if it is the only one.
func (w *world) drawOther(t *rapid.T, r *replica) *replica {
	i := slices.Index(w.replicas, r)
	return w.replicas[(i+rapid.IntRange(min(1, len(w.replicas)-1), len(w.replicas)-1).Draw(t, "other replica"))%len(w.replicas)]
}

// newOwner is an owner that never was one.
func (w *world) newOwner(resource string) Owner {
	w.names++
	return Owner{Group: "example.com", Resource: resource, Namespace: "default", Name: fmt.Sprint("w", w.names)}
}

func (w *world) drawOwner(t *rapid.T) Owner {
	if rapid.IntRange(0, 3).Draw(t, "owner is a Service") == 0 {
		o := w.newOwner("services")
		o.Group = ""
		return o
	}
	return w.newOwner("widgets")
}

func (w *world) drawCIDR(t *rapid.T) (string, bool) {
	if len(w.truth.rows) == 0 {
		return "", false
	}
	return w.truth.rows[rapid.IntRange(0, len(w.truth.rows)-1).Draw(t, "ServiceCIDR")].Name, true
}

// drawInterruption draws what happens in the middle of a call of r.
func (w *world) drawInterruption(p *profile, t *rapid.T, r *replica, release bool) interruption {
	if len(p.interruptions) == 0 || rapid.IntRange(1, 10).Draw(t, "interrupted") > p.interrupted {
		return interruption{}
	}
	i := interruption{
		what:  rapid.SampledFrom(p.interruptions).Draw(t, "interruption"),
		verb:  rapid.SampledFrom([]string{"create", "create", "get"}).Draw(t, "at"),
		phase: rapid.SampledFrom([]simapi.Phase{simapi.Before, simapi.After}).Draw(t, "phase"),
		done:  new(bool),
	}
	if release {
		i.verb = rapid.SampledFrom([]string{"get", "delete"}).Draw(t, "at")
	}
	switch i.what {
	case deleteCIDR, deleteCIDRAndWait, deleteCIDRAndAct:
		victim, ok := w.drawCIDR(t)
		if !ok {
			return interruption{}
		}
		if i.victims = []string{victim}; rapid.Bool().Draw(t, "all of them") {
			i.victims = w.cidrs()
		}
	case somebodyTakesIt:
		i.verb, i.phase = "create", simapi.Before
		i.other, i.owner = w.drawOther(t, r), w.drawOwner(t)
		if i.other == r || release {
			return interruption{}
		}
	case itChangesHands:
		if i.other, i.owner = w.drawOther(t, r), w.drawOwner(t); i.other == r || !release {
			return interruption{}
		}
	}
	return i
}

func (w *world) drawFault(p *profile, t *rapid.T) fault {
	if len(p.faults) == 0 || rapid.IntRange(1, 10).Draw(t, "faulty") > p.faulty {
		return noFault
	}
	return rapid.SampledFrom(p.faults).Draw(t, "fault")
}

// drawAddr draws an address in or at the ends of some prefix, or one that has a past.
func (w *world) drawAddr(p *profile, t *rapid.T) netip.Addr {
	if n := len(w.gone); n > 0 && rapid.IntRange(0, 2).Draw(t, "given back before") == 0 {
		return w.gone[n-1-rapid.IntRange(0, min(n-1, 3)).Draw(t, "how long before")].addr
	}
	r := cidr.MustParse(rapid.SampledFrom(p.prefixes).Draw(t, "near"))
	n := r.Size().Saturate64()
	offset := rapid.Uint64Range(0, n+1).Draw(t, "offset")
	base := cidr.ToUint128(r.Prefix().Addr())
	return cidr.FromUint128(r.Family(), base.Add(cidr.U128(offset)))
}

func (w *world) doAllocate(p *profile, t *rapid.T) {
	if p.create > 0 && len(w.truth.ready(true)) == 0 && rapid.Bool().Draw(t, "something to allocate from") {
		w.doCreate(p, t)
		return
	}
	c := &call{r: w.drawReplica(t), owner: w.drawOwner(t)}
	kind := rapid.IntRange(1, 10).Draw(t, "kind")
	_, dualStack := c.r.alloc.(DualStack)
	switch {
	case kind <= p.static:
		c.addr = w.drawAddr(p, t)
		c.families = []cidr.Family{cidr.FamilyOf(c.addr)}
	case kind <= p.static+p.dual && dualStack:
		c.families = rapid.SampledFrom([][]cidr.Family{{cidr.IPv4, cidr.IPv6}, {cidr.IPv6, cidr.IPv4}}).Draw(t, "families")
	default:
		c.families = rapid.SampledFrom([][]cidr.Family{{cidr.IPv4}, {cidr.IPv4}, {cidr.IPv6}}).Draw(t, "families")
	}
	c.fault = w.drawFault(p, t)
	if c.fault == noFault {
		c.interruption = w.drawInterruption(p, t, c.r, false)
	}
	w.perform(c)
}

// doFill makes several allocations in a row, with nothing in between.
func (w *world) doFill(p *profile, t *rapid.T) {
	r := w.drawReplica(t)
	f := rapid.SampledFrom([]cidr.Family{cidr.IPv4, cidr.IPv4, cidr.IPv6}).Draw(t, "family")
	for range rapid.IntRange(2, 20).Draw(t, "times") {
		c := &call{r: r, owner: w.newOwner("widgets"), families: []cidr.Family{f}}
		w.perform(c)
		if c.err != nil {
			return
		}
		w.giveUp()
	}
}

func (w *world) doRelease(p *profile, t *rapid.T) {
	kind := "owner"
	if p.wrongReleases {
		kind = rapid.SampledFrom([]string{"owner", "owner", "owner", "stranger", "again"}).Draw(t, "who")
	}
	c := &call{r: w.drawReplica(t)}
	if kind == "again" {
		if len(w.gone) == 0 {
			t.Skip("nothing was given back")
		}
		g := w.gone[rapid.IntRange(0, len(w.gone)-1).Draw(t, "address")]
		if h, ok := w.held[g.addr]; ok && h.owner == g.owner {
			t.Skip("it is the owner's again")
		}
		c.release, c.owner = g.addr, g.owner
		w.perform(c)
		return
	}
	all := sortedAddrs(w.held)
	if len(all) == 0 {
		t.Skip("nothing is held")
	}
	c.release = all[rapid.IntRange(0, len(all)-1).Draw(t, "address")]
	h := w.held[c.release]
	c.owner = h.owner
	if kind == "stranger" {
		c.owner.Name = "stranger"
		w.perform(c)
		return
	}
	if c.fault = w.drawFault(p, t); c.fault == noFault {
		c.interruption = w.drawInterruption(p, t, c.r, true)
	}
	// The owner has given it up, whatever comes of the call.
	delete(w.held, c.release)
	w.gone = append(w.gone, gone{c.release, c.owner})
	w.perform(c)
	if _, again := w.held[c.release]; c.err != nil && !again {
		w.unsure[c.release] = h
	}
}

func (w *world) doCreate(p *profile, t *rapid.T) {
	cidrs := w.drawCIDRs(p, t)
	finalizer := p.controller == 0 || rapid.IntRange(0, 3).Draw(t, "no finalizer yet") > 0
	name := w.addCIDR(finalizer, cidrs...)
	w.story.next("ServiceCIDR %s is created: %s%s", name, strings.Join(cidrs, ", "), map[bool]string{false: ", with no finalizer yet"}[finalizer])
}

func (w *world) doDelete(_ *profile, t *rapid.T) {
	name, ok := w.drawCIDR(t)
	if !ok {
		t.Skip("there is none")
	}
	if rapid.Bool().Draw(t, "all") {
		w.story.next("all ServiceCIDRs are deleted")
		w.deleteCIDR(w.cidrs()...)
		return
	}
	w.story.next("ServiceCIDR %s is deleted", name)
	w.deleteCIDR(name)
}

func (w *world) doReadiness(_ *profile, t *rapid.T) {
	name, ok := w.drawCIDR(t)
	if !ok {
		t.Skip("there is none")
	}
	status := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown, ""}).Draw(t, "ready")
	w.story.next("condition Ready of ServiceCIDR %s is %s", name, cmp.Or(string(status), "removed"))
	w.server.SetReady(name, status)
	w.observe(nil)
}

func (w *world) doController(p *profile, t *rapid.T) {
	if p.delete > 0 && rapid.Bool().Draw(t, "later") {
		w.story.next("a grace period passes")
		w.sleep(DefaultGrace + time.Second)
		w.observe(nil)
	}
	name, ok := w.drawCIDR(t)
	switch how := rapid.IntRange(0, 3).Draw(t, "how"); {
	case !ok || how == 0:
		w.story.next("the controller looks at all ServiceCIDRs")
		w.syncController()
		return
	case how <= 2:
		w.story.next("the controller looks at all ServiceCIDRs, with a worker for each")
		w.syncAtOnce(w.cidrs())
		return
	}
	// In the middle: after what it decides by was read, before it writes.
	var middle func()
	switch rapid.IntRange(0, 2).Draw(t, "in the middle") {
	case 1:
		if other, ok := w.drawCIDR(t); ok && other != name {
			w.story.next("the controller looks at ServiceCIDR %s; before it writes, another of its workers looks at %s", name, other)
			middle = func() { w.syncController(other) }
		}
	case 2:
		if r := w.drawReplica(t); r.alloc.Synced() {
			c := &call{r: r, owner: w.drawOwner(t), families: []cidr.Family{rapid.SampledFrom([]cidr.Family{cidr.IPv4, cidr.IPv6}).Draw(t, "family")}}
			w.story.next("the controller looks at ServiceCIDR %s; before it writes, there is an allocation", name)
			middle = func() { w.perform(c) }
		}
	}
	if middle == nil {
		w.story.next("the controller looks at ServiceCIDR %s", name)
	}
	w.syncInterrupted(name, middle)
}

func (w *world) doDeliver(p *profile, t *rapid.T) {
	name := controllerName
	if !p.lateController || rapid.Bool().Draw(t, "to a replica") {
		name = w.drawReplica(t).name
	}
	n := rapid.SampledFrom([]int{-1, -1, 1, 2, 4}).Draw(t, "n")
	n = w.server.Deliver(name, n)
	w.story.next("%d events arrive at %s", n, name)
}

func (w *world) doTime(_ *profile, t *rapid.T) {
	d := time.Duration(rapid.SampledFrom([]int{1, 3, 6, 11, 11, 40}).Draw(t, "s")) * time.Second
	w.story.next("%s pass", d)
	w.sleep(d)
}

func (w *world) doRestart(p *profile, t *rapid.T) {
	if p.controller > 0 && rapid.IntRange(0, 3).Draw(t, "the controller") == 0 {
		w.story.next("the controller crashes, and starts again")
		w.controller.stop()
		w.launchController(p)
		return
	}
	i := rapid.IntRange(0, len(w.replicas)-1).Draw(t, "replica")
	w.story.next("%s crashes", w.replicas[i].name)
	w.stop(w.replicas[i])
	w.giveUp()
	w.launchReplica(p, t, i)
}

// doRelist has a replica lose its watches and the server its history.
func (w *world) doRelist(_ *profile, t *rapid.T) {
	r := w.drawReplica(t)
	w.story.next("%s loses its watches, and has to list again", r.name)
	w.mu.Lock()
	r.cut, r.known.valid = time.Now(), false
	w.mu.Unlock()
	w.server.Compact()
	w.server.CutWatches(r.name)
	if rapid.Bool().Draw(t, "time for it") {
		w.sleep(time.Minute + time.Second)
	}
}

// doForeigner has somebody else create or delete an IPAddress.
func (w *world) doForeigner(p *profile, t *rapid.T) {
	var theirs []netip.Addr
	for _, addr := range sortedAddrs(w.truth.addrs) {
		if w.foreign[w.truth.addrs[addr].uid] {
			theirs = append(theirs, addr)
		}
	}
	if len(theirs) > 0 && rapid.Bool().Draw(t, "deletes") {
		addr := theirs[rapid.IntRange(0, len(theirs)-1).Draw(t, "address")]
		w.story.next("somebody deletes IPAddress %s", addr)
		if err := w.server.Client("somebody").IPAddresses().Delete(quiet(), addr.String(), metav1.DeleteOptions{}); err != nil {
			w.story.add("-> %v", err)
		}
		return
	}
	addr := w.drawAddr(p, t)
	if _, ok := w.truth.addrs[addr]; ok {
		t.Skip("it is there")
	}
	w.story.next("somebody creates IPAddress %s", addr)
	w.put(addr)
}

// settle lets everything arrive and be cleaned up, and has the checks judge the
// end.
func (w *world) settle() {
	if !slices.ContainsFunc(w.checks, func(c check) bool { return c.settled != nil }) {
		return
	}
	w.story.next("all events arrive, and %s pass", w.settings.cleanup)
	for _, r := range w.replicas {
		w.server.Release(r.name)
	}
	w.sleep(w.settings.cleanup)
	for _, addr := range sortedAddrs(w.unsure) {
		w.perform(&call{r: w.replicas[0], owner: w.unsure[addr].owner, release: addr})
	}
	w.unsure = map[netip.Addr]holding{}
	w.check()
	for _, c := range w.checks {
		if c.settled != nil {
			c.settled(w)
		}
	}
	w.giveUp()
}
