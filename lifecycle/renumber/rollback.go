// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNothingToUndo: no step beyond the given one was begun.
var ErrNothingToUndo = errors.New("nothing to undo")

// Inverse makes the plan that takes back what a run has done after a step; 0 takes
// back all. The same Runner carries it out, with the journal of the run as
// Config.Undone.
//
// A range that was deleted does not come back under its name while something holds
// the old object. So a twin, a ServiceCIDR with the same ranges, stands in for it
// until it is there again. Phase by phase, the last one first:
//
//	twin of the old ranges, ready
//	Services back, if they moved after the hand-over
//	the ServiceCIDR that the plan has made is deleted
//	hand-over to the old flags; Service kubernetes back; the default ServiceCIDR deleted, so that the API server makes the old one
//	Services back, if they moved before the hand-over
//	the old default, or the old one by its name, is there
//	the twin goes; the one that the plan has made is gone
//
// Errors: ErrNothingToUndo; ErrInvalidRequest if there is no stable state after that step.
func Inverse(p *Plan, entries []Entry, toStep int, name string, now metav1.Time) (*Plan, error) {
	begun := map[int]bool{}
	for _, e := range entries {
		if e.Type == StepBegun && e.Step > toStep {
			begun[e.Step] = true
		}
	}
	if toStep < 0 || toStep > len(p.Steps) {
		return nil, refuse("there is no step %d: the plan has %d", toStep, len(p.Steps))
	}
	if len(begun) == 0 {
		return nil, fmt.Errorf("%w: no step after %d of plan %s was begun", ErrNothingToUndo, toStep, p.Name)
	}
	back := &Plan{
		TypeMeta: p.TypeMeta, Name: name, CreatedAt: now, Cluster: p.Cluster, Request: p.Request,
		ServiceCIDRs: p.ServiceCIDRs, Services: slices.Clone(p.Services), Undoes: p.Name,
	}
	for i := range back.Services {
		row := &back.Services[i]
		row.To, row.From = row.From, nil
	}
	phases := 0
	for _, s := range p.Steps {
		phases = max(phases, s.Phase)
	}
	r := &recipe{request: p.Request, name: name, back: true}
	for phase := phases; phase >= 0; phase-- {
		var steps []Step
		for _, s := range p.Steps {
			if s.Phase == phase {
				steps = append(steps, s)
			}
		}
		if err := r.undo(p, steps, begun); err != nil {
			return nil, err
		}
		r.phase++
	}
	for i := range r.steps {
		r.steps[i].ID = i + 1
	}
	back.Steps = r.steps
	return back, nil
}

// undo appends what takes back the steps of one phase.
func (r *recipe) undo(p *Plan, steps []Step, begun map[int]bool) error {
	var made, deleted, handed, renewed, moved *Step
	for i := range steps {
		s := &steps[i]
		switch {
		case s.Kind == DeleteServiceCIDR && (made == nil || s.ServiceCIDR.Name != made.ServiceCIDR.Name):
			// Not begun counts too: a Service does not go back into a range that stays deleted.
			deleted = s
		case !begun[s.ID]:
			if s.Kind == CreateServiceCIDR {
				// Made by the plan, and it stays.
				made = &Step{Kind: s.Kind, ServiceCIDR: s.ServiceCIDR}
			}
		case s.Kind == CreateServiceCIDR:
			made = s
		case s.Kind == HandOver:
			handed = s
		case s.Kind == RenewKubernetes:
			renewed = s
		case s.Kind == MoveServices:
			moved = s
		}
	}
	undoDelete := deleted != nil && begun[deleted.ID]
	if moved != nil && deleted != nil && deleted.ID < moved.ID && !undoDelete {
		return refuse("step %d moves Services out of a range that step %d deletes: to bring them back, roll back to step %d or before", moved.ID, deleted.ID, deleted.ID-1)
	}
	if renewed != nil && deleted != nil && deleted.ID < renewed.ID && !undoDelete {
		return refuse("step %d moves Service default/kubernetes out of a range that step %d deletes: roll back to step %d or before", renewed.ID, deleted.ID, deleted.ID-1)
	}
	undoMade := made != nil && begun[made.ID]
	if !undoMade && !undoDelete && handed == nil && renewed == nil && moved == nil {
		return nil
	}
	var before []string
	switch {
	case handed != nil:
		before = handed.Before
	case deleted != nil:
		before = deleted.ServiceCIDR.CIDRs
	}
	var twin *StepServiceCIDR
	if undoDelete || handed != nil {
		twin = &StepServiceCIDR{Name: r.name, CIDRs: before}
		if n := len(r.steps); n > 0 {
			twin.Name += "-" + strconv.Itoa(n)
		}
		r.create(twin)
	}
	moveBack := func() {
		if moved == nil {
			return
		}
		target := &Target{Back: true, Drop: moved.Target.Add}
		if len(moved.Target.Leave) > 0 && made != nil {
			for _, c := range made.ServiceCIDR.CIDRs {
				if !slices.Contains(before, c) {
					target.Leave = append(target.Leave, c)
				}
			}
			target.Stay = before
		}
		r.add(MoveServices, "give the Services back what they had", Step{Target: target, Undoes: moved.ID})
	}
	afterHandOver := moved != nil && slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == HandOver && s.ID < moved.ID })
	if afterHandOver {
		moveBack()
	}
	if undoMade {
		r.delete(made.ServiceCIDR, "the plan has made it")
	}
	if handed != nil {
		r.handOver(handed.Ranges, handed.Before)
	}
	if renewed != nil {
		r.renew(before)
		r.steps[len(r.steps)-1].Undoes = renewed.ID
	}
	if handed != nil {
		r.delete(&StepServiceCIDR{Name: DefaultServiceCIDR, CIDRs: handed.Ranges}, "the API server makes it again from its flag")
	}
	if !afterHandOver {
		moveBack()
	}
	if handed != nil || undoDelete && deleted.ServiceCIDR.Name == DefaultServiceCIDR {
		r.awaitDefault(before)
	} else if undoDelete {
		r.create(deleted.ServiceCIDR)
	}
	if twin != nil {
		r.delete(twin, "what it stood in for is there again")
		r.gone(twin)
	}
	if undoMade {
		r.gone(made.ServiceCIDR)
	}
	return nil
}
