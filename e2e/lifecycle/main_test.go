// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(processEnv); ok {
		os.Exit(replicaMain(text)) // this is no test but a replica that a test started
	}
	goleak.VerifyTestMain(m)
}
