// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Service with its address, through TLS, from client to etcd and back; and what a bare IPAddress takes of that.
func BenchmarkCreate(b *testing.B) {
	o := testOptions(b)
	o.ServiceClusterIPRange = "10.96.0.0/12"
	r := startReplica(b, o)
	var n atomic.Int64
	b.Run("Service", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_, err := r.client.CoreV1().Services("default").Create(b.Context(), port80(fmt.Sprintf("bench-%d", n.Add(1))), metav1.CreateOptions{})
				if err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("IPAddress", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := n.Add(1)
				_, err := r.client.NetworkingV1().IPAddresses().Create(b.Context(), gateway(fmt.Sprintf("10.200.%d.%d", i/250, i%250+1)), metav1.CreateOptions{})
				if err != nil {
					b.Error(err)
				}
			}
		})
	})
}
