// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command metacidr-apiserver is a Kubernetes API server for Services whose cluster IPs come out of many ServiceCIDRs.
// It serves namespaces, services and events, servicecidrs and ipaddresses, and leases; etcd is inside.
//
//	metacidr-apiserver --data-dir=data --service-cluster-ip-range=10.96.0.0/16
//	KUBECONFIG=data/admin.kubeconfig kubectl get servicecidrs
//
// It ends in order at SIGINT and SIGTERM. Exit codes: 0 ended in order; 1 it could not start or serve; 2 called wrongly.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/metacidr/metacidr/examples/apiserver/internal/server"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	o := server.NewOptions()
	flags := pflag.NewFlagSet("metacidr-apiserver", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	o.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "error: %q is not expected: it takes flags only, --help lists them\n", flags.Arg(0))
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := server.New(ctx, o)
	if errors.Is(err, server.ErrInvalidOptions) {
		fmt.Fprintln(stderr, "error:", err)
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	fmt.Fprintf(stderr, "metacidr-apiserver on https://%s, kubeconfig %s\n", s.Address, s.Kubeconfig)
	if err := s.Run(ctx); err != nil {
		fmt.Fprintln(stderr, "error:", err)
		return 1
	}
	return 0
}
