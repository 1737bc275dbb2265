// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// moveServices moves what the step is about, batch by batch. A batch is journalled
// whole before the first of it is touched.
//
//	what the journal left open ─┐
//	what the cluster shows ─────┴─► in order ─► batches: intents ─► move, several at a time ─► moved
//
// The order: workloads, then the cluster's DNS.
func (r *Runner) moveServices(ctx context.Context, step Step, h *history) error {
	work, held, err := r.work(ctx, step, h)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.total = len(work)
	r.mu.Unlock()
	for batch := range slices.Chunk(work, r.cfg.BatchSize) {
		if err := r.batch(ctx, step, batch); err != nil {
			return err
		}
		if r.interrupted() {
			return ErrInterrupted
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
		if r.cfg.PauseBetween > 0 && !r.sleepOrStop(ctx, r.cfg.PauseBetween) {
			return errors.Join(ErrInterrupted, ctx.Err())
		}
	}
	return r.allMoved(ctx, step, held)
}

// job is a move to be done.
type job struct {
	move *move
	live *corev1.Service // as listed; nil if only the journal knows it
	old  bool            // the journal has its intent
	last bool            // after the others
}

// work lists the moves of a step. held are Services that should move and may not.
func (r *Runner) work(ctx context.Context, step Step, h *history) (work []job, held []string, err error) {
	rows := r.plan.rows()
	open := h.open(step.ID)
	before, err := r.before(ctx, step)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	err = r.persist(ctx, func(ctx context.Context) error {
		work, held = nil, nil
		clear(seen)
		return eachService(ctx, r.cfg.API, func(svc *corev1.Service) {
			k := key(svc)
			seen[k] = true
			row := rows[k]
			if e, begun := open[k]; begun {
				work = append(work, r.job(step, e, svc, row, before[k]))
				return
			}
			_, ended := h.closed[step.ID][k]
			if e, begun := before[k]; begun && !ended && e.Type == Intent {
				// The plan that is undone was cut while it moved this one: it may be anywhere on
				// its way.
				work = append(work, r.fresh(step, e.Original, svc, row, e))
				return
			}
			if h.closed[step.ID][k].Type == Left || !r.movable(svc, step) {
				return
			}
			if !r.wanted(step, svc, row, before[k]).met(svc) {
				switch {
				case row != nil && row.Action == ActionHold, row == nil && r.unasked(svc, step):
					held = append(held, k)
				case r.chosen(svc):
					work = append(work, r.fresh(step, svc, svc, row, before[k]))
				default:
					held = append(held, k)
				}
			}
		})
	})
	if err != nil {
		return nil, nil, err
	}
	// Deleted, and not yet made again.
	for k, e := range open {
		if !seen[k] {
			work = append(work, r.job(step, e, nil, rows[k], before[k]))
		}
	}
	for k, e := range before {
		if _, ours := open[k]; !seen[k] && !ours && e.Type == Intent && e.Strategy == Recreate && h.closed[step.ID][k].Type == "" {
			work = append(work, r.fresh(step, e.Original, nil, rows[k], e))
		}
	}
	slices.SortStableFunc(work, func(a, b job) int {
		if a.last != b.last {
			if a.last {
				return 1
			}
			return -1
		}
		return cmp.Compare(key(a.move.original), key(b.move.original))
	})
	return work, held, nil
}

// movable leaves out what has no address to move, and what belongs to the API server.
func (r *Runner) movable(svc *corev1.Service, step Step) bool {
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return false
	case isKubernetes(svc):
		// Its own step.
		return false
	case isHeadless(svc):
		return step.Target.Add != "" || step.Target.Drop != "" || step.Target.First != "" || step.Target.Back
	case svc.DeletionTimestamp != nil:
		return false
	}
	return true
}

// unasked tells whether a Service that the plan does not know needs a flag that the plan does not have.
func (r *Runner) unasked(svc *corev1.Service, step Step) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !r.plan.Request.LoadBalancers && !step.Target.Back
}

// wanted is what a step wants of a Service. row is nil if the plan does not know it.
func (r *Runner) wanted(step Step, svc *corev1.Service, row *Row, before Entry) want {
	if step.Target.Back {
		if before.Original != nil {
			return wantsBack(before.Original)
		}
		return wants(svc, step.Target, nil)
	}
	var chosen []string
	if row != nil {
		chosen = row.To
	}
	return wants(svc, step.Target, chosen)
}

// fresh is a move that is not in the journal yet.
func (r *Runner) fresh(step Step, original, live *corev1.Service, row *Row, before Entry) job {
	strategy := r.plan.Request.Strategy
	switch {
	case before.Strategy != "":
		strategy = before.Strategy
	case row != nil && row.Strategy != "":
		strategy = row.Strategy
	}
	if len(original.Finalizers) > 0 {
		strategy = InPlace
	}
	return job{live: live, last: row != nil && row.Class == ClassDNS, move: &move{
		r: r, step: step.ID, original: original, strategy: strategy, begun: before.Type == Intent,
		want: r.wanted(step, original, row, before),
	}}
}

// job is a move that the journal knows.
func (r *Runner) job(step Step, e Entry, live *corev1.Service, row *Row, before Entry) job {
	j := r.fresh(step, e.Original, live, row, before)
	j.old, j.move.strategy, j.move.begun = true, e.Strategy, true
	return j
}

// before are the intents of the plan that this one undoes: the first of each Service
// in the steps that are taken back. Those of a move that has ended are of type Moved,
// those of one that was cut are of type Intent.
func (r *Runner) before(ctx context.Context, step Step) (map[string]Entry, error) {
	if step.Undoes == 0 {
		return nil, nil
	}
	if r.cfg.Undone == nil {
		return nil, fmt.Errorf("%w: the journal of %s is needed to undo it", ErrNoJournal, r.plan.Undoes)
	}
	entries, err := r.cfg.Undone.Entries(ctx)
	if err != nil {
		return nil, err
	}
	first := map[string]Entry{}
	for _, e := range entries {
		if e.Step != step.Undoes {
			continue
		}
		f, known := first[e.Service]
		switch {
		case e.Type == Intent && !known:
			first[e.Service] = e
		case e.Type == Intent:
			f.Type = Intent
			first[e.Service] = f
		case e.Type == Moved && known:
			f.Type = Moved
			first[e.Service] = f
		case e.Type == Left && known && f.Original != nil:
			delete(first, e.Service)
		}
	}
	return first, nil
}

// batch journals and moves. The first error ends it, when those in hand are whole.
func (r *Runner) batch(ctx context.Context, step Step, batch []job) error {
	var intents []Entry
	for _, j := range batch {
		if !j.old {
			intents = append(intents, Entry{Type: Intent, Step: step.ID, Service: key(j.move.original), Original: j.move.original, Strategy: j.move.strategy})
		}
	}
	if err := r.append(ctx, intents...); err != nil {
		return err
	}
	var (
		mu      sync.Mutex
		failed  []error
		ended   []Entry
		workers sync.WaitGroup
	)
	queue := make(chan job)
	for range min(r.cfg.MaxInFlight, len(batch)) {
		workers.Go(func() {
			for j := range queue {
				entry, err := r.one(ctx, j)
				mu.Lock()
				if err != nil {
					failed = append(failed, err)
				} else {
					ended = append(ended, entry...)
				}
				mu.Unlock()
			}
		})
	}
	for _, j := range batch {
		mu.Lock()
		stop := len(failed) > 0
		mu.Unlock()
		if stop || r.interrupted() {
			break
		}
		queue <- j
	}
	close(queue)
	workers.Wait()
	// Also what went well before a failure.
	return errors.Join(append(failed, r.append(ctx, ended...))...)
}

// one moves a Service, and says what became of it.
func (r *Runner) one(ctx context.Context, j job) ([]Entry, error) {
	m := j.move
	k := key(m.original)
	from := m.original.Spec.ClusterIPs
	out, err := m.run(ctx, j.live)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.done++
	r.mu.Unlock()
	var entries []Entry
	for _, told := range out.told {
		entries = append(entries, Entry{Type: Told, Step: m.step, Service: k, Message: told})
	}
	if out.left != "" {
		return append(entries, Entry{Type: Left, Step: m.step, Service: k, Message: out.left}), nil
	}
	message := fmt.Sprintf("%s -> %s", strings.Join(from, ","), strings.Join(out.live.Spec.ClusterIPs, ","))
	if slices.Equal(from, out.live.Spec.ClusterIPs) {
		message = fmt.Sprintf("%v -> %v", m.original.Spec.IPFamilies, out.live.Spec.IPFamilies)
	}
	r.event(out.live, corev1.EventTypeNormal, "Renumbered", "Renumber", message+" by plan "+r.plan.Name)
	entry := Entry{Type: Moved, Step: m.step, Service: k, From: from, To: out.live.Spec.ClusterIPs, Gap: out.gap.Microseconds(), Strategy: m.strategy, Message: message}
	r.observe(Event{Step: r.plan.Steps[m.step-1], Message: k + ": " + message})
	return append(entries, entry), nil
}

// allMoved is the gate of moveServices.
func (r *Runner) allMoved(ctx context.Context, step Step, held []string) error {
	if len(held) > 0 {
		slices.Sort(held)
		const shown = 5
		more := ""
		if len(held) > shown {
			more = fmt.Sprintf(" and %d more", len(held)-shown)
		}
		why := "a flag of the plan would move them"
		if len(r.cfg.Namespaces) > 0 || r.cfg.Selector != nil {
			why = "resume without a selector moves them"
		}
		return fmt.Errorf("%w: %d Services still to be moved, %s%s: %s", ErrPaused, len(held), strings.Join(held[:min(shown, len(held))], ", "), more, why)
	}
	entries, err := r.cfg.Journal.Entries(ctx)
	if err != nil {
		return err
	}
	again, held, err := r.work(ctx, step, readHistory(entries))
	if err != nil {
		return err
	}
	if len(again)+len(held) > 0 {
		names := map[string]bool{}
		for _, j := range again {
			names[key(j.move.original)] = true
		}
		return fmt.Errorf("%w: Services came or changed meanwhile, %s: resume moves them", ErrGate, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return nil
}
