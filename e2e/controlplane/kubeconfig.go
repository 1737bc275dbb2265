// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// KubeconfigName names cluster, user and context in the kubeconfig of a control plane.
const KubeconfigName = "metacidr-controlplane"

// writeKubeconfig stores a kubeconfig that holds all of config's credentials.
func writeKubeconfig(path string, config *rest.Config) error {
	file := clientcmdapi.NewConfig()
	file.Clusters[KubeconfigName] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[KubeconfigName] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts[KubeconfigName] = &clientcmdapi.Context{Cluster: KubeconfigName, AuthInfo: KubeconfigName}
	file.CurrentContext = KubeconfigName
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	return nil
}
