// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// blockedError: the plan was made, and has blockers.
type blockedError struct{ error }

// planFlags are what a plan is made from.
type planFlags struct {
	cluster  clientFlags
	request  renumber.Request
	family   string
	strategy string
	mapping  string
	mapFile  string
	accepted []string
	name     string
	file     string
	format   string
}

func newPlan(d deps) *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:   "plan PLAYBOOK",
		Short: "Say what a renumbering would do, step by step and Service by Service; writes nothing to the cluster",
		Long: `Read the cluster and say what a renumbering would do to it: the steps, what happens to each Service, and what was
found that speaks against it. Nothing is written to the cluster. With -f the plan goes into a file, for apply.

Playbooks:
  replace         move everything from one range to another: --to 10.112.0.0/16
  expand          add room: a further range, or a larger one around the present one: --to 10.96.0.0/12
  shrink          keep a part of a range; Services outside of it move: --to 10.96.0.0/20
  add-family      make a single-stack cluster dual-stack: --to fd00:10:96::/112
  drop-family     make a dual-stack cluster single-stack: --family IPv4
  swap-family     make the second family the first
  migrate-family  add a family, make it the first, drop the other: --to fd00:10:96::/112
  drain           move all Services out of one ServiceCIDR, and remove it: --from NAME

Findings are blockers, warnings and infos; docs/findings.md has a section on each. A plan with blockers is printed all
the same, and the exit code is 3. Some can be taken on with --accept CODE.`,
		Example: `  kubectl service-cidr plan replace --to 10.112.0.0/16 -f plan.yaml
  kubectl service-cidr plan replace --to 10.112.0.0/16 --map offset -o yaml
  kubectl service-cidr plan drain --from extra --accept AddressesOfOthers`,
		Args: func(cmd *cobra.Command, args []string) error {
			all := strings.Join(words(renumber.Playbooks()), ", ")
			switch {
			case len(args) == 0:
				return usageError{fmt.Errorf("no playbook given: give one of %s", all)}
			case len(args) > 1:
				return usageError{fmt.Errorf("%d playbooks given, %s: give one", len(args), strings.Join(args, " "))}
			case !slices.Contains(renumber.Playbooks(), renumber.Playbook(args[0])):
				return usageError{fmt.Errorf("unknown playbook %q: give one of %s", args[0], all)}
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return words(renumber.Playbooks()), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.request.Playbook = renumber.Playbook(args[0])
			return f.run(cmd, d)
		},
	}
	f.add(cmd, d)
	return cmd
}

func (f *planFlags) add(cmd *cobra.Command, d deps) {
	flags := cmd.Flags()
	flags.StringVar(&f.request.From, "from", "", "ServiceCIDR to empty (default: the one that the API server makes from its flag)")
	flags.StringSliceVar(&f.request.To, "to", nil, "new range, or one of each family")
	flags.StringVar(&f.family, "family", "", "family to drop: IPv4 or IPv6")
	flags.StringVar(&f.request.ServiceCIDR, "service-cidr", "", "name of the ServiceCIDR that the plan creates (default: the plan's name)")
	flags.StringVar(&f.strategy, "strategy", string(renumber.InPlace), "how Services move: in-place, recreate")
	flags.StringVar(&f.mapping, "map", "", "who chooses new addresses: server, random, offset, file (default server)")
	flags.StringVar(&f.mapFile, "map-file", "", "YAML file with lines \"namespace/name: address\"; implies --map=file")
	flags.BoolVar(&f.request.LoadBalancers, "load-balancers", false, "move LoadBalancer Services too")
	flags.BoolVar(&f.request.KeepSingleStack, "keep-single-stack", false, "leave Services as they are when a family is added")
	flags.BoolVar(&f.request.Acknowledge, "acknowledge", false, "wait before Services move until you say that all that holds a copy of the range is told")
	flags.StringSliceVar(&f.accepted, "accept", nil, "code of a blocker to take on; may be repeated")
	flags.StringVar(&f.name, "name", "", "name of the plan (default: from the playbook and the time)")
	flags.StringVarP(&f.file, "filename", "f", "", "file to write the plan to, for apply")
	flags.StringVarP(&f.format, "output", "o", "table", "how to print: "+strings.Join(formats(), ", "))
	f.cluster.add(flags)
	f.cluster.completions(cmd)
	complete(cmd, "output", fixed(formats()))
	complete(cmd, "strategy", fixed([]renumber.Strategy{renumber.InPlace, renumber.Recreate}))
	complete(cmd, "map", fixed(renumber.Mappings()))
	complete(cmd, "family", fixed([]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
	complete(cmd, "accept", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return acceptable(), cobra.ShellCompDirectiveNoFileComp
	})
	complete(cmd, "from", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return f.serviceCIDRs(cmd.Context(), d), cobra.ShellCompDirectiveNoFileComp
	})
	for _, name := range []string{"to", "name", "service-cidr"} {
		complete(cmd, name, cobra.NoFileCompletions)
	}
}

// acceptable are the codes that --accept takes.
func acceptable() []string {
	var all []string
	for _, info := range renumber.Codes() {
		if strings.HasPrefix(info.Override, "--accept ") {
			all = append(all, string(info.Code)+"\t"+info.Title)
		}
	}
	return all
}

// serviceCIDRs are the names to complete; none if the cluster does not answer.
func (f *planFlags) serviceCIDRs(ctx context.Context, d deps) []string {
	client, err := d.client(&f.cluster)
	if err != nil {
		return nil
	}
	all, err := client.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var names []string
	for _, s := range all.Items {
		names = append(names, s.Name+"\t"+strings.Join(s.Spec.CIDRs, ","))
	}
	return names
}

// complete checks all that needs no cluster.
func (f *planFlags) complete() error {
	f.request.Family = corev1.IPFamily(f.family)
	f.request.Strategy = renumber.Strategy(f.strategy)
	f.request.Mapping = renumber.Mapping(f.mapping)
	for _, c := range f.accepted {
		f.request.Accepted = append(f.request.Accepted, renumber.Code(c))
	}
	strategies := []renumber.Strategy{renumber.InPlace, renumber.Recreate}
	if err := checkFormat(f.format); err != nil {
		return err
	}
	switch {
	case !slices.Contains(strategies, f.request.Strategy):
		return usageError{fmt.Errorf("unknown strategy %q: give one of %s", f.strategy, strings.Join(words(strategies), ", "))}
	case f.mapping != "" && !slices.Contains(renumber.Mappings(), f.request.Mapping):
		return usageError{fmt.Errorf("unknown mapping %q: give one of %s", f.mapping, strings.Join(words(renumber.Mappings()), ", "))}
	case f.mapFile != "" && f.mapping != "" && f.request.Mapping != renumber.MapFile:
		return usageError{fmt.Errorf("--map-file is for --map=file, not for --map=%s", f.mapping)}
	case f.mapFile == "" && f.request.Mapping == renumber.MapFile:
		return usageError{fmt.Errorf("--map=file needs --map-file")}
	case f.family != "" && f.request.Family != corev1.IPv4Protocol && f.request.Family != corev1.IPv6Protocol:
		return usageError{fmt.Errorf("unknown family %q: give IPv4 or IPv6", f.family)}
	}
	for _, to := range f.request.To {
		if _, err := cidr.Parse(to); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
	}
	if f.mapFile == "" {
		return nil
	}
	f.request.Mapping = renumber.MapFile
	var err error
	f.request.Addresses, err = readAddresses(f.mapFile)
	return err
}

// readAddresses reads "namespace/name: address" and "namespace/name: [address, address]".
func readAddresses(path string) (map[string][]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--map-file: %w", err)
	}
	var lines map[string]any
	if err := yaml.UnmarshalStrict(raw, &lines); err != nil {
		return nil, fmt.Errorf("--map-file %s: %w: it has lines \"namespace/name: address\" or \"namespace/name: [address, address]\"", path, err)
	}
	all := make(map[string][]string, len(lines))
	for key, value := range lines {
		values, isList := value.([]any)
		if !isList {
			values = []any{value}
		}
		for _, v := range values {
			address, ok := v.(string)
			if !ok {
				return nil, fmt.Errorf("--map-file %s: %s: %v is no address: the line is \"namespace/name: address\" or \"namespace/name: [address, address]\"", path, key, v)
			}
			all[key] = append(all[key], address)
		}
	}
	return all, nil
}

func (f *planFlags) run(cmd *cobra.Command, d deps) error {
	if err := f.complete(); err != nil {
		return err
	}
	client, err := d.client(&f.cluster)
	if err != nil {
		return err
	}
	world, err := renumber.ReadWorld(cmd.Context(), client)
	if err != nil {
		return err
	}
	plan, err := renumber.Make(world, f.request, renumber.MakeOptions{Name: f.name, Clock: d.clock, Rand: d.rand()})
	if err != nil {
		return err
	}
	if f.file != "" {
		if err := writePlan(f.file, plan); err != nil {
			return err
		}
	}
	if err := f.print(cmd, d, plan); err != nil {
		return err
	}
	if n := len(plan.Blockers()); n > 0 {
		return blockedError{fmt.Errorf("the plan has %s: remedy them and plan again", counted(n, "blocker", "blockers"))}
	}
	return nil
}

// writePlan leaves either the whole plan or what was there before. A plan tells much
// of a cluster: it is for its owner only.
func writePlan(path string, plan *renumber.Plan) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("the plan cannot be written: %w: give another file with -f", err)
	}
	// CreateTemp makes it 0600.
	err = plan.Encode(tmp)
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("the plan cannot be written: %w: give another file with -f", err)
	}
	return nil
}

func (f *planFlags) print(cmd *cobra.Command, d deps, plan *renumber.Plan) error {
	if done, err := encode(d.out, plan, f.format); done {
		return err
	}
	return printPlan(d.out, plan, f.next(cmd, plan))
}

// next are the commands that apply the plan.
func (f *planFlags) next(cmd *cobra.Command, plan *renumber.Plan) []string {
	file := f.file
	var all []string
	if file == "" {
		file = "plan.yaml"
		again := []string{"kubectl", "service-cidr", "plan", string(plan.Request.Playbook)}
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			switch value := flag.Value.(type) {
			case pflag.SliceValue:
				again = append(again, "--"+flag.Name+"="+quote(strings.Join(value.GetSlice(), ",")))
			default:
				if flag.Name != "output" {
					again = append(again, "--"+flag.Name+"="+quote(value.String()))
				}
			}
		})
		all = append(all, strings.Join(append(again, "-f", quote(file)), " "))
	}
	apply := append([]string{"kubectl", "service-cidr", "apply", "-f", quote(file)}, f.cluster.args()...)
	return append(all, strings.Join(apply, " "))
}

func words[S ~string](all []S) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}

// counted is "1 blocker" or "3 blockers".
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
