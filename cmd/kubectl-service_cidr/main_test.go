// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// call runs the plugin.
func call(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = run(args, streams{&out, &err})
	return code, out.String(), err.String()
}

// Each golden file is what a user sees: the command, its exit code, and both
// streams.
func TestGolden(t *testing.T) {
	for name, line := range map[string]string{
		"help":            "--help",
		"help-explain":    "explain --help",
		"nothing":         "",
		"unknown-command": "renumber",
		"unknown-flag":    "explain 10.96.0.0/12 --watch",
		"unknown-format":  "explain 10.96.0.0/12 -o wide",
		"no-cidr":         "explain",
		"wrong-cidr":      "explain 10.96.0.0/12 10.96.0.0/33",
		"table":           "explain 10.96.0.0/12 10.96.10.10/20 10.96.0.0/28 fd00:10:96::/64 10.96.0.7/32",
		"json":            "explain 10.96.0.0/28 10.96.10.10/20 -o json",
		"yaml":            "explain 10.96.0.0/28 10.96.10.10/20 -o yaml",
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(strings.Fields(line)...)
			golden(t, name, line, code, stdout, stderr)
		})
	}
}

// golden compares what a user sees with the file of that name.
func golden(t *testing.T, name, line string, code int, stdout, stderr string) {
	t.Helper()
	got := "$ kubectl service-cidr " + line + "\n" + stdout
	if stderr != "" {
		got += "--- standard error\n" + stderr
	}
	got += "--- exit code " + string(rune('0'+code)) + "\n"
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What fails prints nothing on standard output, names the input, and has an
// exit code other than 0.
func TestFailuresAreClear(t *testing.T) {
	for _, args := range [][]string{{"explain"}, {"explain", "web"}, {"explain", "10.96.0.0/12", "-o", "wide"}, {"renumber"}, {"--bogus"}} {
		code, stdout, stderr := call(args...)
		if code == exitOK || stdout != "" || !strings.HasPrefix(stderr, "error: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestExplain_JSONIsAnArrayWithTheKeysOfTheVectors(t *testing.T) {
	code, stdout, stderr := call("explain", "10.96.0.0/12", "-o", "json")
	if code != exitOK || stderr != "" {
		t.Fatal(code, stderr)
	}
	var got []map[string]string
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{
		"cidr": "10.96.0.0/12", "size": "1048574", "staticSize": "256", "first": "10.96.0.1", "last": "10.111.255.254",
		"staticFirst": "10.96.0.1", "staticLast": "10.96.1.0", "dynamicFirst": "10.96.1.1", "dynamicLast": "10.111.255.254",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
