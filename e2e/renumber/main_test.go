// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(runnerEnv); ok {
		os.Exit(runnerMain(text)) // this is no test but a runner that a test started
	}
	flag.Parse()
	// They wait for control planes more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
