// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// clientFlags say which cluster, as kubectl's do.
type clientFlags struct {
	kubeconfig, context, cluster, user, as, server string

	timeout time.Duration
	// qps bounds the calls per second; 0 means 50, and below 0 no bound.
	qps float32
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig file (otherwise $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig to use")
	flags.StringVar(&f.cluster, "cluster", "", "cluster of the kubeconfig to use")
	flags.StringVar(&f.user, "user", "", "user of the kubeconfig to use")
	flags.StringVar(&f.as, "as", "", "user to impersonate")
	flags.StringVarP(&f.server, "server", "s", "", "address and port of the API server")
	flags.DurationVar(&f.timeout, "request-timeout", 30*time.Second, "how long to wait for an answer of the API server; 0 for ever")
}

// loader is the kubeconfig with the flags over it.
func (f *clientFlags) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: f.context,
		Context:        clientcmdapi.Context{Cluster: f.cluster, AuthInfo: f.user},
		ClusterInfo:    clientcmdapi.Cluster{Server: f.server},
		AuthInfo:       clientcmdapi.AuthInfo{Impersonate: f.as},
	})
}

// config reads the kubeconfig.
func (f *clientFlags) config() (*rest.Config, error) {
	config, err := f.loader().ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("no kubeconfig tells which cluster: give --kubeconfig or set KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w: check --kubeconfig, --context, --cluster and --user", err)
	}
	config.Timeout = f.timeout
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	// A reading is dozens of calls; the API server's own fairness bounds them.
	config.QPS, config.Burst = 50, 100
	if f.qps != 0 {
		config.QPS, config.Burst = f.qps, max(1, int(2*f.qps))
	}
	return config, nil
}

// client is the cluster that the flags name.
func (f *clientFlags) client() (kubernetes.Interface, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig cannot be used: %w: check --kubeconfig, --context, --cluster and --user", err)
	}
	return client, nil
}

// args are the flags that a later command needs to find the same cluster.
func (f *clientFlags) args() []string {
	var all []string
	for _, flag := range []struct{ name, value string }{
		{"kubeconfig", f.kubeconfig}, {"context", f.context}, {"cluster", f.cluster}, {"user", f.user}, {"as", f.as}, {"server", f.server},
	} {
		if flag.value != "" {
			all = append(all, "--"+flag.name+"="+quote(flag.value))
		}
	}
	return all
}

// completions complete the names of the kubeconfig.
func (f *clientFlags) completions(cmd *cobra.Command) {
	for name, names := range map[string]func(*clientcmdapi.Config) []string{
		"context": func(c *clientcmdapi.Config) []string { return keysOf(c.Contexts) },
		"cluster": func(c *clientcmdapi.Config) []string { return keysOf(c.Clusters) },
		"user":    func(c *clientcmdapi.Config) []string { return keysOf(c.AuthInfos) },
	} {
		complete(cmd, name, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			raw, err := f.loader().RawConfig()
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(&raw), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// complete gives a flag its completion. It fails only for a flag that does not
// exist.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// fixed completes one of a few words.
func fixed[S ~string](all []S) cobra.CompletionFunc {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
