// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// Properties are all of them, in the order of their rules.
func Properties() []Property {
	small4 := []string{"10.0.0.0/27", "10.0.0.0/28", "10.0.0.16/28", "10.0.0.0/29", "10.0.1.0/29", "10.0.0.0/26"}
	small6 := []string{"2001:db8::/125", "2001:db8::/124"}
	small := append(small4, small6...)
	tiny := []string{"10.0.0.0/29", "10.0.0.8/30", "10.0.0.0/28", "10.0.1.0/29", "10.0.2.0/27", "2001:db8::/126", "2001:db8::/125", "2001:db8:1::/127"}
	nested := []string{"10.0.0.0/27", "10.0.0.0/28", "10.0.0.0/28", "10.0.0.16/29", "10.0.1.0/29", "2001:db8::/124", "2001:db8::/125"}
	losses := []fault{lostOnTheWay, lostAnswer, lostAnswerTwice, unavailableReads, lostDelete, failedDelete}
	all := append(losses, refusals[:]...)
	return []Property{
		{
			Name: "Uniqueness", Rule: "I1",
			Says:   "no address is confirmed to two live owners, whatever the replicas' staleness, crashes, lost answers and releases",
			checks: []check{checkUnique()},
			profiles: []profile{{
				replicas: 3, skewed: true, prefixes: small, initial: 2, static: 3, dual: 1,
				allocate: 6, fill: 1, release: 3, create: 1, delete: 1, readiness: 1, controller: 1, deliver: 2, time: 1, restart: 1, relist: 1, foreigners: 1,
				faults: losses, faulty: 3, interruptions: []event{somebodyTakesIt, eventsArrive, timePasses, deleteCIDR}, interrupted: 3, wrongReleases: true,
			}},
		},
		{
			Name: "Linearizable", Rule: "I1",
			Says:   "calls of many goroutines and replicas, all at once, have an order in which each address is a register: taken when free, freed by its owner",
			seeded: linearizable, rounds: 24,
		},
		{
			Name: "InRange", Rule: "I2",
			Says:   "a confirmed address is usable in a CIDR that was ready during the call, or at most a lease before",
			checks: []check{checkInRange()},
			profiles: []profile{{
				replicas: 2, skewed: true, prefixes: tiny, initial: 2, static: 3, dual: 1,
				allocate: 6, fill: 2, release: 1, create: 2, delete: 2, readiness: 3, controller: 1, deliver: 1, time: 3, restart: 1, relist: 1,
				interruptions: []event{deleteCIDR, deleteCIDRAndWait, timePasses, eventsArrive}, interrupted: 3,
			}},
		},
		{
			Name: "NoFalseFull", Rule: "I3",
			Says:   "a refused allocation gives the true reason: Full only if nothing is free, never because of another error or a CIDR that is not ready",
			checks: []check{checkNoFalseFull()},
			profiles: []profile{{
				replicas: 2, prefixes: tiny, initial: 2, static: 3, dual: 1,
				allocate: 7, fill: 5, release: 3, create: 1, delete: 1, readiness: 2, controller: 1, deliver: 3, time: 1, restart: 1, foreigners: 2,
				faults: all, faulty: 3, interruptions: []event{somebodyTakesIt, eventsArrive, deleteCIDR, callerGivesUp}, interrupted: 2,
			}},
		},
		{
			Name: "Synced", Rule: "I3",
			Says:   "until its initial lists are complete a replica refuses every allocation as NotSynced, and never after",
			checks: []check{checkSynced()},
			profiles: []profile{{
				replicas: 2, prefixes: small, initial: 2, static: 3, unsynced: true,
				allocate: 4, release: 1, deliver: 1, restart: 2, foreigners: 1,
			}},
		},
		{
			Name: "BandOrder", Rule: "I4",
			Says:   "no dynamic allocation lands in a static band while any maximal CIDR has a free dynamic address",
			checks: []check{checkBandOrder()},
			profiles: []profile{{
				replicas: 2, prefixes: append([]string{"10.0.2.0/27", "2001:db8:1::/123"}, small...), initial: 2, static: 2,
				allocate: 3, fill: 4, release: 1, create: 1, readiness: 1, deliver: 3, restart: 1, foreigners: 1,
				interruptions: []event{somebodyTakesIt}, interrupted: 2,
			}},
		},
		{
			Name: "Weighted", Rule: "I5",
			Says:   "CIDRs are drawn in proportion to their free addresses, each counted once; full and not ready ones never",
			seeded: weighted, rounds: len(weightedScenarios()),
		},
		{
			Name: "Scan", Rule: "I6",
			Says:   "within a band the pick is that of a walk from a uniform random start to the first free address, with wrap-around",
			seeded: scan, rounds: len(scanScenarios()),
		},
		{
			Name: "FinalizerSafety", Rule: "I7",
			Says:   "every confirmed address is usable in an existing ServiceCIDR, under any interleaving of deletes, allocations, controller and stale caches",
			checks: []check{checkCovered()}, worlds: 2,
			profiles: []profile{
				{ // deletions in the middle of allocations
					replicas: 2, skewed: true, prefixes: nested, initial: 2, static: 2, dual: 1,
					allocate: 8, release: 6, create: 2, delete: 2, controller: 2, deliver: 1, time: 1, restart: 1,
					interruptions: []event{deleteCIDR, deleteCIDRAndWait, deleteCIDRAndWait, deleteCIDRAndAct, deleteCIDRAndAct, controllerActs, waitAndControllerActs, timePasses}, interrupted: 6,
				},
				{ // the workers of a controller that meet equal and nested ServiceCIDRs
					replicas: 2, lateController: true, prefixes: nested[:3], initial: 2,
					allocate: 3, release: 2, create: 2, delete: 4, controller: 7, deliver: 2, time: 1, restart: 1, relist: 1,
				},
			},
		},
		{
			Name: "Fenced", Rule: "I8",
			Says:   "a release, an undo or a clean-up never removes an IPAddress other than the one it read",
			checks: []check{checkFenced()},
			profiles: []profile{{
				replicas: 3, prefixes: small, initial: 2, static: 3,
				allocate: 5, fill: 1, release: 6, deliver: 2, time: 1, restart: 1,
				faults: losses, faulty: 2, interruptions: []event{itChangesHands, eventsArrive}, interrupted: 5, wrongReleases: true,
			}},
		},
		{
			Name: "NoLeak", Rule: "I9",
			Says:   "a failed or rolled-back call leaves nothing behind",
			checks: []check{checkNoLeak()},
			profiles: []profile{{
				replicas: 2, prefixes: small, initial: 2, static: 2, dual: 4,
				allocate: 6, fill: 1, release: 4, delete: 1, readiness: 2, controller: 1, deliver: 2, time: 1, restart: 1, relist: 1, foreigners: 1,
				faults: all, faulty: 5, interruptions: []event{callerGivesUp, deleteCIDR, somebodyTakesIt, timePasses}, interrupted: 5,
			}},
		},
		{
			Name: "Counts", Rule: "I10",
			Says:   "free and used add up to the size, and used equals a recount, for every CIDR, nested or not",
			checks: []check{checkCounts()},
			profiles: []profile{{
				replicas: 2, prefixes: append([]string{"2001:db8::/64"}, small...), initial: 2, static: 2, dual: 1,
				allocate: 4, fill: 1, release: 2, create: 1, delete: 1, readiness: 1, controller: 1, deliver: 4, time: 1, relist: 1, foreigners: 3,
				faults: refusals[:], faulty: 1,
			}},
		},
		{
			Name: "Bounded", Rule: "I11",
			Says:   "an allocation makes one API call, one more per collision, and one to verify; an error that is no AlreadyExists stops it and reaches the caller",
			checks: []check{checkBounded()},
			profiles: []profile{{
				replicas: 3, prefixes: small, initial: 2, static: 3,
				allocate: 6, fill: 2, release: 2, deliver: 1, restart: 1, foreigners: 2,
				faults: refusals[:], faulty: 3, interruptions: []event{somebodyTakesIt}, interrupted: 3,
			}},
		},
	}
}

// everything is one state machine with all checks but Bounded, which holds only while
// no CIDR goes.
func everything() Property {
	p := Property{Name: "Everything", Rule: "I1-I10", Says: "all state machines in one"}
	p.checks = []check{checkUnique(), checkInRange(), checkNoFalseFull(), checkBandOrder(), checkSynced(), checkCovered(), checkFenced(), checkNoLeak(), checkCounts()}
	uniqueness, noLeak, safety := ByName("Uniqueness").profiles[0], ByName("NoLeak").profiles[0], ByName("FinalizerSafety").profiles[0]
	together := uniqueness
	together.faults, together.unsynced = noLeak.faults, true
	together.interruptions = append([]event{callerGivesUp, somebodyTakesIt, itChangesHands, eventsArrive}, safety.interruptions...)
	p.profiles = []profile{together}
	return p
}

// ByName is the property of that name, the zero Property if there is none.
func ByName(name string) Property {
	for _, p := range Properties() {
		if p.Name == name {
			return p
		}
	}
	return Property{}
}

// Uniqueness checks I1.
func Uniqueness(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Uniqueness").Check(t, factory, options...)
}

// Linearizable checks I1 for concurrent calls, best with the race detector. On
// failure it writes a picture of the history and logs where.
func Linearizable(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Linearizable").Check(t, factory, options...)
}

// InRange checks I2.
func InRange(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("InRange").Check(t, factory, options...)
}

// NoFalseFull checks I3, and that every other reason is a true one too.
func NoFalseFull(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("NoFalseFull").Check(t, factory, options...)
}

// Synced checks that nothing is allocated, and no reason invented, before the
// cluster is known.
func Synced(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Synced").Check(t, factory, options...)
}

// BandOrder checks I4.
func BandOrder(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("BandOrder").Check(t, factory, options...)
}

// Weighted checks I5 by statistics: see ErrorProbability.
func Weighted(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Weighted").Check(t, factory, options...)
}

// Scan checks I6 by statistics: see ErrorProbability.
func Scan(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Scan").Check(t, factory, options...)
}

// FinalizerSafety checks I7, for the allocator and the controller together.
func FinalizerSafety(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("FinalizerSafety").Check(t, factory, options...)
}

// Fenced checks I8.
func Fenced(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Fenced").Check(t, factory, options...)
}

// NoLeak checks I9.
func NoLeak(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("NoLeak").Check(t, factory, options...)
}

// Counts checks I10, if the allocator is a Counter.
func Counts(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Counts").Check(t, factory, options...)
}

// Bounded checks I11.
func Bounded(t *testing.T, factory Factory, options ...Option) {
	t.Helper()
	ByName("Bounded").Check(t, factory, options...)
}

// All checks every property, each in a subtest of its name.
func All(t *testing.T, factory Factory, options ...Option) {
	for _, p := range Properties() {
		t.Run(p.Name, func(t *testing.T) { p.Check(t, factory, options...) })
	}
}

// Fuzz runs one state machine with all checks under go test -fuzz. Without -fuzz it
// runs a few fixed inputs. Goroutines make the coverage of an input differ from run
// to run, so let the engine not try to shorten it: -fuzzminimizetime=1x.
func Fuzz(f *testing.F, factory Factory, options ...Option) {
	for seed := range uint64(8) {
		f.Add(randomInput(seed))
	}
	f.Fuzz(everything().Fuzz(factory, options...))
}

// randomInput is what a case of a fuzz target is drawn from.
func randomInput(seed uint64) []byte {
	source, input := rand.NewPCG(seed, 7), make([]byte, 8<<10)
	for i := 0; i < len(input); i += 8 {
		binary.LittleEndian.PutUint64(input[i:], source.Uint64())
	}
	return input
}
