// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun_RefusesWhatCannotBeRight(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--bogus"}, "--bogus"},
		{[]string{"start"}, `"start"`},
		{[]string{"--service-cluster-ip-range=10.96.0.0"}, "10.96.0.0"},
		{[]string{"--service-cluster-ip-range=10.96.0.0/16,10.97.0.0/16"}, "different families"},
		{[]string{"--service-cluster-ip-range=10.96.0.1/32"}, "no usable address"},
		{[]string{"--secure-port=70000"}, "70000"},
		{[]string{"--tls-cert-file=x"}, "--tls-private-key-file"},
	} {
		var stderr bytes.Buffer
		if code := run(append(c.args, "--data-dir="+t.TempDir()), &stderr); code != 2 || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q: exit code %d, %s", c.args, code, stderr.String())
		}
	}
}
