// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"strings"
)

// ErrStopped is returned by every method that would start a component after
// [ControlPlane.Stop]: a control plane is not started twice, make another.
var ErrStopped = errors.New("the control plane was stopped: start another one")

// ErrRunning is returned by a Start method of a component that runs already: stop
// or kill it first, or use its Restart method.
var ErrRunning = errors.New("already running: stop it first, or restart it")

// ErrInUse is returned by [Start] if another live control plane uses Config.Dir.
var ErrInUse = errors.New("the folder is in use by another control plane: stop that one or choose another folder")

// ConfigError says which field of a [Config] cannot be used, and why.
type ConfigError struct {
	Field  string // name of the field
	Value  string // what it held
	Reason string // why it is refused and what is accepted
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("Config.%s %q: %s", e.Field, e.Value, e.Reason)
}

// BuildError tells that the go command failed to build a component from its module.
type BuildError struct {
	Args   []string // of the go command
	Dir    string   // in which it ran
	Output string   // last lines of what it said
	Err    error    // how it ended; the context's error if that cut it short
}

func (e *BuildError) Error() string {
	s := fmt.Sprintf("build the control plane: go %q in %s: %v", e.Args, e.Dir, e.Err)
	if e.Output != "" {
		s += "\n" + indent(e.Output)
	}
	return s
}

// Unwrap returns how the go command ended.
func (e *BuildError) Unwrap() error { return e.Err }

// ComponentError tells that a component ended, or did not become ready in time,
// with the end of its log.
type ComponentError struct {
	Component Component
	LogPath   string // in a temporary folder it goes with Stop or, if Start failed, with the next Start
	LogTail   string // last lines since its latest start
	Err       error  // how it ended, or what the last readiness check said
}

func (e *ComponentError) Error() string {
	tail := e.LogTail
	if tail == "" {
		tail = "(nothing was logged)"
	}
	return fmt.Sprintf("%s %v; the end of its log %s:\n%s", e.Component, e.Err, e.LogPath, indent(tail))
}

// Unwrap returns how the component ended or what the last check said.
func (e *ComponentError) Unwrap() error { return e.Err }

func indent(s string) string {
	return "\t" + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n\t")
}
