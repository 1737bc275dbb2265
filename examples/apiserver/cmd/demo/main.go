// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo shows what metacidr is for, on a real API server that it starts on 127.0.0.1 and stops again. The exit
// code is 0 if every step came out as the text says.
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
	"syscall"

	"github.com/metacidr/metacidr/examples/apiserver/internal/demo"
)

func main() {
	// A second signal ends the program at once; the kernel then ends the server.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	server := flags.String("server", "", "the program metacidr-apiserver (default: the one beside this program)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is too much: there are only flags, see --help", flags.Arg(0))
	}
	if *server == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		*server = filepath.Join(filepath.Dir(self), "metacidr-apiserver")
	}
	dir, err := os.MkdirTemp("", "metacidr-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return demo.Run(ctx, demo.Config{Server: *server, Dir: dir, Out: out})
}
