// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

// Package openapi has the OpenAPI definitions of what the server serves. Three things stand on them: kubectl explain,
// the field types of server-side apply (lists that merge by key carry x-kubernetes-list-type and
// x-kubernetes-list-map-keys), and defaults that are part of the schema.
//
// zz_generated.openapi.go comes from the markers beside the types in k8s.io/api. After an update of k8s.io/api, run
// go generate ./... in this module; `make openapi-check` fails if that was forgotten.
package openapi

//go:generate go tool openapi-gen --go-header-file=header.txt --output-dir=. --output-pkg=github.com/metacidr/metacidr/examples/apiserver/internal/openapi --output-file=zz_generated.openapi.go --report-filename=/dev/null k8s.io/api/core/v1 k8s.io/api/networking/v1 k8s.io/api/coordination/v1 k8s.io/api/events/v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version k8s.io/apimachinery/pkg/util/intstr k8s.io/apimachinery/pkg/api/resource
