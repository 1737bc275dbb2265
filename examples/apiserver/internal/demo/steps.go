// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// Config says how to walk.
type Config struct {
	// Server is the path of the program metacidr-apiserver.
	Server string
	// Dir is the folder for the server's data, keys and log. It has to be there.
	Dir string
	// Out is where the walk is shown.
	Out io.Writer
}

// The ranges of the story. The first one is the server's own, by its flag.
var (
	first  = netip.MustParsePrefix("10.96.0.0/28")
	second = netip.MustParsePrefix("10.97.0.0/24")
	third  = netip.MustParsePrefix("10.98.0.0/22")
	nested = netip.MustParsePrefix("10.98.0.64/26")
	tiny   = netip.MustParsePrefix("10.99.0.0/29")
	six    = netip.MustParsePrefix("fd00:96::/112")
)

const (
	// patience is how long a step waits for what the server does by itself.
	patience     = 60 * time.Second
	pollInterval = 50 * time.Millisecond
	// workers is how many clients the walk plays at a time.
	workers = 8
)

// walk is the state that the steps share.
type walk struct {
	*screen
	server *server
	client kubernetes.Interface
}

// step is a part of the story. It returns an error if the outcome is not what it says.
type step struct {
	title string
	do    func(*walk, context.Context) error
}

// steps are the story, in order.
var steps = []step{
	{"A server whose range is full", (*walk).exhaust},
	{"A second ServiceCIDR, and it goes on", (*walk).addSecond},
	{"A third, larger one: spread by capacity", (*walk).spread},
	{"A nested one changes nothing, and each address counts once", (*walk).nest},
	{"A deletion is blocked, then unblocked", (*walk).block},
	{"Renumbering: a range that is in use goes out of use", (*walk).renumber},
	{"IPv4 to dual-stack", (*walk).dualStack},
	{"Is anything left over?", (*walk).check},
}

// Run starts the server and walks. It returns when the server has ended, nil if every step came out as it said.
func Run(ctx context.Context, config Config) (err error) {
	begin := time.Now()
	w := &walk{screen: newScreen(config.Out), server: newServer(config.Server, config.Dir)}
	w.say("Starting metacidr-apiserver, with etcd inside, on 127.0.0.1, with --service-cluster-ip-range=%s.", first)
	if w.client, err = w.server.start(ctx, first.String()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.server.stop()) }()
	w.say("Ready after %s. All that follows comes from this server.", time.Since(begin).Round(10*time.Millisecond))
	for i, s := range steps {
		w.title(i+1, s.title)
		if err := s.do(w, ctx); err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.title, err)
		}
		if w.out.err != nil {
			return fmt.Errorf("show step %d: %w", i+1, w.out.err)
		}
	}
	w.printf("\nAll %d steps came out as they said, in %s.\n", len(steps), time.Since(begin).Round(100*time.Millisecond))
	return w.out.err
}

// errNever says that what is waited for will not happen.
var errNever = errors.New("waiting is of no use")

// eventually waits until look returns nil, or errNever. what says what is waited for.
func eventually(ctx context.Context, what string, look func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(limit, pollInterval, true, func(ctx context.Context) (bool, error) {
		last = look(ctx)
		if errors.Is(last, errNever) {
			return false, last
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting %s: %w", what, errors.Join(err, last))
	}
	return nil
}
