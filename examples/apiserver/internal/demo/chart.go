// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// bar is one line of a chart: how many were drawn, and how many are drawn on average.
type bar struct {
	label    string
	free     int
	drawn    int
	expected float64
}

const (
	barWidth = 40
	full     = "█"
	mark     = "┃" // where the average is
	light    = "·"
)

// chart draws the bars, scaled to the longest.
func (s *screen) chart(bars []bar) {
	longest := 1.0
	for _, b := range bars {
		longest = max(longest, float64(b.drawn), b.expected)
	}
	w := tabwriter.NewWriter(s.out, 6, 4, 3, ' ', 0)
	fmt.Fprintf(w, "RANGE\tFREE\tDRAWN\tEXPECTED\t%s drawn  %s expected\n", full, mark)
	for _, b := range bars {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f\t%s\n", b.label, b.free, b.drawn, b.expected, b.line(longest))
	}
	w.Flush()
}

// line is the bar itself, barWidth and the mark wide.
func (b bar) line(longest float64) string {
	cells := func(v float64) int { return int(v/longest*barWidth + 0.5) }
	drawn, expected := cells(float64(b.drawn)), cells(b.expected)
	var line strings.Builder
	for i := range barWidth + 1 {
		switch {
		case i == expected:
			line.WriteString(mark)
		case i < drawn:
			line.WriteString(full)
		default:
			line.WriteString(light)
		}
	}
	return line.String()
}
