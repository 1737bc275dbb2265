// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package note

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFormat_FitsAndIsText(t *testing.T) {
	for _, n := range []int{0, 1, Max - 1, Max, Max + 1, 5000} {
		for _, character := range []string{"a", "é", "世"} {
			s := strings.Repeat(character, n)
			got := Format("%s", s)
			switch {
			case len(got) > Max || !utf8.ValidString(got):
				t.Errorf("%d of %s: %d bytes, text: %v", n, character, len(got), utf8.ValidString(got))
			case len(s) <= Max && got != s:
				t.Errorf("%d of %s: changed without need", n, character)
			case len(s) > Max && (!strings.HasSuffix(got, "...") || len(got) < Max-utf8.UTFMax):
				t.Errorf("%d of %s: %d bytes end in %q", n, character, len(got), got[len(got)-3:])
			}
		}
	}
}
