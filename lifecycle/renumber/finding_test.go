// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestCodes_AreWhole(t *testing.T) {
	seen := map[Code]bool{}
	for _, info := range Codes() {
		if seen[info.Code] {
			t.Errorf("%s is there twice", info.Code)
		}
		seen[info.Code] = true
		if info.Title == "" || !strings.HasSuffix(info.Meaning, ".") || info.Remedy == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(string(info.Code)) {
			t.Errorf("%+v", info)
		}
		if !slices.Contains([]Severity{Blocker, Warning, Info}, info.Severity) || info.Override != "" && info.Severity != Blocker {
			t.Errorf("%s: severity %q, override %q", info.Code, info.Severity, info.Override)
		}
		if strings.HasPrefix(info.Override, acceptFlag) && info.Override != acceptFlag+string(info.Code) {
			t.Errorf("%s: override %q", info.Code, info.Override)
		}
	}
	// Every constant of the source is in the table.
	source, err := os.ReadFile("finding.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := regexp.MustCompile(`(?m)^\tCode\w+ +Code = "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(constants) != len(seen) {
		t.Errorf("%d constants, %d in the table", len(constants), len(seen))
	}
	for _, c := range constants {
		if !seen[Code(c[1])] {
			t.Errorf("%s is not in the table", c[1])
		}
	}
}

// docs/findings.md has a section on each code, in the order of the table, that agrees with it.
func TestCodes_AreDocumented(t *testing.T) {
	raw, err := os.ReadFile("../../docs/findings.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(raw), "\n## ")
	var sections []string
	for _, part := range strings.Split("\n"+text, "\n### ")[1:] {
		part, _, _ = strings.Cut(part, "\n## ")
		sections = append(sections, part)
	}
	all := Codes()
	if len(sections) != len(all) {
		t.Errorf("%d sections, %d codes", len(sections), len(all))
	}
	for i, info := range all {
		if i >= len(sections) {
			t.Errorf("no section on %s", info.Code)
			continue
		}
		name, body, _ := strings.Cut(sections[i], "\n")
		if name != string(info.Code) {
			t.Errorf("section %d is on %s, not on %s", i, name, info.Code)
			continue
		}
		override := "none"
		if info.Override != "" {
			override = "`" + info.Override + "`"
		}
		wants := []string{fmt.Sprintf("**%s** (%s)", info.Title, info.Severity), "*Means:* ", "*Why:* ", "*Do:* "}
		if info.Severity == Blocker {
			wants = append(wants, "*Override:* "+override)
		}
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: the section has no %q", info.Code, want)
			}
		}
		if info.Severity != Blocker && strings.Contains(body, "*Override:*") {
			t.Errorf("%s is no blocker, and has an override", info.Code)
		}
	}
}

func TestSome(t *testing.T) {
	if got := some([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
	if got := some(strings.Split("a b c d e f g", " ")); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}
