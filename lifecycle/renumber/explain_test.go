// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metacidr/metacidr/cidr"
)

// Range arithmetic computed by an independent program: all of its fields.
func TestExplain_AgreesWithTheVectors(t *testing.T) {
	raw, err := os.ReadFile("../../cidr/testdata/ranges.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []map[string]any
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 100 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, want := range vectors {
		e, err := Explain(want["cidr"].(string))
		if err != nil {
			t.Error(err)
			continue
		}
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		delete(got, "warnings")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want["cidr"], diff)
		}
	}
}

func TestS39_TheFirstAddressOfAnUnalignedRange(t *testing.T) {
	e, err := Explain("10.96.10.10/20")
	if err != nil || e.First != "10.96.0.1" || e.CIDR != "10.96.0.0/20" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestS54_WhatIsOddIsAWarning(t *testing.T) {
	for input, want := range map[string]string{
		"10.96.0.0/12":     "",
		"fd00:10:96::/112": "",
		"10.96.10.10/20":   `"10.96.10.10/20" has bits set beyond its length: a ServiceCIDR must be spelled 10.96.0.0/20`,
		"10.96.0.0/28":     "it is too small for a static band: dynamic allocations may take any address, also those that you mean to ask for",
		"10.96.0.7/32":     "it has no usable address: the network address, and in IPv4 the broadcast address, are never given out",
		"2001:DB8::/64":    `"2001:DB8::/64" is not in canonical form: a ServiceCIDR must be spelled 2001:db8::/64`,
		"fd00:10:96::/48":  "kube-apiserver's own allocator refuses IPv6 ranges shorter than /64",
		"127.0.0.0/16":     "it overlaps with 127.0.0.0/8, loopback: it never leaves a node",
		"169.254.0.0/16":   "it overlaps with 169.254.0.0/16, link-local (RFC 3927): cloud metadata services are here",
		"8.8.0.0/16":       "it is no private range: what has these addresses on the Internet cannot be reached from the cluster",
		"172.0.0.0/8":      "it is no private range: what has these addresses on the Internet cannot be reached from the cluster",
		"2a00:1450::/112":  "it is no private range: what has these addresses on the Internet cannot be reached from the cluster",
		"198.51.100.0/24":  "",
		"fe80::/112":       "it overlaps with fe80::/10, link-local (RFC 4291)",
	} {
		e, err := Explain(input)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Join(e.Warnings, "; "); got != want {
			t.Errorf("%s: warnings %q, want %q", input, got, want)
		}
	}
}

func TestExplain_RefusesWhatHasNoMeaning(t *testing.T) {
	for _, input := range []string{"", "10.96.0.0", "10.96.0.0/33", "web", "10.96.0.0/12 "} {
		_, err := Explain(input)
		var parse *cidr.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), `"`+input+`"`) {
			t.Errorf("%q: error %v", input, err)
		}
	}
}

func TestExplainAll_WarnsOfOverlaps(t *testing.T) {
	all, err := ExplainAll([]string{"10.0.0.0/16", "10.0.1.0/24", "10.1.0.0/24", "10.1.0.5/24"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "it overlaps with 10.0.0.0/16: each address counts once", "", "it is the same range as 10.1.0.0/24"} {
		if got := strings.Join(all[i].Warnings, "; "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", all[i].CIDR, got, want)
		}
	}
	if _, err := ExplainAll([]string{"10.0.0.0/16", "web"}); err == nil {
		t.Error("no error")
	}
}
