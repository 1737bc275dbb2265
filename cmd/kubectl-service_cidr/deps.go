// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// deps are what commands work with; tests give others.
type deps struct {
	streams
	client func(*clientFlags) (kubernetes.Interface, error)
	clock  clock.WithTicker
	// in is what people type, if terminal says that there are any.
	in       io.Reader
	terminal func() bool
	// rand is a new source for each command.
	rand func() rand.Source
}

func realDeps(s streams) deps {
	return deps{
		streams:  s,
		client:   (*clientFlags).client,
		clock:    clock.RealClock{},
		in:       os.Stdin,
		terminal: func() bool { return isTerminal(os.Stdin) && isTerminal(os.Stderr) },
		rand:     func() rand.Source { return rand.NewPCG(rand.Uint64(), rand.Uint64()) },
	}
}

// quote makes a word that a shell reads as s.
func quote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=@%+"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func keysOf[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
