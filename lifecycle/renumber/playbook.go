// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/metacidr/metacidr/cidr"
)

// ErrInvalidRequest: what was asked for cannot be done on this cluster, ever. The
// message names the input and the remedy.
var ErrInvalidRequest = errors.New("invalid request")

func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidRequest, fmt.Sprintf(format, args...))
}

// recipe writes down the steps of a playbook.
//
//	replace, shrink      create new -> delete old -> [acknowledge] -> move -> hand-over -> renew kubernetes
//	                     -> default is new -> delete the temporary one -> verify
//	 if kubernetes stays create new -> hand-over -> delete old -> [acknowledge] -> move -> default is new -> ...
//	 not the default     create new -> delete old -> [acknowledge] -> move -> old is gone -> verify
//	expand, around       create new -> delete old -> hand-over -> [renew kubernetes] -> default is new -> delete the temporary one
//	expand, beside       create new
//	add-family           hand-over -> default is dual -> move (add)
//	drop-family          create rest -> move (drop) -> hand-over -> [renew kubernetes] -> delete default -> default is single
//	                     -> delete the temporary one -> verify
//	swap-family          create both -> hand-over -> delete default -> default is swapped -> renew kubernetes -> move (first)
//	                     -> delete the temporary one
//	drain                delete -> [acknowledge] -> move -> gone -> verify
//
// The API server makes the default ServiceCIDR anew from its flag as soon as it is
// gone. So the old default may go before the hand-over only if something holds it:
// the address of default/kubernetes does, in the range that it leaves.
type recipe struct {
	request Request
	name    string // of the plan
	// defaultOne is the default ServiceCIDR, from the one to empty.
	defaultOne, from ServiceCIDR
	// kubernetes are the addresses of Service default/kubernetes.
	kubernetes []string
	// back: the steps take back those of another plan.
	back  bool
	phase int
	steps []Step
}

// makeSteps returns the steps of a request, given the ServiceCIDRs of the cluster and the
// addresses of Service default/kubernetes. Errors: ErrInvalidRequest.
func makeSteps(name string, req Request, all []ServiceCIDR, kubernetes []string) ([]Step, error) {
	r := &recipe{request: req, name: name, kubernetes: kubernetes}
	if err := r.find(all); err != nil {
		return nil, err
	}
	var err error
	switch req.Playbook {
	case Replace, Shrink:
		err = r.replace()
	case Expand:
		err = r.expand()
	case AddFamily:
		err = r.addFamily()
	case DropFamily:
		err = r.dropFamily()
	case SwapFamily:
		err = r.swapFamily()
	case MigrateFamily:
		err = r.migrateFamily()
	case Drain:
		err = r.drain(all)
	default:
		err = refuse("there is no playbook %q: give one of %s", req.Playbook, quoted(Playbooks()))
	}
	if err != nil {
		return nil, err
	}
	for i := range r.steps {
		r.steps[i].ID = i + 1
	}
	return r.steps, nil
}

// find sets defaultOne and from.
func (r *recipe) find(all []ServiceCIDR) error {
	from := r.request.From
	if from == "" {
		from = DefaultServiceCIDR
	}
	var names []string
	for _, s := range all {
		names = append(names, s.Name)
		if s.Name == DefaultServiceCIDR {
			r.defaultOne = s
		}
		if s.Name == from {
			r.from = s
		}
	}
	switch {
	case r.defaultOne.Name == "":
		return refuse("the cluster has no ServiceCIDR named %s: is it Kubernetes 1.33 or later, with the ServiceCIDR API on?", DefaultServiceCIDR)
	case r.from.Name == "":
		return refuse("there is no ServiceCIDR %q: there are %s", from, strings.Join(names, ", "))
	case r.from.Terminating:
		return refuse("ServiceCIDR %s is being deleted already: a run that was begun goes on with kubectl service-cidr resume", from)
	}
	return nil
}

func (r *recipe) isDefault() bool { return r.from.Name == DefaultServiceCIDR }

// temporary is the ServiceCIDR that the plan makes.
func (r *recipe) temporary(cidrs []string) *StepServiceCIDR {
	name := r.request.ServiceCIDR
	if name == "" {
		name = r.name
	}
	return &StepServiceCIDR{Name: name, CIDRs: cidrs}
}

func object(s ServiceCIDR) *StepServiceCIDR {
	return &StepServiceCIDR{Name: s.Name, CIDRs: s.CIDRs, Labels: s.Labels, Annotations: s.Annotations}
}

func (r *recipe) add(kind StepKind, title string, s Step) {
	s.Kind, s.Title, s.Phase = kind, title, r.phase
	r.steps = append(r.steps, s)
}

func (r *recipe) create(s *StepServiceCIDR) {
	r.add(CreateServiceCIDR, fmt.Sprintf("create ServiceCIDR %s with %s", s.Name, strings.Join(s.CIDRs, ",")), Step{ServiceCIDR: s})
}

func (r *recipe) delete(s *StepServiceCIDR, why string) {
	r.add(DeleteServiceCIDR, fmt.Sprintf("delete ServiceCIDR %s, %s: %s", s.Name, strings.Join(s.CIDRs, ","), why), Step{ServiceCIDR: s})
}

func (r *recipe) gone(s *StepServiceCIDR) {
	r.add(AwaitGone, fmt.Sprintf("wait until ServiceCIDR %s is gone", s.Name), Step{ServiceCIDR: s})
}

func (r *recipe) acknowledge() {
	if r.request.Acknowledge {
		r.add(Acknowledge, "wait until you say that all that holds a copy of the old range knows the new one", Step{})
	}
}

func (r *recipe) handOver(before, after []string) {
	r.add(HandOver, fmt.Sprintf("you restart every API server with --service-cluster-ip-range=%s", strings.Join(after, ",")), Step{Before: before, Ranges: after})
}

func (r *recipe) renew(after []string) {
	title := "move Service default/kubernetes to the first address of " + after[0] + ", in place"
	if r.request.Strategy == Recreate && !r.back {
		title = "delete Service default/kubernetes: the API server makes it again in " + after[0]
	}
	r.add(RenewKubernetes, title, Step{Ranges: after})
}

func (r *recipe) awaitDefault(after []string) {
	r.add(AwaitDefault, fmt.Sprintf("wait until the API server has made ServiceCIDR %s with %s", DefaultServiceCIDR, strings.Join(after, ",")), Step{Ranges: after})
}

func (r *recipe) removeTemporary(s *StepServiceCIDR) {
	r.delete(s, "the default one covers its addresses now")
	r.gone(s)
}

func (r *recipe) verify(leave, stay []string) {
	r.add(Verify, "prove that nothing is left in "+strings.Join(leave, ","), Step{Target: &Target{Leave: leave, Stay: stay}})
}

func (r *recipe) replace() error {
	after, leave, to, err := r.replaced()
	if err != nil {
		return err
	}
	target := &Target{Leave: leave, Stay: stays(to, leave)}
	fresh := r.temporary(to)
	old := object(r.from)
	renew := r.isDefault() && r.kubernetesMoves(after)
	r.create(fresh)
	if r.isDefault() && !renew {
		// Nothing would hold the old default.
		r.handOver(r.from.CIDRs, after)
	}
	r.delete(old, "from now on no address is taken from it")
	r.acknowledge()
	r.add(MoveServices, "move the Services out of "+strings.Join(leave, ","), Step{Target: target})
	if !r.isDefault() {
		r.gone(old)
		r.verify(leave, target.Stay)
		return nil
	}
	if renew {
		r.handOver(r.from.CIDRs, after)
		r.renew(after)
	}
	r.awaitDefault(after)
	r.removeTemporary(fresh)
	r.verify(leave, target.Stay)
	return nil
}

// replaced matches the new ranges to the old by family. after are the API server's
// ranges, leave the old ones that change, to all that the new ServiceCIDR must
// cover.
func (r *recipe) replaced() (after, leave, to []string, err error) {
	if len(r.request.To) == 0 {
		return nil, nil, nil, refuse("%s needs the new range: --to 10.112.0.0/16", r.request.Playbook)
	}
	fresh, err := byFamily(r.request.To)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, old := range r.from.CIDRs {
		o, err := cidr.Parse(old)
		if err != nil {
			return nil, nil, nil, refuse("ServiceCIDR %s: %v", r.from.Name, err)
		}
		n, ok := fresh[o.Family()]
		if !ok {
			after = append(after, old)
			// The temporary one covers what stays, too: the old one is deleted whole.
			to = append(to, old)
			continue
		}
		delete(fresh, o.Family())
		switch {
		case n == o:
			return nil, nil, nil, refuse("%s is the present range: give another", n)
		case r.request.Playbook == Shrink && !o.Covers(n):
			return nil, nil, nil, refuse("%s is not a part of %s: shrink keeps a part of the range, replace takes another", n, o)
		case r.request.Playbook == Replace && o.Covers(n):
			return nil, nil, nil, refuse("%s is a part of %s: that is shrink, in which what lies in the part stays", n, o)
		case r.request.Playbook == Replace && n.Covers(o):
			return nil, nil, nil, refuse("%s contains %s: that is expand, in which nothing needs to move", n, o)
		}
		after, leave, to = append(after, n.String()), append(leave, old), append(to, n.String())
	}
	for f := range fresh {
		return nil, nil, nil, refuse("ServiceCIDR %s has no %s range that %s could replace: add-family adds one", r.from.Name, f, fresh[f])
	}
	return after, leave, to, nil
}

// stays are those of to that lie within leave.
func stays(to, leave []string) []string {
	var in []string
	for _, t := range to {
		for _, l := range leave {
			if cidr.MustParse(l).Covers(cidr.MustParse(t)) {
				in = append(in, t)
			}
		}
	}
	return in
}

// kubernetesMoves tells whether Service kubernetes needs another address.
func (r *recipe) kubernetesMoves(after []string) bool {
	first := cidr.MustParse(after[0]).First().String()
	return len(r.kubernetes) == 0 || r.kubernetes[0] != first
}

func (r *recipe) expand() error {
	if len(r.request.To) == 0 {
		return refuse("expand needs the new range: --to 10.96.0.0/12")
	}
	fresh, err := byFamily(r.request.To)
	if err != nil {
		return err
	}
	after, to := slices.Clone(r.from.CIDRs), []string{}
	around := 0
	for i, old := range r.from.CIDRs {
		o, err := cidr.Parse(old)
		if err != nil {
			return refuse("ServiceCIDR %s: %v", r.from.Name, err)
		}
		n, ok := fresh[o.Family()]
		switch {
		case !ok:
		case n == o:
			return refuse("%s is the present range: give a larger one, or one beside it", n)
		case o.Covers(n):
			return refuse("%s is a part of %s, and adds no room: give a larger one, or one beside it", n, o)
		case n.Covers(o):
			around++
			after[i] = n.String()
		}
		to = append(to, after[i])
	}
	switch {
	case around == 0:
		r.create(r.temporary(r.request.To))
		return nil
	case around < len(fresh):
		return refuse("%s: one of them lies around the present range and one beside it: expand one at a time", strings.Join(r.request.To, ","))
	}
	temporary, old := r.temporary(to), object(r.from)
	r.create(temporary)
	if !r.isDefault() {
		r.delete(old, "the larger one covers its addresses")
		r.gone(old)
		return nil
	}
	// The old default would come back at once if it were deleted first.
	r.handOver(r.from.CIDRs, after)
	if r.kubernetesMoves(after) {
		r.renew(after)
	}
	r.delete(old, "the larger one covers its addresses")
	r.awaitDefault(after)
	r.removeTemporary(temporary)
	return nil
}

func (r *recipe) onlyDefault() error {
	if !r.isDefault() {
		return refuse("%s is about the families of the cluster, which the default ServiceCIDR gives: leave out --from %s", r.request.Playbook, r.from.Name)
	}
	return nil
}

func (r *recipe) addFamily() error {
	if err := r.onlyDefault(); err != nil {
		return err
	}
	if len(r.defaultOne.CIDRs) != 1 {
		return refuse("the cluster is dual-stack already: %s", strings.Join(r.defaultOne.CIDRs, ","))
	}
	have := cidr.MustParse(r.defaultOne.CIDRs[0])
	if len(r.request.To) != 1 {
		return refuse("%s needs one range, of the other family than %s: --to %s", r.request.Playbook, have, otherExample(have.Family()))
	}
	fresh, err := byFamily(r.request.To)
	if err != nil {
		return err
	}
	if _, same := fresh[have.Family()]; same {
		return refuse("%s is %s, as is the present range %s: give a range of the other family, such as %s", r.request.To[0], have.Family(), have, otherExample(have.Family()))
	}
	after := []string{have.String(), r.request.To[0]}
	r.handOver(r.defaultOne.CIDRs, after)
	r.awaitDefault(after)
	if !r.request.KeepSingleStack {
		family := corev1.IPFamily(cidr.MustParse(after[1]).Family().String())
		r.acknowledge()
		r.add(MoveServices, fmt.Sprintf("give the Services a second address, %s", family), Step{Target: &Target{Add: family}})
	}
	return nil
}

func (r *recipe) dropFamily() error {
	if err := r.onlyDefault(); err != nil {
		return err
	}
	if len(r.defaultOne.CIDRs) != 2 {
		return refuse("the cluster has one family only, %s: there is none to drop", strings.Join(r.defaultOne.CIDRs, ","))
	}
	if r.request.Family != corev1.IPv4Protocol && r.request.Family != corev1.IPv6Protocol {
		return refuse("which family is to go? --family IPv4 or --family IPv6, not %q", r.request.Family)
	}
	keep := slices.DeleteFunc(slices.Clone(r.defaultOne.CIDRs), func(s string) bool {
		return cidr.MustParse(s).Family().String() == string(r.request.Family)
	})
	r.drop(r.defaultOne.CIDRs, keep, r.request.Family, r.kubernetes)
	return nil
}

func (r *recipe) drop(before, keep []string, family corev1.IPFamily, kubernetes []string) {
	leave := slices.DeleteFunc(slices.Clone(before), func(s string) bool { return slices.Contains(keep, s) })
	temporary := r.temporary(keep)
	r.create(temporary)
	r.acknowledge()
	r.add(MoveServices, fmt.Sprintf("take %s from the Services", family), Step{Target: &Target{Drop: family}})
	r.handOver(before, keep)
	if len(kubernetes) == 0 || kubernetes[0] != cidr.MustParse(keep[0]).First().String() {
		r.renew(keep)
	}
	r.delete(&StepServiceCIDR{Name: DefaultServiceCIDR, CIDRs: before}, "the API server makes it again from its flag")
	r.awaitDefault(keep)
	r.removeTemporary(temporary)
	r.verify(leave, nil)
}

func (r *recipe) swapFamily() error {
	if err := r.onlyDefault(); err != nil {
		return err
	}
	if len(r.defaultOne.CIDRs) != 2 {
		return refuse("the cluster has one family only, %s: migrate-family brings the other one in and changes over to it", strings.Join(r.defaultOne.CIDRs, ","))
	}
	r.swap(r.defaultOne.CIDRs)
	return nil
}

func (r *recipe) swap(before []string) {
	after := []string{before[1], before[0]}
	temporary := r.temporary(after)
	r.create(temporary)
	r.handOver(before, after)
	r.delete(&StepServiceCIDR{Name: DefaultServiceCIDR, CIDRs: before}, "the API server makes it again from its flag")
	r.awaitDefault(after)
	r.renew(after)
	r.acknowledge()
	family := corev1.IPFamily(cidr.MustParse(after[0]).Family().String())
	r.add(MoveServices, fmt.Sprintf("make %s the Services' first family", family), Step{Target: &Target{First: family}})
	r.removeTemporary(temporary)
}

func (r *recipe) migrateFamily() error {
	r.request.KeepSingleStack = false
	if err := r.addFamily(); err != nil {
		return err
	}
	old, fresh := r.defaultOne.CIDRs[0], r.request.To[0]
	r.phase++
	r.swap([]string{old, fresh})
	r.phase++
	r.drop([]string{fresh, old}, []string{fresh}, corev1.IPFamily(cidr.MustParse(old).Family().String()),
		[]string{cidr.MustParse(fresh).First().String()})
	return nil
}

func (r *recipe) drain(all []ServiceCIDR) error {
	switch {
	case r.request.From == "":
		return refuse("which ServiceCIDR is to be drained? --from NAME")
	case r.isDefault():
		return refuse("%s is the default ServiceCIDR, which the API server makes again from its flag: use replace", r.from.Name)
	case len(r.request.To) > 0:
		return refuse("drain moves Services into what ready ServiceCIDRs there are: use replace to make a new one with %s", strings.Join(r.request.To, ","))
	}
	old := object(r.from)
	var stay []string
	for _, c := range r.from.CIDRs {
		for _, s := range all {
			if s.Name == r.from.Name || !s.Ready {
				continue
			}
			for _, other := range s.CIDRs {
				o, err := cidr.Parse(other)
				if err == nil && cidr.MustParse(c).Overlaps(o) {
					// What another ready one covers need not leave; the smaller of the two
					// is what they share.
					if o.Covers(cidr.MustParse(c)) {
						stay = append(stay, c)
					} else {
						stay = append(stay, other)
					}
				}
			}
		}
	}
	r.delete(old, "from now on no address is taken from it")
	r.acknowledge()
	r.add(MoveServices, "move the Services out of "+strings.Join(r.from.CIDRs, ","), Step{Target: &Target{Leave: r.from.CIDRs, Stay: stay}})
	r.gone(old)
	r.verify(r.from.CIDRs, stay)
	return nil
}

// byFamily parses ranges, of which there may be one for each family.
func byFamily(ranges []string) (map[cidr.Family]cidr.Range, error) {
	all := make(map[cidr.Family]cidr.Range, 2)
	for _, s := range ranges {
		r, err := cidr.Parse(s)
		if err != nil {
			return nil, refuse("%v", err)
		}
		if other, twice := all[r.Family()]; twice {
			return nil, refuse("%s and %s are both %s: a ServiceCIDR has one range of a family", other, r, r.Family())
		}
		if r.Size().IsZero() {
			return nil, refuse("%s has no usable address: give a larger one", r)
		}
		all[r.Family()] = r
	}
	return all, nil
}

func otherExample(f cidr.Family) string {
	if f == cidr.IPv4 {
		return "fd00:10:96::/112"
	}
	return "10.96.0.0/16"
}
