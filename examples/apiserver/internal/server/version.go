// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
)

// servedVersion is an effective version that names itself in /version by the Kubernetes API that is served. A program
// that is built without link flags has no version of its own, and kubectl cannot parse what then stands in its place.
type servedVersion struct {
	basecompatibility.EffectiveVersion
}

func newServedVersion() servedVersion {
	return servedVersion{basecompatibility.NewEffectiveVersionFromString(Version, "", "")}
}

// Info is what /version answers.
func (v servedVersion) Info() *version.Info {
	info := v.EffectiveVersion.Info()
	info.GitVersion = "v" + Version + ".0+metacidr"
	return info
}
