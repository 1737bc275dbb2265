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
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// move is one Service on its way. What to do next is decided by the live Service, the
// original of the journal and the want: so a move goes on from wherever a crash, a lost
// answer or somebody else has left it. What this runner has done itself, it remembers
// for one thing only: to tell it from what others do.
//
//	in-place                                recreate
//
//	original ──► parked ──► back ──► owners   original ──► (absent) ──► there ──► owners
//	   update      update      update            delete       create     update
//	             (a second update where a         (its status, if it has one, after that)
//	              chosen address follows a
//	              drawn one)
//
// A passing second family, or one that goes, is a single update without parking.
type move struct {
	r        *Runner
	step     int
	original *corev1.Service
	want     want
	strategy Strategy
	told     []string
	// conflicts counts how often another was first; failing is since when the API
	// server has refused to do what it will do later, zero if it does not.
	conflicts int
	failing   time.Time
	backoff   time.Duration
	// portsLater: a node port that it had could not be had back yet.
	portsLater bool
	// begun: another runner, or this one before a crash, may have done a part of it.
	begun bool
	// taken: this runner has parked or deleted it, or may have: an answer was lost.
	taken bool
	// made is the one that was made again, and not by others.
	made types.UID
	// returned: its fields were given back to their owners.
	returned bool
	// parkedAt is when its address was given up.
	parkedAt, backAt time.Time
}

// moved is how a move ended.
type moved struct {
	live *corev1.Service
	told []string
	// left says why the Service was not moved.
	left string
	gap  time.Duration
}

// rounds bounds how often a move begins again because another has changed the Service.
const rounds = 50

const externalNow = "it was made an ExternalName by another meanwhile"

// run moves the Service, whose present state may be given.
func (m *move) run(ctx context.Context, live *corev1.Service) (moved, error) {
	for m.conflicts < rounds {
		if live == nil {
			var err error
			if live, err = m.read(ctx); err != nil {
				return moved{}, err
			}
		}
		next, left, done, err := m.advance(ctx, live)
		switch {
		case err != nil:
			return moved{}, fmt.Errorf("the Service %s: %w", key(m.original), err)
		case left != "":
			return moved{live: next, left: left, told: m.told}, nil
		case done:
			slices.Sort(m.told)
			out := moved{live: next, told: slices.Compact(m.told)}
			if !m.parkedAt.IsZero() && !m.backAt.IsZero() {
				out.gap = m.backAt.Sub(m.parkedAt)
			}
			return out, nil
		}
		live = next
	}
	return moved{}, fmt.Errorf("the Service %s was changed by another %d times while it was moved: stop who changes it, and resume", key(m.original), rounds)
}

// read returns the live Service; absent is one without a name.
func (m *move) read(ctx context.Context) (*corev1.Service, error) {
	var live *corev1.Service
	err := m.r.persist(ctx, func(ctx context.Context) (err error) {
		live, err = m.services().Get(ctx, m.original.Name, metav1.GetOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return &corev1.Service{}, nil
	}
	return live, err
}

// advance makes one call. A nil next means: read anew.
func (m *move) advance(ctx context.Context, live *corev1.Service) (next *corev1.Service, left string, done bool, err error) {
	o := m.original
	mine := live.UID == o.UID
	switch {
	case live.Name == "" && m.strategy == Recreate && m.made == "" && (m.taken || m.begun):
		next, err = m.create(ctx)
		return next, "", false, err
	case live.Name == "":
		return live, "it was deleted by another meanwhile", false, nil
	case live.DeletionTimestamp != nil && m.strategy == Recreate && mine:
		// Somebody's finalizer: the plan avoids this, but one may be added at any time.
		if !m.r.sleep(ctx, m.r.cfg.Poll) {
			return nil, "", false, ctx.Err()
		}
		return nil, "", false, nil
	case live.DeletionTimestamp != nil:
		return live, "it is being deleted by another", false, nil
	case !mine && m.strategy == InPlace:
		return live, "it was deleted and made again by another meanwhile: its new one is left as it is", false, nil
	case !mine:
		// Nobody but a runner makes one in its name; what differs in such a one is an edit.
		if owns(live) {
			m.made = live.UID
		} else if different := m.foreign(live); live.UID != m.made && len(different) > 0 {
			return live, "it was made again by another meanwhile, and differs: " + strings.Join(different, "; "), false, nil
		}
		if live.Spec.Type == corev1.ServiceTypeExternalName {
			return m.leave(ctx, live, externalNow)
		}
		if !m.want.first(live) {
			// Made again by the plan that is undone.
			next, err = m.delete(ctx, live)
			return next, "", false, err
		}
		return m.finish(ctx, live)
	case isParked(live):
		next, err = m.unpark(ctx, live)
		return next, "", false, err
	case live.Spec.Type == corev1.ServiceTypeExternalName:
		return m.leave(ctx, live, externalNow)
	case !m.want.first(live):
		if m.strategy == Recreate {
			next, err = m.delete(ctx, live)
		} else {
			next, err = m.park(ctx, live)
		}
		return next, "", false, err
	case !m.want.met(live):
		next, err = m.amend(ctx, live)
		return next, "", false, err
	default:
		return m.finish(ctx, live)
	}
}

// leave gives up what the runner owns of a Service that it does not move.
func (m *move) leave(ctx context.Context, live *corev1.Service, why string) (next *corev1.Service, left string, done bool, err error) {
	if !owns(live) {
		return live, why, false, nil
	}
	next, err = m.giveBack(ctx, live, ownership(live.ManagedFields, nil))
	return next, "", false, err
}

func (m *move) services() corev1client.ServiceInterface {
	return m.r.cfg.API.Services(m.original.Namespace)
}

// park gives the address up.
func (m *move) park(ctx context.Context, live *corev1.Service) (*corev1.Service, error) {
	if live.ResourceVersion != m.original.ResourceVersion {
		if err := m.rewrite(ctx, live); err != nil {
			return nil, err
		}
	}
	m.taken = true
	next, err := m.update(ctx, parked(live, m.r.plan.Name))
	if next != nil && m.parkedAt.IsZero() {
		m.parkedAt = m.r.clock.Now()
	}
	return next, err
}

// rewrite journals the Service anew: it has changed since it was journalled, and what
// is destroyed must be in the journal.
//
// What the runner itself has done to it is not part of it: an earlier round may have
// brought it an address that will not do.
func (m *move) rewrite(ctx context.Context, live *corev1.Service) error {
	original := live.DeepCopy()
	original.ManagedFields = ownership(live.ManagedFields, m.original.ManagedFields)
	if m.lacksStatus(live) {
		original.Status = m.original.Status
	}
	if err := m.r.append(ctx, Entry{Type: Intent, Step: m.step, Service: key(live), Original: original, Strategy: m.strategy}); err != nil {
		return err
	}
	m.original = original
	return nil
}

// unpark takes an address again.
func (m *move) unpark(ctx context.Context, live *corev1.Service) (*corev1.Service, error) {
	back, told, err := unparked(live, m.original, m.r.plan.Name)
	if err != nil {
		return nil, err
	}
	m.told = append(m.told, told...)
	setAddresses(back, m.want)
	if m.portsLater {
		dropNodePorts(&back.Spec)
	}
	next, err := m.update(ctx, back)
	if m.refused(ctx, err) {
		return live, nil
	}
	if portTaken(err) && !m.portsLater {
		// Better another node port for a while than no address.
		m.portsLater = true
		return live, nil
	}
	if next != nil {
		m.backAt = m.r.clock.Now()
	}
	return next, err
}

// refused handles an address that cannot be had, and reports whether it did. One that another
// has is drawn instead. One that the API server does not give for another reason is
// tried for a while: after its start, it knows its ServiceCIDRs only gradually.
func (m *move) refused(ctx context.Context, err error) bool {
	if err == nil || !apierrors.IsInvalid(err) || !slices.ContainsFunc(m.want.addresses, func(a string) bool { return a != "" }) || !causedBy(err, "clusterIP") {
		return false
	}
	if !strings.Contains(err.Error(), "already allocated") && m.later(ctx, err) == nil {
		return true
	}
	m.failing = time.Time{}
	asked := strings.Join(m.want.addresses, ",")
	if m.want.elsewhere(m.r.plan, m.r.draw) {
		m.told = append(m.told, fmt.Sprintf("it could not have %s, which another has, and is given %s", asked, strings.Join(m.want.addresses, ",")))
	} else {
		m.told = append(m.told, fmt.Sprintf("it could not have %s, and gets what the API server draws: %v", asked, err))
		m.want = m.want.drawn()
	}
	return ctx.Err() == nil
}

// later waits before the same is tried again. It returns err when that has been tried for long
// enough.
func (m *move) later(ctx context.Context, err error) error {
	return m.laterWithin(ctx, err, m.r.cfg.Patience)
}

func (m *move) laterWithin(ctx context.Context, err error, patience time.Duration) error {
	now := m.r.clock.Now()
	if m.failing.IsZero() {
		m.failing, m.backoff = now, 25*time.Millisecond
	}
	if now.Sub(m.failing) > patience {
		return err
	}
	m.backoff = min(2*m.backoff, 2*time.Second)
	pause := m.backoff
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	if !m.r.sleep(ctx, pause) {
		return err
	}
	return nil
}

// causedBy tells whether the server names a field. Allocation errors come as one on
// spec.clusterIPs.
func causedBy(err error, field string) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return strings.Contains(c.Field, field) })
}

// portTaken tells whether a node port could not be had.
func portTaken(err error) bool {
	return err != nil && apierrors.IsInvalid(err) && strings.Contains(err.Error(), "already allocated") && (causedBy(err, "nodePort") || causedBy(err, "healthCheckNodePort"))
}

// amend gives it a second family, or takes it away. Its first address stays.
func (m *move) amend(ctx context.Context, live *corev1.Service) (*corev1.Service, error) {
	out := live.DeepCopy()
	out.Spec.IPFamilies, out.Spec.IPFamilyPolicy = m.want.families, m.want.policy
	if m.want.addresses != nil {
		addresses := live.Spec.ClusterIPs[:1:1]
		if len(m.want.families) == 2 {
			switch a := m.want.addresses[1]; {
			case len(live.Spec.ClusterIPs) == 2 && !m.want.addressFits(live, 1):
				// The wrong second address goes first.
				out.Spec.IPFamilies, out.Spec.IPFamilyPolicy = m.want.families[:1], ptr.To(corev1.IPFamilyPolicySingleStack)
			case len(live.Spec.ClusterIPs) == 2:
				addresses = live.Spec.ClusterIPs
			case a != "":
				addresses = append(addresses, a)
			}
		}
		out.Spec.ClusterIPs = addresses
	}
	if apiequality.Semantic.DeepEqual(out.Spec, live.Spec) {
		return nil, fmt.Errorf("the Service %s does not come to what is wanted, %v %v: it has %v %v", key(live), m.want.families, m.want.addresses, live.Spec.IPFamilies, live.Spec.ClusterIPs)
	}
	next, err := m.update(ctx, out)
	if m.refused(ctx, err) {
		return nil, nil
	}
	return next, err
}

// update writes the Service if nobody else has. A nil next without an error means
// that somebody did, or that it is not known: read anew.
func (m *move) update(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	return m.write(ctx, func(ctx context.Context) (*corev1.Service, error) {
		return m.services().Update(ctx, svc, metav1.UpdateOptions{FieldManager: FieldManager})
	})
}

// write makes one call that must not be made twice.
func (m *move) write(ctx context.Context, call func(context.Context) (*corev1.Service, error)) (*corev1.Service, error) {
	callCtx, cancel := context.WithTimeout(ctx, m.r.cfg.CallTimeout)
	defer cancel()
	next, err := call(callCtx)
	switch {
	case err == nil:
		m.failing = time.Time{}
		return next, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		m.conflicts++
		return nil, nil
	case passing(err) && ctx.Err() == nil:
		return nil, m.later(ctx, err)
	}
	return nil, err
}

// portPatience is how long a node port is waited for that no Service has. The API server's
// repair frees such a port when it has seen it three times, once in three minutes.
const portPatience = 15 * time.Minute

// awaitPort waits before a node port that is taken is asked for again, or says which
// Service has it. The Service has its address by then, and another node port for a
// while. No Service may have it: when a runner is killed while the API server works on its call, the port
// may stay reserved for nobody.
func (m *move) awaitPort(ctx context.Context, taken error) error {
	holder := ""
	err := m.r.persist(ctx, func(ctx context.Context) error {
		return eachService(ctx, m.r.cfg.API, func(svc *corev1.Service) {
			if key(svc) != key(m.original) && sharesPort(svc, m.original) {
				holder = key(svc)
			}
		})
	})
	if err != nil {
		return err
	}
	if holder != "" {
		return fmt.Errorf("%w: Service %s took it meanwhile: free it, and resume", taken, holder)
	}
	if m.failing.IsZero() {
		m.r.observe(Event{Step: m.r.plan.Steps[m.step-1], Message: fmt.Sprintf("waiting: the API server keeps a node port of Service %s reserved for nobody, and frees it within about ten minutes", key(m.original))})
	}
	if err := m.laterWithin(ctx, taken, portPatience); err != nil {
		return fmt.Errorf("%w: no Service has that node port, and the API server has not freed it within %s: resume", err, portPatience)
	}
	return nil
}

// sharesPort tells whether two Services have a node port in common.
func sharesPort(a, b *corev1.Service) bool {
	taken := nodePorts(a)
	return slices.ContainsFunc(nodePorts(b), func(p int32) bool { return slices.Contains(taken, p) })
}

func nodePorts(svc *corev1.Service) (all []int32) {
	for _, p := range svc.Spec.Ports {
		if p.NodePort != 0 {
			all = append(all, p.NodePort)
		}
	}
	if p := svc.Spec.HealthCheckNodePort; p != 0 {
		all = append(all, p)
	}
	return all
}

// delete begins a recreation.
func (m *move) delete(ctx context.Context, live *corev1.Service) (*corev1.Service, error) {
	if live.ResourceVersion != m.original.ResourceVersion {
		if err := m.rewrite(ctx, live); err != nil {
			return nil, err
		}
	}
	_, err := m.write(ctx, func(ctx context.Context) (*corev1.Service, error) {
		err := m.services().Delete(ctx, live.Name, metav1.DeleteOptions{
			Preconditions:     &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion},
			PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		})
		if err == nil && m.parkedAt.IsZero() {
			m.parkedAt = m.r.clock.Now()
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			m.taken, m.made = true, ""
		}
		return nil, err
	})
	return nil, err
}

// create ends it.
func (m *move) create(ctx context.Context) (*corev1.Service, error) {
	out := m.original.DeepCopy()
	out.UID, out.ResourceVersion, out.CreationTimestamp, out.ManagedFields = "", "", metav1.Time{}, nil
	out.Status = corev1.ServiceStatus{}
	setAddresses(out, m.want)
	if m.portsLater {
		dropNodePorts(&out.Spec)
	}
	next, err := m.write(ctx, func(ctx context.Context) (*corev1.Service, error) {
		return m.services().Create(ctx, out, metav1.CreateOptions{FieldManager: FieldManager})
	})
	if m.refused(ctx, err) {
		return &corev1.Service{}, nil
	}
	if portTaken(err) && !m.portsLater {
		m.portsLater = true
		return &corev1.Service{}, nil
	}
	if next != nil {
		m.made = next.UID
		m.backAt = m.r.clock.Now()
	}
	return next, err
}

// foreign tells in what a Service of another UID is not the one that was made again.
func (m *move) foreign(live *corev1.Service) []string {
	original, live := m.original.DeepCopy(), live.DeepCopy()
	original.ManagedFields, original.Status = live.ManagedFields, live.Status
	// It may have other node ports for now.
	takeNodePorts(&live.Spec, &original.Spec)
	return SameService(live, original, true, false)
}

// finish gives the fields back to their owners, and the status that parking or
// recreation has taken.
func (m *move) finish(ctx context.Context, live *corev1.Service) (*corev1.Service, string, bool, error) {
	if !m.want.met(live) && live.UID != m.original.UID {
		next, err := m.amend(ctx, live)
		return next, "", false, err
	}
	if owns(live) || m.taken {
		whole := live.DeepCopy()
		if live.UID == m.original.UID {
			// Another may have brought it back before us, without what it did not know of.
			var told []string
			var err error
			if whole, told, err = unparked(live, m.original, m.r.plan.Name); err != nil {
				return nil, "", false, err
			}
			m.told = append(m.told, told...)
		}
		if m.portsLater || m.begun {
			// Otherwise none was drawn on the way: another one is somebody's choice.
			takeNodePorts(&whole.Spec, &m.original.Spec)
		}
		if !apiequality.Semantic.DeepEqual(whole.Spec, live.Spec) {
			next, err := m.update(ctx, whole)
			if portTaken(err) {
				err = m.awaitPort(ctx, err)
			}
			return next, "", false, err
		}
	}
	if m.lacksStatus(live) {
		out := live.DeepCopy()
		out.Status = *m.original.Status.DeepCopy()
		next, err := m.write(ctx, func(ctx context.Context) (*corev1.Service, error) {
			return m.services().UpdateStatus(ctx, out, metav1.UpdateOptions{FieldManager: FieldManager})
		})
		return next, "", false, err
	}
	if owners := ownership(live.ManagedFields, m.original.ManagedFields); owns(live) || m.taken && !m.returned && len(owners) > 0 {
		next, err := m.giveBack(ctx, live, owners)
		return next, "", false, err
	}
	return live, "", true, nil
}

// giveBack names the owners of the fields, without the runner.
func (m *move) giveBack(ctx context.Context, live *corev1.Service, owners []metav1.ManagedFieldsEntry) (*corev1.Service, error) {
	out := live.DeepCopy()
	out.ManagedFields = owners
	if len(owners) == 0 {
		// Nothing owned anything: an empty entry resets the list.
		out.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	}
	next, err := m.update(ctx, out)
	if next != nil {
		m.returned = true
		if owns(next) {
			return nil, fmt.Errorf("the Service %s: the API server does not give its fields back to their owners: is managedFields changed by a webhook?", key(live))
		}
	}
	return next, err
}

// lacksStatus tells whether a load balancer's state was taken by the move, and nobody has written one since.
func (m *move) lacksStatus(live *corev1.Service) bool {
	o := m.original.Status
	empty := len(live.Status.LoadBalancer.Ingress) == 0 && len(live.Status.Conditions) == 0
	return empty && owns(live) && (len(o.LoadBalancer.Ingress) > 0 || len(o.Conditions) > 0) &&
		live.Spec.Type == m.original.Spec.Type
}

func key(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }
