// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retry is the pause after failures in a row: it doubles, and is never shorter
// than the API server asks for.
type retry struct {
	first, most time.Duration
	failures    int
}

func (r *retry) reset() { r.failures = 0 }

// after returns the pause after one more failure.
func (r *retry) after(err error) time.Duration {
	pause := min(r.first, r.most)
	for range r.failures {
		if pause >= r.most {
			break
		}
		pause = min(2*pause, r.most)
	}
	r.failures++
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = max(pause, time.Duration(seconds)*time.Second)
	}
	return pause
}
