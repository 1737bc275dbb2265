// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(runnerEnv); ok {
		os.Exit(runnerMain(text)) // this is no test but a runner that a test started
	}
	goleak.VerifyTestMain(m)
}
