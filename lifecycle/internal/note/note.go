// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package note fits texts into the notes of events. kube-apiserver refuses an
// event whose note is longer, and the recorder drops it in silence.
package note

import (
	"fmt"
	"strings"
)

// Max is how many bytes a note may have (validation of events.k8s.io, read in
// v1.37).
const Max = 1024

// Format is fmt.Sprintf, cut to Max bytes between two characters. Give it to a
// recorder as the argument of "%s".
func Format(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	if len(s) <= Max {
		return s
	}
	const dots = "..."
	return strings.ToValidUTF8(s[:Max-len(dots)], "") + dots
}
