// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// What a plan file says of itself.
const (
	APIVersion = "renumber.metacidr.io/v1alpha1"
	Kind       = "Plan"
)

// Plan is what will be done to a cluster, and what was found when it was made. It
// is made without writing to the cluster, can be read and kept as a file, and is
// bound to the cluster that it was made from. Apply does what it says and nothing
// else.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	// Name is unique: the journal and what the runner leaves in the cluster go by it.
	Name      string      `json:"name"`
	CreatedAt metav1.Time `json:"createdAt"`
	// Cluster is the one that the plan is bound to.
	Cluster ClusterID `json:"cluster"`
	Request Request   `json:"request"`
	// ServiceCIDRs are all there were.
	ServiceCIDRs []ServiceCIDR `json:"serviceCIDRs"`
	Steps        []Step        `json:"steps"`
	Services     []Row         `json:"services"`
	Findings     []Finding     `json:"findings,omitempty"`
	// Undoes names the plan that this one takes back.
	Undoes string `json:"undoes,omitempty"`
}

// ClusterID tells one cluster from all others.
type ClusterID struct {
	// UID is that of the namespace kube-system.
	UID types.UID `json:"uid"`
	// Version is the server's, "v1.37.2".
	Version string `json:"version"`
}

// Playbook is what a plan is for.
type Playbook string

// The playbooks.
const (
	// Replace moves everything from one range to another.
	Replace Playbook = "replace"
	// Expand adds room: a further range, or a larger one around the present one.
	Expand Playbook = "expand"
	// Shrink replaces a range by a part of it; Services outside the part move.
	Shrink Playbook = "shrink"
	// AddFamily makes a single-stack cluster dual-stack.
	AddFamily Playbook = "add-family"
	// DropFamily makes a dual-stack cluster single-stack.
	DropFamily Playbook = "drop-family"
	// SwapFamily makes the second family of a dual-stack cluster its first.
	SwapFamily Playbook = "swap-family"
	// MigrateFamily is AddFamily, SwapFamily and DropFamily in a row.
	MigrateFamily Playbook = "migrate-family"
	// Drain moves all Services out of one ServiceCIDR, and removes it.
	Drain Playbook = "drain"
)

// Playbooks lists them.
func Playbooks() []Playbook {
	return []Playbook{Replace, Expand, Shrink, AddFamily, DropFamily, SwapFamily, MigrateFamily, Drain}
}

// Strategy is how a Service gets another address.
type Strategy string

const (
	// InPlace turns the Service into an ExternalName and back: two updates. It stays
	// the same object.
	InPlace Strategy = "in-place"
	// Recreate deletes the Service and creates it again.
	Recreate Strategy = "recreate"
)

// Mapping is who chooses the new addresses.
type Mapping string

const (
	// MapServer: the API server draws them, from any ready ServiceCIDR.
	MapServer Mapping = "server"
	// MapRandom: the plan draws them, from the target range.
	MapRandom Mapping = "random"
	// MapOffset keeps the distance from the start of the range: 10.96.3.7 becomes
	// 10.112.3.7.
	MapOffset Mapping = "offset"
	// MapFile takes them from Request.Addresses.
	MapFile Mapping = "file"
)

// Request is what the operator asks for. ("default" is the ServiceCIDR named
// kubernetes, that the API server makes from its flag.)
type Request struct {
	Playbook Playbook `json:"playbook"`
	// From names the ServiceCIDR to empty. "" means the default one.
	From string `json:"from,omitempty"`
	// To are the new ranges: of Replace, Expand and Shrink one for each family that
	// changes; of AddFamily and MigrateFamily the one of the new family; of
	// DropFamily none, but Family.
	To []string `json:"to,omitempty"`
	// Family is the one that DropFamily drops.
	Family corev1.IPFamily `json:"family,omitempty"`
	// ServiceCIDR names the ServiceCIDR that the plan makes. "" means a name made from
	// the plan's.
	ServiceCIDR string   `json:"serviceCIDR,omitempty"`
	Strategy    Strategy `json:"strategy"`
	Mapping     Mapping  `json:"mapping"`
	// Addresses are the new ones by "namespace/name", for MapFile.
	Addresses map[string][]string `json:"addresses,omitempty"`
	// LoadBalancers has Services of that type moved too.
	LoadBalancers bool `json:"loadBalancers,omitempty"`
	// KeepSingleStack leaves Services as they are when a family is added.
	KeepSingleStack bool `json:"keepSingleStack,omitempty"`
	// Acknowledge has the runner wait, before Services move, until the operator says
	// that all that holds a copy of the old range knows the new one.
	Acknowledge bool `json:"acknowledge,omitempty"`
	// Accepted are the codes of blockers that the operator takes on.
	Accepted []Code `json:"accepted,omitempty"`
}

// ServiceCIDR is what the plan saw of one.
type ServiceCIDR struct {
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	CIDRs           []string  `json:"cidrs"`
	// Ready and Terminating are as in the allocator: terminating is never ready.
	Ready       bool `json:"ready"`
	Terminating bool `json:"terminating,omitempty"`
	// Addresses is how many IPAddresses lie in it.
	Addresses int `json:"addresses"`
	// Labels and Annotations are for making it again.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DefaultServiceCIDR is the one that the API server makes from its flag.
const DefaultServiceCIDR = "kubernetes"

// StepKind is what a step does.
type StepKind string

// The kinds of steps. Each ends with a gate: what must be seen before the next begins.
const (
	// CreateServiceCIDR makes Step.ServiceCIDR. Gate: it is ready.
	CreateServiceCIDR StepKind = "CreateServiceCIDR"
	// DeleteServiceCIDR deletes it. Gate: it is terminating, or gone.
	DeleteServiceCIDR StepKind = "DeleteServiceCIDR"
	// Acknowledge waits for the operator.
	Acknowledge StepKind = "Acknowledge"
	// MoveServices changes the addresses of Services as Step.Target says. Gate: none
	// is left that should have changed.
	MoveServices StepKind = "MoveServices"
	// HandOver waits until the operator has restarted the API servers with
	// Step.Ranges.
	HandOver StepKind = "HandOver"
	// RenewKubernetes deletes Service default/kubernetes, which the API server makes
	// again. Gate: it has an address of Step.Ranges[0].
	RenewKubernetes StepKind = "RenewKubernetes"
	// AwaitDefault waits for the default ServiceCIDR with Step.Ranges, ready.
	AwaitDefault StepKind = "AwaitDefault"
	// AwaitGone waits until Step.ServiceCIDR is gone.
	AwaitGone StepKind = "AwaitGone"
	// Verify proves that nothing is left in Step.Target.Leave.
	Verify StepKind = "Verify"
)

// Step is one thing that the runner does.
type Step struct {
	// ID counts from 1.
	ID    int      `json:"id"`
	Kind  StepKind `json:"kind"`
	Title string   `json:"title"`
	// ServiceCIDR is the object of the kinds that have one.
	ServiceCIDR *StepServiceCIDR `json:"serviceCIDR,omitempty"`
	Target      *Target          `json:"target,omitempty"`
	// Ranges are the API servers' --service-cluster-ip-range.
	Ranges []string `json:"ranges,omitempty"`
	// Before are the Ranges that HandOver ends.
	Before []string `json:"before,omitempty"`
	// Phase counts the playbooks in a row of which MigrateFamily consists.
	Phase int `json:"phase,omitempty"`
	// Undoes is the step of Plan.Undoes that this one takes back.
	Undoes int `json:"undoes,omitempty"`
}

// StepServiceCIDR is the ServiceCIDR that a step makes, deletes or waits for.
type StepServiceCIDR struct {
	Name        string            `json:"name"`
	CIDRs       []string          `json:"cidrs"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Target is what MoveServices wants of every Service.
type Target struct {
	// Leave are ranges that no address may lie in, unless it also lies in Stay.
	Leave []string `json:"leave,omitempty"`
	Stay  []string `json:"stay,omitempty"`
	// Add, Drop and First change the families: give a Service a second one, take one
	// away (a Service that has only that one gets the other), put one first.
	Add   corev1.IPFamily `json:"add,omitempty"`
	Drop  corev1.IPFamily `json:"drop,omitempty"`
	First corev1.IPFamily `json:"first,omitempty"`
	// Back has the Services that Step.Undoes has moved get back what they had; the
	// rest of the Target is for those that were born since.
	Back bool `json:"back,omitempty"`
}

// Class is what kind of Service a row is about.
type Class string

// The classes; the first that fits.
const (
	ClassKubernetes   Class = "Kubernetes" // default/kubernetes: the API server's
	ClassExternalName Class = "ExternalName"
	ClassHeadless     Class = "Headless"
	ClassDNS          Class = "DNS" // the cluster's DNS: kubelets and pods hold its address
	ClassLoadBalancer Class = "LoadBalancer"
	ClassNodePort     Class = "NodePort"
	ClassClusterIP    Class = "ClusterIP"
)

// Trait is what else matters about a Service.
type Trait string

// The traits.
const (
	TraitHardCoded  Trait = "HardCoded"  // a manifest names its address
	TraitFinalizers Trait = "Finalizers" // a deletion waits for somebody
	TraitOwned      Trait = "Owned"      // it has ownerReferences
	TraitOwner      Trait = "Owner"      // others refer to its UID and would be collected with it
	TraitNoSelector Trait = "NoSelector" // its endpoints are made by hand
	TraitDualStack  Trait = "DualStack"
)

// Action is what happens to a Service.
type Action string

// The actions.
const (
	ActionMove    Action = "Move"    // it gets other addresses
	ActionConvert Action = "Convert" // it gets or loses a second family, and keeps its first address
	ActionKeep    Action = "Keep"    // its addresses may stay
	ActionSkip    Action = "Skip"    // it has no address
	ActionHold    Action = "Hold"    // it should move, but needs a flag: it blocks the end of the plan
	ActionRenew   Action = "Renew"   // the API server's own, in a step of its own
)

// Row is what happens to one Service, and why.
type Row struct {
	Namespace       string    `json:"namespace"`
	Name            string    `json:"name"`
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Class           Class     `json:"class"`
	Traits          []Trait   `json:"traits,omitempty"`
	Action          Action    `json:"action"`
	// Strategy is that of the request, or InPlace where recreating would lose
	// something.
	Strategy Strategy `json:"strategy,omitempty"`
	Reason   string   `json:"reason"`
	// From are its clusterIPs.
	From []string `json:"from,omitempty"`
	// To are the addresses that will be asked for, in the order of Families; "" where
	// the API server draws. Empty means that it draws all.
	To []string `json:"to,omitempty"`
	// Families are those after the plan.
	Families []corev1.IPFamily `json:"families,omitempty"`
}

// Key is "namespace/name".
func (r Row) Key() string { return r.Namespace + "/" + r.Name }

// Code names a kind of finding. docs/findings.md has a page for each.
type Code string

// Severity is how much a finding matters.
type Severity string

const (
	// Blocker: the plan is not applied, unless its Override is given.
	Blocker Severity = "blocker"
	// Warning: something will change for somebody.
	Warning Severity = "warning"
	// Info is good to know.
	Info Severity = "info"
)

// Finding is something about the cluster that the operator should know before the
// plan is applied.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Object is "Kind namespace/name", or what else it is about.
	Object  string `json:"object,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	// Override is the flag of plan that lets the plan be applied all the same; ""
	// if there is none.
	Override string `json:"override,omitempty"`
	// Accepted: the Override was given.
	Accepted bool `json:"accepted,omitempty"`
}

// Blockers returns the findings that keep the plan from being applied.
func (p *Plan) Blockers() []Finding {
	var blockers []Finding
	for _, f := range p.Findings {
		if f.Severity == Blocker && !f.Accepted {
			blockers = append(blockers, f)
		}
	}
	return blockers
}

// ErrInvalidPlan: a file is no plan, or not one that this version understands.
var ErrInvalidPlan = errors.New("invalid plan")

// Encode writes the plan as YAML, which ReadPlan takes.
func (p *Plan) Encode(w io.Writer) error {
	raw, err := yaml.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(raw)
	return err
}

// ReadPlan reads YAML or JSON. Errors: ErrInvalidPlan.
func ReadPlan(r io.Reader) (*Plan, error) {
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var p Plan
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return nil, fmt.Errorf("%w: %w: make one with kubectl service-cidr plan", ErrInvalidPlan, err)
	}
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

func (p *Plan) validate() error {
	switch {
	case p.Kind != Kind:
		return fmt.Errorf("%w: its kind is %q, not %s: make one with kubectl service-cidr plan", ErrInvalidPlan, p.Kind, Kind)
	case p.APIVersion != APIVersion:
		return fmt.Errorf("%w: its apiVersion is %q, and this program understands %s: make the plan anew with the program that applies it", ErrInvalidPlan, p.APIVersion, APIVersion)
	case p.Name == "" || p.Cluster.UID == "":
		return fmt.Errorf("%w: it has no name or names no cluster: make it anew", ErrInvalidPlan)
	case len(p.Steps) == 0:
		return fmt.Errorf("%w: it has no steps: make it anew", ErrInvalidPlan)
	case p.Request.Strategy != InPlace && p.Request.Strategy != Recreate:
		return fmt.Errorf("%w: its strategy is %q, neither %s nor %s: make it anew, plans are not edited by hand", ErrInvalidPlan, p.Request.Strategy, InPlace, Recreate)
	}
	for _, row := range p.Services {
		if s := row.Strategy; s != "" && s != InPlace && s != Recreate {
			return fmt.Errorf("%w: the strategy of %s is %q, neither %s nor %s: make it anew, plans are not edited by hand", ErrInvalidPlan, row.Key(), s, InPlace, Recreate)
		}
	}
	for i, s := range p.Steps {
		if s.ID != i+1 {
			return fmt.Errorf("%w: step %d has the id %d: make it anew, plans are not edited by hand", ErrInvalidPlan, i+1, s.ID)
		}
		if err := s.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) validate() error {
	missing := ""
	switch s.Kind {
	case CreateServiceCIDR, DeleteServiceCIDR, AwaitGone:
		if s.ServiceCIDR == nil || s.ServiceCIDR.Name == "" || len(s.ServiceCIDR.CIDRs) == 0 {
			missing = "ServiceCIDR"
		}
	case MoveServices, Verify:
		if s.Target == nil {
			missing = "target"
		}
	case HandOver, RenewKubernetes, AwaitDefault:
		if len(s.Ranges) == 0 {
			missing = "ranges"
		}
	case Acknowledge:
	default:
		return fmt.Errorf("%w: step %d is of the unknown kind %q: apply the plan with the program that made it", ErrInvalidPlan, s.ID, s.Kind)
	}
	if missing != "" {
		return fmt.Errorf("%w: step %d, %s, has no %s: make it anew, plans are not edited by hand", ErrInvalidPlan, s.ID, s.Kind, missing)
	}
	return nil
}

// row finds the row of a Service.
func (p *Plan) rows() map[string]*Row {
	rows := make(map[string]*Row, len(p.Services))
	for i := range p.Services {
		rows[p.Services[i].Key()] = &p.Services[i]
	}
	return rows
}

// quoted lists values for a message.
func quoted[S ~string](all []S) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return strings.Join(slices.Compact(out), ", ")
}
