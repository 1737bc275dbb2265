// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// kubectl parses the version that the server gives.
func TestServedVersion(t *testing.T) {
	info := newServedVersion().Info()
	v, err := version.ParseSemantic(info.GitVersion)
	if err != nil {
		t.Fatal(err)
	}
	if want := version.MustParse(Version); v.Major() != want.Major() || v.Minor() != want.Minor() || info.Minor != "37" {
		t.Errorf("got %+v", info)
	}
}
