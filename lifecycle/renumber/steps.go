// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
)

// kubernetesService is the API server's own, in namespace default.
const kubernetesService = "kubernetes"

// gate looks until what it looks for is there. why says what is missing.
func (r *Runner) gate(ctx context.Context, step Step, timeout time.Duration, look func(context.Context) (why string, err error)) error {
	begin, said := r.clock.Now(), ""
	for {
		var why string
		err := r.persist(ctx, func(ctx context.Context) (err error) {
			why, err = look(ctx)
			return err
		})
		switch {
		case err != nil:
			return err
		case why == "":
			return nil
		case r.clock.Since(begin) >= timeout:
			return fmt.Errorf("%w within %s: %s", ErrGate, timeout, why)
		case why != said:
			said = why
			r.observe(Event{Step: step, Message: "waiting: " + why})
		}
		if !r.sleepOrStop(ctx, r.cfg.Poll) {
			return errors.Join(ErrInterrupted, ctx.Err())
		}
	}
}

// sleepOrStop is sleep that Interrupt ends too.
func (r *Runner) sleepOrStop(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return r.sleep(ctx, d)
}

// serviceCIDR returns nil if there is none of that name.
func (r *Runner) serviceCIDR(ctx context.Context, name string) (*networkingv1.ServiceCIDR, error) {
	s, err := r.cfg.API.ServiceCIDRs().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return s, err
}

func isReady(s *networkingv1.ServiceCIDR) bool {
	return s.DeletionTimestamp == nil && isReadyCondition(s)
}

// readiness says what keeps a ServiceCIDR from being ready.
func readiness(s *networkingv1.ServiceCIDR) string {
	switch condition := apimeta.FindStatusCondition(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady); {
	case isReady(s):
		return ""
	case s.DeletionTimestamp != nil:
		return fmt.Sprintf("ServiceCIDR %s is being deleted", s.Name)
	case condition == nil:
		return fmt.Sprintf("ServiceCIDR %s has no condition Ready yet: does kube-controller-manager run?", s.Name)
	default:
		return fmt.Sprintf("ServiceCIDR %s is not ready: %s", s.Name, condition.Message)
	}
}

func (r *Runner) createServiceCIDR(ctx context.Context, step Step, _ *history) error {
	want := step.ServiceCIDR
	return r.gate(ctx, step, r.cfg.GateTimeout, func(ctx context.Context) (string, error) {
		s, err := r.serviceCIDR(ctx, want.Name)
		if err != nil {
			return "", err
		}
		switch {
		case s == nil:
			_, err := r.cfg.API.ServiceCIDRs().Create(ctx, &networkingv1.ServiceCIDR{
				ObjectMeta: metav1.ObjectMeta{Name: want.Name, Labels: withPlan(want.Labels, r.plan.Name), Annotations: want.Annotations},
				Spec:       networkingv1.ServiceCIDRSpec{CIDRs: want.CIDRs},
			}, metav1.CreateOptions{FieldManager: FieldManager})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return "", err
			}
			return "it was just made", nil
		case s.DeletionTimestamp != nil:
			return readiness(s), nil
		case !slices.Equal(s.Spec.CIDRs, want.CIDRs):
			return "", fmt.Errorf("ServiceCIDR %s is there, with %s and not %s: delete it or plan with another --name", s.Name, strings.Join(s.Spec.CIDRs, ","), strings.Join(want.CIDRs, ","))
		}
		return readiness(s), nil
	})
}

func withPlan(labels map[string]string, plan string) map[string]string {
	out := map[string]string{LabelPlan: plan}
	for k, v := range labels {
		if k != LabelPlan {
			out[k] = v
		}
	}
	return out
}

func (r *Runner) deleteServiceCIDR(ctx context.Context, step Step, _ *history) error {
	want := step.ServiceCIDR
	return r.gate(ctx, step, r.cfg.GateTimeout, func(ctx context.Context) (string, error) {
		s, err := r.serviceCIDR(ctx, want.Name)
		switch {
		case err != nil:
			return "", err
		case s == nil, !slices.Equal(s.Spec.CIDRs, want.CIDRs):
			// Gone, and perhaps made again from another flag already.
			return "", nil
		case s.DeletionTimestamp == nil:
			err := r.cfg.API.ServiceCIDRs().Delete(ctx, s.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return "", err
			}
			r.event(s, corev1.EventTypeNormal, "Renumbering", "Delete", "deleted by plan "+r.plan.Name)
			return "it was just deleted", nil
		case isReadyCondition(s):
			return fmt.Sprintf("ServiceCIDR %s is deleted, but its condition Ready is not False yet: does kube-controller-manager run?", s.Name), nil
		}
		return "", nil
	})
}

func isReadyCondition(s *networkingv1.ServiceCIDR) bool {
	return apimeta.IsStatusConditionTrue(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
}

func (r *Runner) awaitGone(ctx context.Context, step Step, _ *history) error {
	return r.gate(ctx, step, r.cfg.GateTimeout, func(ctx context.Context) (string, error) {
		s, err := r.serviceCIDR(ctx, step.ServiceCIDR.Name)
		switch {
		case err != nil:
			return "", err
		case s == nil, !slices.Equal(s.Spec.CIDRs, step.ServiceCIDR.CIDRs):
			return "", nil
		case s.DeletionTimestamp == nil:
			return "", fmt.Errorf("ServiceCIDR %s is there and is not being deleted: somebody has made it again; delete it, and resume", s.Name)
		}
		return deletion("ServiceCIDR "+s.Name, s), nil
	})
}

func (r *Runner) awaitDefault(ctx context.Context, step Step, _ *history) error {
	return r.gate(ctx, step, r.cfg.GateTimeout, func(ctx context.Context) (string, error) {
		s, err := r.serviceCIDR(ctx, DefaultServiceCIDR)
		switch {
		case err != nil:
			return "", err
		case s == nil:
			return "the API server has not made the default ServiceCIDR yet", nil
		case s.DeletionTimestamp != nil:
			return deletion("the old default ServiceCIDR", s), nil
		case !slices.Equal(s.Spec.CIDRs, step.Ranges):
			return fmt.Sprintf("the default ServiceCIDR has %s and not %s: which API server runs with other flags?", strings.Join(s.Spec.CIDRs, ","), strings.Join(step.Ranges, ",")), nil
		}
		return readiness(s), nil
	})
}

// deletion says what a ServiceCIDR that is being deleted waits for, as its condition does.
func deletion(what string, s *networkingv1.ServiceCIDR) string {
	if c := apimeta.FindStatusCondition(s.Status.Conditions, networkingv1.ServiceCIDRConditionReady); c != nil {
		return what + " is being deleted: " + c.Message
	}
	return what + " is being deleted"
}

func (r *Runner) acknowledge(ctx context.Context, step Step, h *history) error {
	return r.ask(ctx, step, h, "Does all that holds a copy of the old range know the new one?")
}

// ask asks the operator, once.
func (r *Runner) ask(ctx context.Context, step Step, h *history, question string) error {
	if h.acknowledged[step.ID] {
		return nil
	}
	if r.cfg.Ask == nil {
		return fmt.Errorf("%w: %s If so, resume with --acknowledge", ErrWaiting, question)
	}
	yes, err := r.cfg.Ask(ctx, step, question)
	switch {
	case err != nil:
		return err
	case !yes:
		return fmt.Errorf("%w: %s If so, resume with --acknowledge", ErrWaiting, question)
	}
	h.acknowledged[step.ID] = true
	return r.append(ctx, Entry{Type: Acknowledged, Step: step.ID, Message: "you said yes: " + question})
}

// renewKubernetes brings the API server's own Service into the new range. In place, so that pods lose
// it for two round trips only; with the strategy recreate by deletion, as KEP-1880
// does, and the API server makes it again within its period of 10 s.
func (r *Runner) renewKubernetes(ctx context.Context, step Step, h *history) error {
	first := cidr.MustParse(step.Ranges[0])
	wanted := want{families: []corev1.IPFamily{corev1.IPFamily(first.Family().String())}, addresses: []string{first.First().String()},
		forbidden: func(string) bool { return true }}
	services := r.cfg.API.Services(metav1.NamespaceDefault)
	k := metav1.NamespaceDefault + "/" + kubernetesService
	var from []string
	before, err := r.before(ctx, step)
	if err != nil {
		return err
	}
	err = r.gate(ctx, step, r.cfg.GateTimeout, func(ctx context.Context) (string, error) {
		svc, err := services.Get(ctx, kubernetesService, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return "the API server has not made Service default/kubernetes again yet: " +
				"if it takes longer than a minute, it runs with other flags than --service-cluster-ip-range=" + strings.Join(step.Ranges, ","), nil
		case err != nil:
			return "", err
		}
		entry, begun := h.open(step.ID)[k]
		if wanted.first(svc) && (!begun && !owns(svc) || begun && entry.Strategy == Recreate) {
			return "", nil
		}
		if !begun {
			strategy := r.plan.Request.Strategy
			if r.plan.Undoes != "" {
				// The API server may run with the new flags still.
				strategy = InPlace
			}
			entry = Entry{Type: Intent, Step: step.ID, Service: k, Original: svc, Strategy: strategy}
			if e, cut := before[k]; cut && e.Type == Intent && e.Original.UID == svc.UID {
				// The plan that is undone was cut while it moved it.
				entry.Original = e.Original
			}
			if err := r.append(ctx, entry); err != nil {
				return "", err
			}
			if h.intents[step.ID] == nil {
				h.intents[step.ID] = map[string]Entry{}
			}
			h.intents[step.ID][k] = entry
		}
		if from == nil {
			from = entry.Original.Spec.ClusterIPs
		}
		if entry.Strategy == Recreate {
			if svc.UID != entry.Original.UID {
				return "", fmt.Errorf("the API server made Service default/kubernetes again at %s, and not at %s: it runs with another --service-cluster-ip-range than %s; restart it with that one, and resume",
					svc.Spec.ClusterIP, wanted.addresses[0], strings.Join(step.Ranges, ","))
			}
			err := services.Delete(ctx, svc.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &svc.UID}})
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				return "", err
			}
			return "it was just deleted", nil
		}
		m := &move{r: r, step: step.ID, original: entry.Original, strategy: InPlace, want: wanted, begun: true}
		m.want.policy = entry.Original.Spec.IPFamilyPolicy
		out, err := m.run(ctx, svc)
		if err != nil {
			return "", err
		}
		if out.left != "" {
			return "", fmt.Errorf("the Service %s: %s", k, out.left)
		}
		if !wanted.first(out.live) {
			return "", fmt.Errorf("%w: Service %s has %s and not %s: %s; free that address, and resume", ErrGate, k, out.live.Spec.ClusterIP, wanted.addresses[0], strings.Join(out.told, "; "))
		}
		return "", nil
	})
	if err != nil || from == nil {
		return err
	}
	return r.append(ctx, Entry{Type: Moved, Step: step.ID, Service: k, From: from, To: wanted.addresses, Message: fmt.Sprintf("%s -> %s", strings.Join(from, ","), wanted.addresses[0])})
}

func (r *Runner) verify(ctx context.Context, step Step, _ *history) error {
	var left []Leftover
	err := r.persist(ctx, func(ctx context.Context) (err error) {
		left, err = FindLeftovers(ctx, r.cfg.API, step.Target)
		return err
	})
	if err != nil || len(left) == 0 {
		return err
	}
	return &LeftoverError{left}
}
