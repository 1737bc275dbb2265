// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/metacidr/metacidr/lifecycle/renumber"
)

// rowsShown is how many rows of an action, and findings of a code, the table has.
const rowsShown = 8

// printPlan prints a plan for people. next are the commands that apply it.
func printPlan(w io.Writer, p *renumber.Plan, next []string) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "Plan %s: %s, on the cluster %s (%s).\n", p.Name, title(p), p.Cluster.UID, p.Cluster.Version)
	printSteps(&out, p)
	printServices(&out, p)
	printFindings(&out, p.Findings)
	fmt.Fprintln(&out)
	if len(p.Blockers()) > 0 {
		fmt.Fprintln(&out, "Nothing was written to the cluster. The plan cannot be applied as it is: see the blockers.")
	} else {
		fmt.Fprintln(&out, "Nothing was written to the cluster. To apply the plan:")
		for _, c := range next {
			fmt.Fprintln(&out, "  "+c)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// title says in words what was asked for.
func title(p *renumber.Plan) string {
	from := cmp.Or(p.Request.From, renumber.DefaultServiceCIDR)
	ranges := "?"
	for _, s := range p.ServiceCIDRs {
		if s.Name == from {
			ranges = strings.Join(s.CIDRs, ",")
		}
	}
	to := strings.Join(p.Request.To, ",")
	switch p.Request.Playbook {
	case renumber.Replace:
		return fmt.Sprintf("replace %s of ServiceCIDR %s by %s", ranges, from, to)
	case renumber.Expand:
		return fmt.Sprintf("expand %s of ServiceCIDR %s with %s", ranges, from, to)
	case renumber.Shrink:
		return fmt.Sprintf("shrink %s of ServiceCIDR %s to %s", ranges, from, to)
	case renumber.AddFamily:
		return fmt.Sprintf("add the family of %s to %s", to, ranges)
	case renumber.DropFamily:
		return fmt.Sprintf("drop %s from %s", p.Request.Family, ranges)
	case renumber.SwapFamily:
		return fmt.Sprintf("swap the families of %s", ranges)
	case renumber.MigrateFamily:
		return fmt.Sprintf("migrate from %s to %s", ranges, to)
	case renumber.Drain:
		return fmt.Sprintf("drain ServiceCIDR %s, %s", from, ranges)
	}
	return string(p.Request.Playbook)
}

func printSteps(out *bytes.Buffer, p *renumber.Plan) {
	fmt.Fprint(out, "\nSTEPS\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range p.Steps {
		fmt.Fprintf(table, "  %d\t%s\n", s.ID, s.Title)
	}
	// A bytes.Buffer takes everything.
	_ = table.Flush()
}

func printServices(out *bytes.Buffer, p *renumber.Plan) {
	byAction := map[renumber.Action][]renumber.Row{}
	for _, r := range p.Services {
		byAction[r.Action] = append(byAction[r.Action], r)
	}
	var counts []string
	for _, a := range renumber.Actions() {
		if n := len(byAction[a]); n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, strings.ToLower(string(a))))
		}
	}
	fmt.Fprintf(out, "\nSERVICES: %d (%s)\n", len(p.Services), strings.Join(counts, ", "))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  ACTION\tSERVICE\tCLASS\tFROM\tTO\tHOW\tWHY")
	for _, a := range renumber.Actions() {
		for i, r := range byAction[a] {
			if i == rowsShown {
				fmt.Fprintf(table, "  %s\t... and %d more\t\t\t\t\t-o yaml has all\n", a, len(byAction[a])-rowsShown)
				break
			}
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\n", a, r.Key(), r.Class, orNone(strings.Join(r.From, ",")), newAddresses(r), orNone(string(r.Strategy)), r.Reason)
		}
	}
	_ = table.Flush()
}

// newAddresses are those that a row asks for, or will be given.
func newAddresses(r renumber.Row) string {
	switch r.Action {
	case renumber.ActionMove, renumber.ActionConvert, renumber.ActionRenew:
	default:
		return "-"
	}
	all := make([]string, len(r.Families))
	for i, f := range r.Families {
		all[i] = fmt.Sprintf("<%s>", f)
		if i < len(r.To) && r.To[i] != "" {
			all[i] = r.To[i]
		}
	}
	if r.Class == renumber.ClassHeadless {
		return fmt.Sprintf("None (%s)", strings.Join(words(r.Families), ","))
	}
	return strings.Join(all, ",")
}

func printFindings(out *bytes.Buffer, all []renumber.Finding) {
	counts := map[renumber.Severity]int{}
	ofCode := map[renumber.Code]int{}
	for _, f := range all {
		counts[f.Severity]++
		ofCode[f.Code]++
	}
	fmt.Fprintf(out, "\nFINDINGS: %s, %s, %s\n", counted(counts[renumber.Blocker], "blocker", "blockers"),
		counted(counts[renumber.Warning], "warning", "warnings"), counted(counts[renumber.Info], "info", "infos"))
	shown := map[renumber.Code]int{}
	for _, f := range all {
		shown[f.Code]++
		switch {
		case shown[f.Code] == rowsShown+1:
			fmt.Fprintf(out, "  ... and %d more %s: -o yaml has all\n", ofCode[f.Code]-rowsShown, f.Code)
			continue
		case shown[f.Code] > rowsShown:
			continue
		}
		printFinding(out, f)
	}
}

func printFinding(out *bytes.Buffer, f renumber.Finding) {
	severity := strings.ToUpper(string(f.Severity))
	if f.Accepted {
		severity += " (accepted)"
	}
	about := ""
	if f.Object != "" {
		about = f.Object + ": "
	}
	fmt.Fprintf(out, "  %s %s  %s%s\n", severity, f.Code, about, f.Message)
	for _, line := range strings.Split(f.Remedy, "\n") {
		if line == renumber.NothingToDo {
			continue
		}
		fmt.Fprintf(out, "      %s\n", line)
	}
	if f.Override != "" && !f.Accepted {
		fmt.Fprintf(out, "      or let it be: %s\n", f.Override)
	}
}
