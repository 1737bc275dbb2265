// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/lifecycle/repair"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// A dry run says what is not one to one, and what would be done about it.
func Example_dryRun() {
	ctx := context.Background()
	server := simapi.New()
	defer server.Close()
	client := server.Client("me") // a clientset's NetworkingV1() and CoreV1()
	server.CreateServiceCIDR("kubernetes", metav1.ConditionTrue, "10.96.0.0/16")
	for name, ip := range map[string]string{"web": "10.96.3.7", "old": "192.0.2.1"} {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}}}
		if _, err := client.Services("shop").Create(ctx, service, metav1.CreateOptions{}); err != nil {
			fmt.Println(err)
			return
		}
	}

	controller, err := repair.New(repair.Config{
		Client: client,
		Owners: []repair.Registration{{Owners: repair.Services(client)}},
		DryRun: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := controller.Sync(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, finding := range report.Findings {
		fmt.Println(finding)
	}
	// Output:
	// missing 10.96.3.7: owner services/shop/web: reported
	// missing 192.0.2.1: owner services/shop/old: reported
	// out_of_range 192.0.2.1: owner services/shop/old: reported (usable in no ServiceCIDR)
}
