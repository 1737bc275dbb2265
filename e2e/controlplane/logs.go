// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"os"
	"regexp"
	"strings"
)

// LogPath returns the file to which the component writes its log, over all its runs.
func (cp *ControlPlane) LogPath(c Component) string { return cp.component(c).logPath }

// Logs returns all that the component has logged, over all its runs. It is empty
// once Stop has removed a temporary folder.
func (cp *ControlPlane) Logs(c Component) string { return readFrom(cp.LogPath(c), 0) }

// GrepLogs returns the lines of the component's log that match re, oldest first.
func (cp *ControlPlane) GrepLogs(c Component, re *regexp.Regexp) []string {
	var matches []string
	for line := range strings.Lines(cp.Logs(c)) {
		if line = strings.TrimSuffix(line, "\n"); re.MatchString(line) {
			matches = append(matches, line)
		}
	}
	return matches
}

// tail returns at most n of the last lines of the file, none that lies before offset.
func tail(path string, offset int64, n int) string {
	return lastLines(readFrom(path, offset), n)
}

// lastLines returns at most n of the last lines of text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// readFrom returns the file from offset on; nothing if it cannot be read: a log is
// a help, its absence no failure.
func readFrom(path string, offset int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	b, _ := io.ReadAll(f)
	return string(b)
}
