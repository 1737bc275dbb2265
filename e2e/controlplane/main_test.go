// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// crashEnv has the test binary start a control plane, tell its processes and folder, and
// wait to be killed: see TestAKilledOwnerLeavesNothing.
const crashEnv = "METACIDR_TEST_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(crashEnv) != "" {
		ownUntilKilled()
		return
	}
	goleak.VerifyTestMain(m)
}

func ownUntilKilled() {
	cp, err := Start(context.Background(), Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(cp.PID(Etcd), cp.PID(APIServer), cp.Dir())
	_, _ = os.Stdin.Read(make([]byte, 1)) // never answered
}
