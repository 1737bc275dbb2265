// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Command quickstart makes two ServiceCIDRs, allocates ten addresses, shows where they are from, and takes all back.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"text/tabwriter"
	"time"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/meta"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "kubeconfig (default: the one that kubectl uses)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		config.QPS = -1 // no throttling on this side
		err = run(ctx, kubernetes.NewForConfigOrDie(config).NetworkingV1(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "quickstart: %v\n(--kubeconfig chooses the cluster)\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, client informer.Client, out io.Writer) (err error) {
	calls := context.WithoutCancel(ctx) // a call that is cut short may yet be carried out: Ctrl-C counts between calls
	m, err := meta.New(meta.Config{Client: client})
	if err != nil {
		return err
	}
	go m.Run(ctx)
	for _, prefix := range []string{"10.112.0.0/24", "10.113.0.0/22"} {
		c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{GenerateName: "quickstart-"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{prefix}}}
		if c, err = client.ServiceCIDRs().Create(calls, c, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating a ServiceCIDR: %w", err)
		}
		defer func() { err = errors.Join(err, client.ServiceCIDRs().Delete(calls, c.Name, metav1.DeleteOptions{})) }()
		if err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			row := m.View().Snapshot().ServiceCIDR(c.Name)
			return row != nil && row.WhyNot(true) == "" && m.HasSynced(), nil
		}); err != nil {
			return fmt.Errorf("ServiceCIDR %s is not ready (does a ServiceCIDR controller run?): %w", c.Name, err)
		}
	}
	owner := meta.Owner{Resource: "configmaps", Namespace: "default", Name: "quickstart"} // need not exist
	for i := 0; i < 10 && ctx.Err() == nil; i++ {
		got, failed := m.Allocate(calls, meta.Request{Owner: owner, Families: []cidr.Family{cidr.IPv4}})
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, m.Release(calls, owner, got[0].Address)) }()
		fmt.Fprintf(out, "%-15s from %s\n", got[0].Address, got[0].Range)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nSERVICECIDR\tPREFIX\tREADY\tTAKEN\tFREE STATIC\tFREE DYNAMIC")
	for _, s := range m.Status().CIDRs {
		fmt.Fprintf(table, "%s\t%s\t%t\t%s\t%s\t%s\n", s.ServiceCIDR, s.Prefix, s.Ready, s.Static.Taken.Add(s.Dynamic.Taken), s.Static.Free, s.Dynamic.Free)
	}
	return errors.Join(ctx.Err(), table.Flush())
}
