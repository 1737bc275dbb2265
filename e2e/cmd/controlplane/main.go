// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane runs a real etcd and kube-apiserver, with upstream's
// ServiceCIDR controller, on this machine until it is interrupted: a cluster without
// nodes, to try ServiceCIDRs and IPAddresses on with kubectl.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/metacidr/metacidr/e2e/controlplane"
)

func main() {
	// A second signal ends the program at once; the kernel then ends the components.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted before the control plane was ready; nothing is left running")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// options are the command's flags.
type options struct {
	serviceClusterIPRange string
	dir                   string
	kubeconfig            string
	apiServerArgs         []string
	verbosity             int
	buildOnly             bool
}

func newCommand() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "controlplane",
		Short: "Run a real etcd and kube-apiserver on this machine until interrupted",
		Long: `Runs etcd, kube-apiserver and upstream's ServiceCIDR controller on 127.0.0.1 until
Ctrl-C or SIGTERM. It is a cluster without nodes: Services, ServiceCIDRs and
IPAddresses work as on any other, Pods stay pending.

Both components are built from their Go modules when the cache lacks them, which takes
some minutes the first time. The cache is .cache/controlplane in the checkout, or
$` + controlplane.CacheEnv + `/controlplane.`,
		Example: `  # start one, then use it from another terminal
  controlplane --kubeconfig=/tmp/cp.kubeconfig
  kubectl --kubeconfig=/tmp/cp.kubeconfig get servicecidrs,ipaddresses

  # another range and a flag of kube-apiserver
  controlplane --service-cluster-ip-range=10.112.0.0/24 --apiserver-arg=--event-ttl=5m

  # keep data and logs, to go on with them later
  controlplane --dir=$HOME/cp

  # only fill the cache
  controlplane --build-only`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w; see --help", err) })
	flags := cmd.Flags()
	flags.StringVar(&o.serviceClusterIPRange, "service-cluster-ip-range", controlplane.DefaultServiceClusterIPRange,
		"one prefix, or two of different families separated by a comma")
	flags.StringVar(&o.dir, "dir", "", "folder for data, keys and logs; kept at the end (default: a temporary one, removed at the end)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "also write the kubeconfig to this file, and remove it at the end; a file that is not this command's is not overwritten")
	flags.StringArrayVar(&o.apiServerArgs, "apiserver-arg", nil, "further flag of kube-apiserver, such as --apiserver-arg=--event-ttl=5m; may be repeated")
	flags.IntVar(&o.verbosity, "v", 0, "verbosity of kube-apiserver's log, 0 to 10")
	flags.BoolVar(&o.buildOnly, "build-only", false, "only build the components into the cache")
	return cmd
}

func run(ctx context.Context, o options, stdout, stderr io.Writer) (err error) {
	if o.buildOnly {
		binaries, err := controlplane.Build(ctx, stderr)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s\n%s\n", binaries.Etcd, binaries.APIServer)
		return nil
	}
	// Before the components start: a fault here shows at once.
	if err := checkTarget(o.kubeconfig); err != nil {
		return err
	}
	cp, err := controlplane.Start(ctx, controlplane.Config{
		ServiceClusterIPRange: o.serviceClusterIPRange,
		ExtraAPIServerArgs:    o.apiServerArgs,
		Verbosity:             o.verbosity,
		Dir:                   o.dir,
		Log:                   stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()

	controllerLog, err := os.OpenFile(filepath.Join(cp.Dir(), "service-cidr-controller.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the controller's log: %w", err)
	}
	defer controllerLog.Close()
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(controllerLog), textlogger.Verbosity(o.verbosity)))
	stopController, err := controlplane.RunServiceCIDRController(klog.NewContext(ctx, logger), cp.RESTConfig())
	if err != nil {
		return err
	}
	defer stopController()

	kubeconfig := cp.Kubeconfig()
	if o.kubeconfig != "" {
		kubeconfig = o.kubeconfig
		if err := publish(cp.Kubeconfig(), o.kubeconfig); err != nil {
			return err
		}
		defer func() {
			if rmErr := os.Remove(o.kubeconfig); !errors.Is(rmErr, os.ErrNotExist) {
				err = errors.Join(err, rmErr)
			}
		}()
	}
	fmt.Fprintf(stdout, `The control plane is ready; Ctrl-C ends it.

  kubeconfig  %[1]s
  server      %[2]s
  logs        %[3]s
              %[4]s
              %[5]s

Use it from another terminal:

  export KUBECONFIG=%[1]s
  kubectl get servicecidrs,ipaddresses
  kubectl create service clusterip demo --tcp=80
`, kubeconfig, cp.RESTConfig().Host, cp.LogPath(controlplane.Etcd), cp.LogPath(controlplane.APIServer), controllerLog.Name())

	if err := cp.Ended(ctx); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "Stopping.")
	return nil
}
