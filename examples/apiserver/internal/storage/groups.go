// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	"github.com/metacidr/metacidr/examples/apiserver/internal/scheme"
)

// Groups makes the stores: the legacy group, and those under /apis.
func Groups(set scheme.Set, opts generic.RESTOptionsGetter, now clock.PassiveClock, services Services) (core *genericapiserver.APIGroupInfo, named []*genericapiserver.APIGroupInfo, err error) {
	namespaces, err := newNamespaces(set.Scheme, opts, now)
	if err != nil {
		return nil, nil, err
	}
	svc, svcStatus, err := newServices(set.Scheme, opts, now, services, namespaces)
	if err != nil {
		return nil, nil, err
	}
	cidrs, cidrsStatus, err := newServiceCIDRs(set.Scheme, opts, now)
	if err != nil {
		return nil, nil, err
	}
	addresses, err := newIPAddresses(set.Scheme, opts, now)
	if err != nil {
		return nil, nil, err
	}
	leases, err := newLeases(set.Scheme, opts)
	if err != nil {
		return nil, nil, err
	}
	events, err := newEvents(set.Scheme, opts)
	if err != nil {
		return nil, nil, err
	}
	namespaces.contents = []rest.CollectionDeleter{svc, leases, events}
	group := func(name, version string, storage map[string]rest.Storage) *genericapiserver.APIGroupInfo {
		info := genericapiserver.NewDefaultAPIGroupInfo(name, set.Scheme, set.ParameterCodec, set.Codecs)
		info.VersionedResourcesStorageMap[version] = storage
		return &info
	}
	core = group("", corev1.SchemeGroupVersion.Version, map[string]rest.Storage{
		"namespaces": namespaces, "services": svc, "services/status": svcStatus, "events": events,
	})
	named = []*genericapiserver.APIGroupInfo{
		group(networkingv1.GroupName, networkingv1.SchemeGroupVersion.Version, map[string]rest.Storage{
			"servicecidrs": cidrs, "servicecidrs/status": cidrsStatus, "ipaddresses": addresses,
		}),
		group(coordinationv1.GroupName, coordinationv1.SchemeGroupVersion.Version, map[string]rest.Storage{"leases": leases}),
	}
	return core, named, nil
}
