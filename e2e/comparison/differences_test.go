// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package comparison

// difference is one value that is not the same on both servers. In the table below a * at the end stands for anything.
type difference struct {
	scenario string
	step     string
	path     string
	kube     string // "" if it is not there
	ours     string

	// The rest is for the table only.

	why string // why it is right
	// race: kube-apiserver does not always do so. The difference need not be there.
	race bool
}

// differences are all there are.
var differences = []difference{
	{
		path: "managed[comparison Update <nil>].f:spec.f:internalTrafficPolicy", kube: "{}", scenario: "*", step: "*",
		why: "An ExternalName Service has no internalTrafficPolicy. kube-apiserver keeps the field in storage and leaves it out of " +
			"answers, so that it has an owner but no value; we clear it.",
	},
	{
		path: "metadata.finalizers[0]", ours: "networking.k8s.io/service-cidr-finalizer", scenario: "ServiceCIDR*", step: "*",
		why: "We give a ServiceCIDR its finalizer when it is created. With kube-apiserver a controller adds it a moment later, and " +
			"until then a deletion waits for nobody.",
	},
	{
		path: "*", kube: "*", ours: "*", scenario: "dry-run creation", step: "5 dry-run create white",
		why: "A dry run of kube-apiserver accepts an address that is taken: its allocator looks only whether the address is in range. " +
			"We answer as the creation would.",
	},
	{
		path: "*", kube: "*", ours: "*", scenario: "dual-stack, the second address is taken", step: "3 create red", race: true,
		why: "kube-apiserver allocates the families in random order. If the second one fails, the first is not given back: it stays taken " +
			"until the repair loop collects it, after a minute. So the next who asks for it is refused.",
	},
	{
		path: "address 10.96.4.7 *", kube: "*", ours: "*", scenario: "dual-stack, the second address is taken", step: "addresses left", race: true,
		why: "The same: the IPAddress is left, and names a Service that does not exist.",
	},
	{
		path: "*", kube: "*", ours: "*", scenario: "single to dual, second address given", step: "3 create green", race: true,
		why: "kube-apiserver writes the IPAddress of the second family before the Service. Its repair loop may see the one without the " +
			"other, takes it for a leak and deletes it; then the next Service gets the address that the first one has.",
	},
	{
		path: "address fd00:10:96::4:35 *", kube: "*", ours: "*", scenario: "single to dual, second address given", step: "addresses left", race: true,
		why: "The same.",
	},
}
