// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package servicecidr_test

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/lifecycle/servicecidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// Asking what a deletion would wait for, before it is made. With a real cluster
// the client is a clientset's NetworkingV1().
func ExampleBlockersLive() {
	server := simapi.New()
	defer server.Close()
	client := server.Client("operator")
	server.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.96.0.0/16")
	if _, err := client.IPAddresses().Create(context.Background(), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.10", Labels: map[string]string{informer.LabelManagedBy: informer.CoreManager}},
		Spec:       networkingv1.IPAddressSpec{ParentRef: informer.ServiceOwner("kube-system", "kube-dns").Reference()},
	}, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	report, err := servicecidr.BlockersLive(context.Background(), client, nil, "kubernetes")
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Blocked())
	fmt.Println(report)
	// Output:
	// true
	// 1 address blocks the deletion: 10.96.0.10 (services/kube-system/kube-dns). To go on, release them, or create another ServiceCIDR that contains 10.96.0.8/30
}
