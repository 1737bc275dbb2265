// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EntryType is what an entry of the journal says.
type EntryType string

// The types of entries.
const (
	// StepBegun and StepDone bracket a step; StepDone means that its gate was passed.
	StepBegun EntryType = "StepBegun"
	StepDone  EntryType = "StepDone"
	// Intent holds a Service as it is, before the first call that destroys anything of it.
	Intent EntryType = "Intent"
	// Moved: the Service of an Intent has all that the step wants, and all that it had.
	Moved EntryType = "Moved"
	// Left: the Service of an Intent was not moved, or not wholly; Message says why.
	Left EntryType = "Left"
	// Told is something that the operator should know.
	Told EntryType = "Told"
	// Acknowledged: the operator has said that the step may go on.
	Acknowledged EntryType = "Acknowledged"
	// Stopped: the run ended before its plan did; Message says why.
	Stopped EntryType = "Stopped"
	// Finished: the plan is done.
	Finished EntryType = "Finished"
	// Undone: the plan that Message names takes this one back. It is not resumed.
	Undone EntryType = "Undone"
)

// Entry is one line of the journal.
type Entry struct {
	// Seq counts from 1; Time is the runner's clock.
	Seq  int64            `json:"seq"`
	Time metav1.MicroTime `json:"time"`
	Type EntryType        `json:"type"`
	Step int              `json:"step,omitempty"`
	// Service is "namespace/name".
	Service string `json:"service,omitempty"`
	// Original, of an Intent, is all of it.
	Original *corev1.Service `json:"original,omitempty"`
	Strategy Strategy        `json:"strategy,omitempty"`
	// From and To, of a Moved, are its addresses before and after.
	From []string `json:"from,omitempty"`
	To   []string `json:"to,omitempty"`
	// Gap, of a Moved, is how long it had no address, in microseconds.
	Gap int64 `json:"gapMicroseconds,omitempty"`
	// Holders are the API servers' processes: of the first StepBegun, and of the
	// StepDone of a HandOver.
	Holders map[string]string `json:"holders,omitempty"`
	Message string            `json:"message,omitempty"`
}

// Journal is where the runner writes what it is about to destroy, before it does.
type Journal interface {
	// Plan returns the plan, or an error that errors.Is ErrNoJournal.
	Plan(ctx context.Context) (*Plan, error)
	// Begin makes the journal, with its plan. It is a no-op if it is there.
	Begin(ctx context.Context, p *Plan) error
	// Append is durable when it returns without an error.
	Append(ctx context.Context, entries ...Entry) error
	// Entries returns what was appended, in order. ErrNoJournal if there is none.
	Entries(ctx context.Context) ([]Entry, error)
}

// ErrNoJournal: there is no journal of that plan in that place.
var ErrNoJournal = errors.New("no journal")

// Both keeps two journals the same: an entry is in both, or the call that it was
// written for is not made. Either of them is enough to resume by.
//
// What one of them lacks, since it was lost or a crash came between, it is given by
// Heal.
type Both struct{ Local, Cluster Journal }

var _ Journal = Both{}

// Plan returns that of the first that has it.
func (b Both) Plan(ctx context.Context) (*Plan, error) {
	p, err := b.Local.Plan(ctx)
	if err == nil || !errors.Is(err, ErrNoJournal) {
		return p, err
	}
	return b.Cluster.Plan(ctx)
}

// Begin makes both.
func (b Both) Begin(ctx context.Context, p *Plan) error {
	if err := b.Local.Begin(ctx, p); err != nil {
		return err
	}
	return b.Cluster.Begin(ctx, p)
}

// Append appends to both at the same time.
func (b Both) Append(ctx context.Context, entries ...Entry) error {
	var local error
	var writing sync.WaitGroup
	writing.Go(func() { local = b.Local.Append(ctx, entries...) })
	remote := b.Cluster.Append(ctx, entries...)
	writing.Wait()
	return errors.Join(local, remote)
}

// Entries returns those of both, each once.
func (b Both) Entries(ctx context.Context) ([]Entry, error) {
	local, remote, err := b.read(ctx)
	if err != nil {
		return nil, err
	}
	return merged(local, remote), nil
}

func (b Both) read(ctx context.Context) (local, remote []Entry, err error) {
	local, localErr := b.Local.Entries(ctx)
	remote, remoteErr := b.Cluster.Entries(ctx)
	switch {
	case localErr != nil && !errors.Is(localErr, ErrNoJournal):
		return nil, nil, localErr
	case remoteErr != nil && !errors.Is(remoteErr, ErrNoJournal):
		return nil, nil, remoteErr
	case localErr != nil && remoteErr != nil:
		return nil, nil, errors.Join(localErr, remoteErr)
	}
	return local, remote, nil
}

// Heal gives each what only the other has.
func (b Both) Heal(ctx context.Context) error {
	p, err := b.Plan(ctx)
	if err != nil {
		return err
	}
	if err := b.Begin(ctx, p); err != nil {
		return err
	}
	local, remote, err := b.read(ctx)
	if err != nil {
		return err
	}
	if missing := lacking(local, remote); len(missing) > 0 {
		if err := b.Local.Append(ctx, missing...); err != nil {
			return fmt.Errorf("the local journal is behind that of the cluster, and cannot be completed: %w", err)
		}
	}
	if missing := lacking(remote, local); len(missing) > 0 {
		if err := b.Cluster.Append(ctx, missing...); err != nil {
			return fmt.Errorf("the cluster's journal is behind the local one, and cannot be completed: %w", err)
		}
	}
	return nil
}

// identity tells entries apart. A runner that was killed may have written a number to
// one journal only, and its successor, with that one lost, the same number again.
type identity struct {
	seq  int64
	time int64
	kind EntryType
	key  string
}

func (e Entry) identity() identity {
	return identity{e.Seq, e.Time.UnixMicro(), e.Type, e.Service}
}

func lacking(have, other []Entry) []Entry {
	in := make(map[identity]bool, len(have))
	for _, e := range have {
		in[e.identity()] = true
	}
	return slices.DeleteFunc(slices.Clone(other), func(e Entry) bool { return in[e.identity()] })
}

func merged(a, b []Entry) []Entry {
	all := append(slices.Clone(a), lacking(a, b)...)
	sortEntries(all)
	return all
}

func sortEntries(all []Entry) {
	slices.SortStableFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Time.UnixMicro(), b.Time.UnixMicro()))
	})
}
