// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation holds the simulated API server of package proptest/simapi to
// the real one. It has tests only.
//
//	               +--> simapi.Server ------+
//	script, steps -+                        +--> transcripts, line by line equal
//	               +--> kube-apiserver -----+     but for the known differences
//
// A step is a call through client-go's typed interfaces. Its line in the
// transcript is the kind of error, or the object that came back, in which UIDs and
// resourceVersions are replaced by when they appeared and times by whether they are
// set.
//
// # Rules
//
//   - One script, run on both: no step knows which of the two it talks to.
//   - A difference that is meant is listed in differences, with its reason. The test
//     fails on one that is not listed, and on a listed one that is not there.
package simulation
