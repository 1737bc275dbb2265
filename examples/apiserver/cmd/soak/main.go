// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command soak wears several replicas of metacidr-apiserver on one etcd, all on 127.0.0.1: clients create, change and
// delete Services while replicas are killed. The exit code is 0 if no address was ever had by two Services, and none is
// leaked or orphaned in the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/metacidr/metacidr/examples/apiserver/internal/soak"
)

func main() {
	// What client-go and etcd have to say of connections to a replica that was killed is no news.
	klog.SetLogger(logr.Discard())
	// A second signal ends the program at once; the kernel then ends the servers.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	config := soak.Config{Out: out}
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&config.Server, "server", "", "the program metacidr-apiserver (default: the one beside this program)")
	serverArgs := flags.String("server-args", strings.Join(defaultServerArgs, " "), "flags for it, separated by spaces")
	flags.StringVar(&config.Dir, "dir", "", "an empty folder for data and logs, which is kept (default: a temporary one)")
	flags.StringVar(&config.Ranges, "service-cluster-ip-range", "10.96.0.0/22,fd00:96::/112", "the ranges of the Services")
	flags.IntVar(&config.Replicas, "replicas", 3, "how many servers")
	flags.IntVar(&config.Clients, "clients", 64, "how many clients")
	flags.IntVar(&config.Keep, "keep", 8, "about how many Services each client has at a time")
	flags.DurationVar(&config.Duration, "duration", time.Minute, "how long the clients work")
	flags.DurationVar(&config.KillEvery, "kill-every", 5*time.Second, "the time between two kills")
	flags.DurationVar(&config.Collection, "collection", 5*time.Minute, "how long the servers may take to collect what kills have left")
	flags.Uint64Var(&config.Seed, "seed", 1, "of what the clients do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is too much: there are only flags, see --help", flags.Arg(0))
	}
	config.ServerArgs = strings.Fields(*serverArgs)
	if config.Server == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		config.Server = filepath.Join(filepath.Dir(self), "metacidr-apiserver")
	}
	if config.Dir == "" {
		if config.Dir, err = os.MkdirTemp("", "metacidr-soak-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(config.Dir)
			} else {
				fmt.Fprintln(out, "data and logs are in", config.Dir)
			}
		}()
	}
	return soak.Run(ctx, config)
}

// defaultServerArgs shorten what a run would only wait for.
var defaultServerArgs = []string{"--leak-grace=15s"}
