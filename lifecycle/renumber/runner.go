// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/cidr"
)

// Config is what a Runner works with.
type Config struct {
	API     API
	Plan    *Plan
	Journal Journal
	// Undone is the journal of the plan that Plan undoes; nil if it undoes none.
	Undone Journal

	// MaxInFlight is how many Services move at the same time; 0 means 1.
	MaxInFlight int
	// BatchSize is how many Services are journalled in one write, and moved before the
	// next ones; 0 means 50.
	BatchSize int
	// PauseBetween is how long to wait between batches.
	PauseBetween time.Duration
	// Namespaces and Selector choose which Services move; the run then ends with
	// ErrPaused where it would go on to what needs all of them. Empty means all.
	Namespaces []string
	Selector   labels.Selector

	// Ask asks the operator whether a step that waits for the operator may go on. No is
	// ErrWaiting. Nil means no.
	Ask func(ctx context.Context, step Step, question string) (bool, error)
	// Observe sees every change of the journal, and what a gate waits for. It may be called concurrently.
	// Nil: nobody does.
	Observe func(Event)
	// Paused asks whether somebody wants a pause. Nil: nobody does.
	Paused func(ctx context.Context) (bool, error)
	// Recorder writes events on the objects; nil means none.
	Recorder events.EventRecorder

	// GateTimeout is how long a gate is waited for; 0 means 10 minutes: an address that a crash of kube-apiserver has
	// left behind is collected by its repair loop, which comes every 3 minutes.
	// HandOverTimeout is the same for HandOver, with 0 for not at all: what is not
	// there yet, is asked for.
	GateTimeout, HandOverTimeout time.Duration
	// Poll is how often a gate looks; 0 means 1 second.
	Poll time.Duration
	// CallTimeout bounds a call; 0 means 30 seconds. Patience is how long a server that
	// does not answer is waited for; 0 means 2 minutes.
	CallTimeout, Patience time.Duration
	// Clock is the real one if nil.
	Clock clock.WithTicker
	// Random draws an address where the one that was asked for is taken; nil means a generator with a seed of the
	// operating system's.
	Random rand.Source
}

// Event is what a run does, for people.
type Event struct {
	// Entry is what went into the journal; nil for a mere message.
	Entry *Entry
	Step  Step
	// Message is a sentence.
	Message string
	// Done and Total count the Services of the step.
	Done, Total int
}

// Runner carries a plan out.
//
// It may be killed at any moment: what it does next is read off the cluster and the
// journal. Run again, it goes on; with the plan of Inverse, it goes back.
type Runner struct {
	cfg   Config
	plan  *Plan
	clock clock.WithTicker
	stop  chan struct{}
	once  sync.Once

	mu  sync.Mutex // guards what follows
	seq int64
	// done and total are of the step.
	done, total int
}

// NewRunner checks the configuration. Errors: ErrInvalidPlan.
func NewRunner(cfg Config) (*Runner, error) {
	if cfg.API == nil || cfg.Plan == nil || cfg.Journal == nil {
		return nil, fmt.Errorf("%w: a runner needs an API, a plan and a journal", ErrInvalidPlan)
	}
	if err := cfg.Plan.validate(); err != nil {
		return nil, err
	}
	cfg.MaxInFlight = defaulted(cfg.MaxInFlight, 1)
	cfg.BatchSize = max(defaulted(cfg.BatchSize, 50), cfg.MaxInFlight)
	cfg.GateTimeout = defaulted(cfg.GateTimeout, 10*time.Minute)
	cfg.Poll = defaulted(cfg.Poll, time.Second)
	cfg.CallTimeout = defaulted(cfg.CallTimeout, 30*time.Second)
	cfg.Patience = defaulted(cfg.Patience, 2*time.Minute)
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.NewPCG(rand.Uint64(), rand.Uint64())
	}
	return &Runner{cfg: cfg, plan: cfg.Plan, clock: cfg.Clock, stop: make(chan struct{})}, nil
}

// draw is a random number below n, which is not 0.
func (r *Runner) draw(n cidr.Uint128) cidr.Uint128 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cidr.RandBelow(r.cfg.Random, n)
}

func defaulted[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Interrupt has Run end with ErrInterrupted as soon as the Services in hand are whole. It may be called at any time.
func (r *Runner) Interrupt() { r.once.Do(func() { close(r.stop) }) }

func (r *Runner) interrupted() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

// history is what the journal says.
type history struct {
	done         map[int]bool
	acknowledged map[int]bool
	// holders are the API servers when the run began, or after the last hand-over.
	holders map[string]string
	// intents are the latest of each Service in each step, closed the moves that ended.
	intents map[int]map[string]Entry
	closed  map[int]map[string]Entry
	last    int64
}

func readHistory(entries []Entry) *history {
	h := &history{done: map[int]bool{}, acknowledged: map[int]bool{}, intents: map[int]map[string]Entry{}, closed: map[int]map[string]Entry{}}
	put := func(in map[int]map[string]Entry, e Entry) {
		if in[e.Step] == nil {
			in[e.Step] = map[string]Entry{}
		}
		in[e.Step][e.Service] = e
	}
	for _, e := range entries {
		h.last = max(h.last, e.Seq)
		switch e.Type {
		case StepBegun:
			if h.holders == nil {
				h.holders = e.Holders
			}
		case StepDone:
			h.done[e.Step] = true
			if e.Holders != nil {
				h.holders = e.Holders
			}
		case Acknowledged:
			h.acknowledged[e.Step] = true
		case Intent:
			put(h.intents, e)
			delete(h.closed[e.Step], e.Service)
		case Moved, Left:
			put(h.closed, e)
		}
	}
	return h
}

// open are the Services of a step whose move was begun and has not ended.
func (h *history) open(step int) map[string]Entry {
	open := maps.Clone(h.intents[step])
	for k := range h.closed[step] {
		delete(open, k)
	}
	return open
}

// Run carries the plan out from where the journal says it is. It returns nil when the
// plan is done; a *StepError says where it ended otherwise.
//
// An API call that has been begun is not cut when ctx ends by Interrupt; when ctx
// itself ends, it is, as by a crash.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.cfg.Journal.Begin(ctx, r.plan); err != nil {
		return err
	}
	if healing, ok := r.cfg.Journal.(interface{ Heal(context.Context) error }); ok {
		if err := healing.Heal(ctx); err != nil {
			return err
		}
	}
	entries, err := r.cfg.Journal.Entries(ctx)
	if err != nil {
		return err
	}
	h := readHistory(entries)
	r.seq = h.last
	for _, step := range r.plan.Steps {
		if h.done[step.ID] {
			continue
		}
		if err := r.step(ctx, step, h); err != nil {
			err = &StepError{Step: step, Err: err}
			if ctx.Err() == nil {
				// What the journal says is for people; the run has ended all the same.
				err = errors.Join(err, r.append(ctx, Entry{Type: Stopped, Step: step.ID, Message: err.Error()}))
			}
			return err
		}
	}
	return r.append(ctx, Entry{Type: Finished})
}

// step does one step, and waits for its gate.
func (r *Runner) step(ctx context.Context, step Step, h *history) error {
	if r.interrupted() {
		return ErrInterrupted
	}
	if err := r.pause(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	r.done, r.total = 0, 0
	r.mu.Unlock()
	begun := Entry{Type: StepBegun, Step: step.ID, Message: step.Title}
	if h.holders == nil {
		holders, err := r.holders(ctx)
		if err != nil {
			return err
		}
		begun.Holders, h.holders = holders, holders
	}
	if err := r.append(ctx, begun); err != nil {
		return err
	}
	do := map[StepKind]func(context.Context, Step, *history) error{
		CreateServiceCIDR: r.createServiceCIDR,
		DeleteServiceCIDR: r.deleteServiceCIDR,
		Acknowledge:       r.acknowledge,
		MoveServices:      r.moveServices,
		HandOver:          r.handOver,
		RenewKubernetes:   r.renewKubernetes,
		AwaitDefault:      r.awaitDefault,
		AwaitGone:         r.awaitGone,
		Verify:            r.verify,
	}[step.Kind]
	if err := do(ctx, step, h); err != nil {
		return err
	}
	ended := Entry{Type: StepDone, Step: step.ID, Message: step.Title}
	if step.Kind == HandOver {
		holders, err := r.holders(ctx)
		if err != nil {
			return err
		}
		ended.Holders, h.holders = holders, holders
	}
	return r.append(ctx, ended)
}

func (r *Runner) pause(ctx context.Context) error {
	if r.cfg.Paused == nil {
		return nil
	}
	paused, err := r.cfg.Paused(ctx)
	if err == nil && paused {
		return ErrPaused
	}
	return err
}

// append numbers entries, writes them and shows them. It waits for servers that do
// not answer.
func (r *Runner) append(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	r.mu.Lock()
	now := metav1.NewMicroTime(r.clock.Now().UTC())
	for i := range entries {
		r.seq++
		entries[i].Seq, entries[i].Time = r.seq, now
	}
	r.mu.Unlock()
	if err := r.cfg.Journal.Append(ctx, entries...); err != nil {
		return err
	}
	for i := range entries {
		r.observe(Event{Entry: &entries[i], Message: entries[i].Message})
	}
	return nil
}

func (r *Runner) observe(e Event) {
	if r.cfg.Observe == nil {
		return
	}
	r.mu.Lock()
	e.Done, e.Total = r.done, r.total
	r.mu.Unlock()
	if e.Entry != nil && e.Entry.Step > 0 {
		e.Step = r.plan.Steps[e.Entry.Step-1]
	}
	r.cfg.Observe(e)
}

// event writes one on an object, if events are wanted.
func (r *Runner) event(object runtime.Object, kind, reason, action, message string) {
	if r.cfg.Recorder != nil {
		r.cfg.Recorder.Eventf(object, nil, kind, reason, action, "%s", message)
	}
}

// chosen tells whether a Service is among those that this run may move.
func (r *Runner) chosen(svc *corev1.Service) bool {
	if len(r.cfg.Namespaces) > 0 && !slices.Contains(r.cfg.Namespaces, svc.Namespace) {
		return false
	}
	return r.cfg.Selector == nil || r.cfg.Selector.Matches(labels.Set(svc.Labels))
}
