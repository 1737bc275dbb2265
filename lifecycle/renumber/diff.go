// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// drawn stands for an address that the API server draws.
const drawn = "<drawn>"

// Diff writes what the plan changes in each Service, in the manner of diff -u: what
// it has now with -, what it will have with +. live are the Services as they are
// now.
func Diff(w io.Writer, p *Plan, live []corev1.Service) error {
	byKey := make(map[string]*corev1.Service, len(live))
	for i := range live {
		byKey[key(&live[i])] = &live[i]
	}
	for i := range p.Services {
		row := &p.Services[i]
		if !row.changes() && row.Action != ActionRenew {
			continue
		}
		var out bytes.Buffer
		if svc := byKey[row.Key()]; svc == nil {
			fmt.Fprintf(&out, "--- Service %s\n+++ it is gone: nothing will be done\n", row.Key())
		} else {
			p.diffRow(&out, row, svc)
		}
		if _, err := w.Write(out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) diffRow(out *bytes.Buffer, row *Row, svc *corev1.Service) {
	how := string(row.Strategy)
	after := p.after(svc, row.To)
	if row.Action == ActionRenew {
		after.Spec.IPFamilies, after.Spec.ClusterIPs, after.Spec.ClusterIP = row.Families, row.To, row.To[0]
	}
	fmt.Fprintf(out, "--- Service %s\n+++ Service %s (%s)\n", row.Key(), row.Key(), how)
	if row.Strategy == Recreate {
		fmt.Fprintf(out, "@@ metadata @@\n-  uid: %s\n+  uid: <new>\n", svc.UID)
	}
	fmt.Fprintln(out, "@@ spec @@")
	diffLine(out, "clusterIP", svc.Spec.ClusterIP, after.Spec.ClusterIP)
	diffList(out, "clusterIPs", svc.Spec.ClusterIPs, after.Spec.ClusterIPs)
	diffList(out, "ipFamilies", svc.Spec.IPFamilies, after.Spec.IPFamilies)
	diffLine(out, "ipFamilyPolicy", policyName(svc.Spec.IPFamilyPolicy), policyName(after.Spec.IPFamilyPolicy))
}

func policyName(p *corev1.IPFamilyPolicy) string {
	if p == nil {
		return ""
	}
	return string(*p)
}

// diffLine writes a field of one line.
func diffLine(out *bytes.Buffer, name, before, after string) {
	if after == "" && name == "clusterIP" {
		after = drawn
	}
	if before == after {
		if before != "" {
			fmt.Fprintf(out, "   %s: %s\n", name, before)
		}
		return
	}
	if before != "" {
		fmt.Fprintf(out, "-  %s: %s\n", name, before)
	}
	if after != "" {
		fmt.Fprintf(out, "+  %s: %s\n", name, after)
	}
}

// diffList writes a field of several, item by item: those of the same place that do not
// change are context.
func diffList[S ~string](out *bytes.Buffer, name string, before, after []S) {
	fmt.Fprintf(out, "   %s:\n", name)
	shown := func(s S) S {
		if s == "" {
			return drawn
		}
		return s
	}
	after = slices.Clone(after)
	for i := range after {
		after[i] = shown(after[i])
	}
	common := 0
	for common < min(len(before), len(after)) && before[common] == after[common] {
		fmt.Fprintf(out, "   - %s\n", before[common])
		common++
	}
	for _, s := range before[common:] {
		fmt.Fprintf(out, "-  - %s\n", s)
	}
	for _, s := range after[common:] {
		fmt.Fprintf(out, "+  - %s\n", s)
	}
}
