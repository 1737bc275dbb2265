// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest_test

import (
	"testing"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

func TestMain(m *testing.M) {
	// client-go waits between two errors by the time of the last one, which may
	// have been in another bubble's future.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}
