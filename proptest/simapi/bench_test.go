// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// BenchmarkCreate is one create without a watch, at any number of objects.
func BenchmarkCreate(b *testing.B) {
	s := simapi.New()
	defer s.Close()
	ctx, client := context.Background(), s.Client("a").IPAddresses()
	addr := netip.MustParseAddr("2001:db8::1")
	obj := address("")
	b.ReportAllocs()
	for b.Loop() {
		obj.Name = addr.String()
		if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		addr = addr.Next()
	}
}
