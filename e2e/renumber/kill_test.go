// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

const runnerEnv = "METACIDR_TEST_RUNNER"

func runnerMain(string) int { return 0 }
