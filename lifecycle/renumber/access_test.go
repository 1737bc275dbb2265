// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The roles in docs/rbac.yaml grant what the permission check asks about, and are asked for it.
func TestAccesses_AreTheDocumentedRoles(t *testing.T) {
	raw, err := os.ReadFile("../../docs/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	roles := 0
	for _, document := range strings.Split(string(raw), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(document), &role); err != nil {
			t.Fatal(err)
		}
		if role.Name != "metacidr-renumber" {
			continue
		}
		roles++
		if role.Kind == "Role" && role.Namespace != system || role.Kind == "ClusterRole" && role.Namespace != "" {
			t.Errorf("%s in namespace %q", role.Kind, role.Namespace)
		}
		for _, r := range role.Rules {
			// Namespaced rules are told from the others by where they are.
			r.ResourceNames = append(r.ResourceNames, role.Namespace)
			rules = append(rules, r)
		}
	}
	if roles != 2 {
		t.Fatalf("%d roles", roles)
	}
	granted := map[string]bool{}
	for _, r := range rules {
		where := r.ResourceNames[len(r.ResourceNames)-1]
		for _, v := range r.Verbs {
			for _, p := range r.NonResourceURLs {
				granted[Access{Verb: v, Path: p}.String()] = true
			}
			for _, resource := range r.Resources {
				a := Access{Verb: v, Group: r.APIGroups[0], Namespace: where}
				a.Resource, a.Subresource, _ = strings.Cut(resource, "/")
				if len(r.ResourceNames) > 1 {
					a.Name = r.ResourceNames[0]
				}
				granted[a.String()] = true
			}
		}
	}
	asked := map[string]bool{}
	for _, a := range Accesses() {
		asked[a.String()] = true
		if !granted[a.String()] {
			t.Errorf("no role lets one %s", a)
		}
	}
	// A recorder of events counts repetitions by patches, and does without.
	without := []string{"patch events.events.k8s.io"}
	for g := range granted {
		if !asked[g] && !slices.Contains(without, g) {
			t.Errorf("the roles let one %s, and nothing asks for it", g)
		}
	}
}
