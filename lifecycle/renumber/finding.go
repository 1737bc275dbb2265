// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"fmt"
	"slices"
)

// The codes of findings. Codes has what each means, docs/findings.md a section on each.
const (
	// About the new range.
	CodeTargetTooSmall      Code = "TargetTooSmall"
	CodeTargetTight         Code = "TargetTight"
	CodeDynamicBandTooSmall Code = "DynamicBandTooSmall"
	CodeOverlapsPods        Code = "OverlapsPods"
	CodeOverlapsNodes       Code = "OverlapsNodes"
	CodeOverlapsServiceCIDR Code = "OverlapsServiceCIDR"
	CodeOverlapsSpecial     Code = "OverlapsSpecial"
	CodePublicRange         Code = "PublicRange"
	CodeRangeRefused        Code = "RangeRefused"
	CodeOtherRangesDrawn    Code = "OtherRangesDrawn"
	CodeOffsetNotKept       Code = "OffsetNotKept"
	CodeFirstAddressTaken   Code = "FirstAddressTaken"
	CodeFirstAddressAtRisk  Code = "FirstAddressAtRisk"

	// About ServiceCIDRs and IPAddresses.
	CodeServiceCIDRNotReady    Code = "ServiceCIDRNotReady"
	CodeServiceCIDRTerminating Code = "ServiceCIDRTerminating"
	CodeAddressesOfOthers      Code = "AddressesOfOthers"
	CodeAddressesOrphaned      Code = "AddressesOrphaned"
	CodeAddressesUnmanaged     Code = "AddressesUnmanaged"
	CodeAddressesMissing       Code = "AddressesMissing"

	// About Services.
	CodeServicesByClass      Code = "ServicesByClass"
	CodeLoadBalancersHeld    Code = "LoadBalancersHeld"
	CodeLoadBalancersMove    Code = "LoadBalancersMove"
	CodeKubernetesInRange    Code = "KubernetesInRange"
	CodeHardCodedAddress     Code = "HardCodedAddress"
	CodeServiceOwned         Code = "ServiceOwned"
	CodeMovesInPlace         Code = "MovesInPlace"
	CodeExternalIPsInRange   Code = "ExternalIPsInRange"
	CodeSingleStackServices  Code = "SingleStackServices"
	CodeServiceParked        Code = "ServiceParked"
	CodeNetworkPolicyInRange Code = "NetworkPolicyInRange"
	CodeEndpointsInRange     Code = "EndpointsInRange"
	CodeWebhookInRange       Code = "WebhookInRange"

	// About what the operator does outside of the cluster's API.
	CodeDNSAddress        Code = "DNSAddress"
	CodeDNSUnknown        Code = "DNSUnknown"
	CodeCertificate       Code = "Certificate"
	CodeRestartAPIServers Code = "RestartAPIServers"
	CodeConsumersOfRange  Code = "ConsumersOfRange"
	CodeNodesSingleStack  Code = "NodesSingleStack"

	// About the reading itself.
	CodePermissionMissing Code = "PermissionMissing"
	CodeNotChecked        Code = "NotChecked"
	CodeNodesNotChecked   Code = "NodesNotChecked"

	// About what has changed since the plan was made: World.Moved.
	CodeOtherCluster       Code = "OtherCluster"
	CodeServiceCIDRGone    Code = "ServiceCIDRGone"
	CodeServiceCIDRChanged Code = "ServiceCIDRChanged"
	CodeServiceCIDRNew     Code = "ServiceCIDRNew"
	CodeServiceGone        Code = "ServiceGone"
	CodeServiceChanged     Code = "ServiceChanged"
	CodeServiceUnknown     Code = "ServiceUnknown"
)

// CodeInfo is what holds of all findings of a code.
type CodeInfo struct {
	Code     Code
	Severity Severity
	// Title is a heading, Meaning a sentence on what it means for the operator,
	// Remedy what to do.
	Title, Meaning, Remedy string
	// Override is the flag that lets a blocker be; "" if there is none.
	Override string
}

// acceptFlag begins the Override of blockers that the operator may take on.
const acceptFlag = "--accept "

// NothingToDo is the Remedy of what is only told.
const NothingToDo = "nothing to do"

const planAnew = "make the plan anew: kubectl service-cidr plan"

// Codes lists all there are, in the order of docs/findings.md.
func Codes() []CodeInfo {
	accept := func(c Code) string { return acceptFlag + string(c) }
	return []CodeInfo{
		{CodeTargetTooSmall, Blocker, "The new range has too few free addresses",
			"Services would be left without an address in the middle of the run.",
			"give a larger range", ""},
		{CodeTargetTight, Warning, "The new range will be nearly full",
			"More than 80 % of its addresses will be taken when the plan is done.",
			"give a larger range, or expand soon", ""},
		{CodeDynamicBandTooSmall, Warning, "Services will take addresses of the static band",
			"The dynamic band has too few free addresses, so some are drawn from the static band, where people expect to find the ones that they ask for.",
			"give a larger range, or ask for fixed addresses before the run", ""},
		{CodeOverlapsPods, Blocker, "The new range overlaps a pod range",
			"A Service and a pod could have the same address, and one of them would not be reached.",
			"give a range that no node has as its podCIDR", accept(CodeOverlapsPods)},
		{CodeOverlapsNodes, Blocker, "The new range contains a node's address",
			"The node could not be reached from pods at that address: the cluster would lose it.",
			"give a range outside of the nodes' network", accept(CodeOverlapsNodes)},
		{CodeOverlapsServiceCIDR, Blocker, "The new range overlaps another ServiceCIDR",
			"Addresses count once, whichever ServiceCIDR they come from: the new range has less room than it seems, and neither can be removed while the other's Services use what they share.",
			"give a range that no ServiceCIDR has", accept(CodeOverlapsServiceCIDR)},
		{CodeOverlapsSpecial, Blocker, "The new range is a special one",
			"Addresses of Services do not work in loopback, link-local, multicast or reserved prefixes.",
			"give a private range: a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or fc00::/7", accept(CodeOverlapsSpecial)},
		{CodePublicRange, Warning, "The new range is no private one",
			"Whatever has these addresses on the Internet cannot be reached from the cluster.",
			"give a part of 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10 or fc00::/7", ""},
		{CodeRangeRefused, Blocker, "The API server does not take the new range",
			"It would not start with this --service-cluster-ip-range, or give no addresses of this ServiceCIDR.",
			"give a range of 8 addresses or more; IPv6: /64 or longer; before Kubernetes 1.34, as the API server's range: IPv4 /12 or longer, IPv6 /108 or longer", ""},
		{CodeOtherRangesDrawn, Info, "The API server may draw from other ranges as well",
			"It draws from any ready ServiceCIDR, so Services can land in another than the new one.",
			"--map=random or --map=offset has the plan choose addresses of the new range", ""},
		{CodeOffsetNotKept, Warning, "A Service cannot keep its distance",
			"With --map=offset each Service keeps its distance from the start of the range. Here that address is taken, not usable or beyond the end, so the API server draws one.",
			"give a range as large as the old one, free what is in the way, or name the address with --map-file", ""},
		{CodeFirstAddressTaken, Blocker, "The API server's new address is taken",
			"The API server gives Service kubernetes the first address of its first range, and can make no Service kubernetes while another has it.",
			"move what has it to another address first, or give another range", ""},
		{CodeFirstAddressAtRisk, Warning, "The API server's new address may be drawn by others",
			"The new range has no static band, so any Service that is made during the run may be given the first address, which Service kubernetes needs. The plan itself chooses other addresses.",
			"give a range of more than 16 addresses, or see to it that nobody makes Services during the run", ""},

		{CodeServiceCIDRNotReady, Blocker, "A ServiceCIDR is not ready",
			"Nothing is allocated from it. If nothing makes ServiceCIDRs ready in this cluster, the run stops at its first gate.",
			"read its conditions: kubectl describe servicecidr NAME; does kube-controller-manager run?", accept(CodeServiceCIDRNotReady)},
		{CodeServiceCIDRTerminating, Warning, "A ServiceCIDR is being deleted",
			"Somebody, or an earlier run, has begun to remove it. It gives no addresses, and stays until the Services in it have left.",
			"finish that first: kubectl service-cidr history tells whether a run is under way", ""},
		{CodeAddressesOfOthers, Blocker, "Addresses of the old range belong to something else than a Service",
			"The runner moves Services only. The old ServiceCIDR stays until these are gone, if they are managed, and verify lists them.",
			"have their owners release them: kubectl get ipaddress NAME -o yaml names the owner", accept(CodeAddressesOfOthers)},
		{CodeAddressesOrphaned, Warning, "Addresses of the old range belong to Services that do not have them",
			"Their Service is gone or has another address. The repair loop of the API server removes them after about a minute; until then they hold the old ServiceCIDR.",
			"wait, and if they stay: kubectl delete ipaddress NAME", ""},
		{CodeAddressesUnmanaged, Warning, "Addresses of the old range are managed by nobody",
			"They lack the label of the API server's allocator. They do not hold the ServiceCIDR and nobody collects them, so verify lists them at the end.",
			"delete those that nobody needs: kubectl delete ipaddress NAME", ""},
		{CodeAddressesMissing, Warning, "Services have addresses without an IPAddress",
			"The API server's repair loop should have made them. Until then, somebody else may be given such an address.",
			"look for events IPAddressNotAllocated, and into the API server's log", ""},

		{CodeServicesByClass, Info, "What Services there are, and what happens to them",
			"A count of rows by class and action.", NothingToDo, ""},
		{CodeLoadBalancersHeld, Blocker, "A LoadBalancer Service would have to move",
			"On its way to another address it is no LoadBalancer for a moment. Its status is put back, but its cloud controller may act in between and set up another load balancer, with another address.",
			"--load-balancers moves it all the same; or make it anew by hand, before the run", "--load-balancers"},
		{CodeLoadBalancersMove, Warning, "LoadBalancer Services will move",
			"On its way each is no LoadBalancer for a moment, and its cloud controller may act in between.",
			"try one first (apply --selector); keep the addresses outside, where the cloud lets you reserve them", ""},
		{CodeKubernetesInRange, Blocker, "Service default/kubernetes is in the range to leave",
			"The API server gives it the first address of its own first range, and no step of this playbook changes that range: the old one would never become empty.",
			"renumber the default ServiceCIDR instead (leave out --from), or choose a range without that address", ""},
		{CodeHardCodedAddress, Warning, "A manifest names the address of a Service",
			"The next time that it is applied it asks for the old address, and is refused, since a clusterIP cannot be changed.",
			"take clusterIP and clusterIPs out of the manifest, or change them to the new address, before the Service moves", ""},
		{CodeServiceOwned, Warning, "A Service belongs to a controller",
			"It has an ownerReference: its controller may put it back while it moves, or keep its address elsewhere.",
			"read in that controller's manual whether it follows; move its Services first (apply --selector), and look", ""},
		{CodeMovesInPlace, Info, "A Service moves in place, not by recreation",
			"A deletion would wait for finalizers, or take away what refers to the Service.",
			NothingToDo, ""},
		{CodeExternalIPsInRange, Warning, "externalIPs lie in a range of the plan",
			"A Service names addresses of the old or the new range as its externalIPs: they will clash with a clusterIP, or mean one that is gone.",
			"take them out of the Service's externalIPs", ""},
		{CodeSingleStackServices, Info, "Services stay single-stack",
			"The cluster has two families, and these Services will have one: adding a family changes no Service by itself.",
			"plan without --keep-single-stack (and with --load-balancers for those), or set spec.ipFamilyPolicy to PreferDualStack", ""},
		{CodeServiceParked, Blocker, "A Service is on its way, by another run",
			"An earlier run was stopped in the middle of it: it is an ExternalName for now, and its original is in that run's journal.",
			"finish that run first: kubectl service-cidr resume, or rollback", ""},
		{CodeNetworkPolicyInRange, Warning, "A NetworkPolicy names addresses of the old range",
			"What it allows or forbids will mean nobody any more.",
			"add the new range beside the old one before the run, and take the old one out after it", ""},
		{CodeEndpointsInRange, Warning, "An EndpointSlice names addresses of the old range",
			"It sends traffic to the clusterIP of a Service, which will be another.",
			"change it when that Service has moved, or name the pods instead", ""},
		{CodeWebhookInRange, Warning, "A webhook is called at an address of the old range",
			"The API server will not reach it any more. If its failurePolicy is Fail, requests are refused, among them the runner's.",
			"give it clientConfig.service instead of clientConfig.url", ""},

		{CodeDNSAddress, Warning, "The address of the cluster's DNS changes",
			"Pods have it in their resolv.conf from their start, and kubelets hand it out: whatever has the old one resolves no name once the DNS has moved.",
			"give kubelets the new address, and restart pods", ""},
		{CodeDNSUnknown, Info, "No DNS Service was found",
			"No Service is kube-system/kube-dns, is labelled k8s-app=kube-dns there, or has the address that kubelets hand out.",
			"if the cluster has a DNS Service, see to it that kubelets and pods learn its new address", ""},
		{CodeCertificate, Warning, "The API server's certificate must name another address",
			"Pods reach the API server at the first address of its first range, and check its certificate for that address.",
			"make a certificate with the address before the restart", ""},
		{CodeRestartAPIServers, Info, "You restart the API servers with another flag",
			"The runner does not change the API servers: it waits, and checks that all of them use the new ranges.",
			"restart every API server when the runner says so", ""},
		{CodeConsumersOfRange, Info, "What else holds a copy of the range",
			"CNI settings, kube-proxy, service meshes, firewalls, NO_PROXY variables, VPN routes and virtual clusters often have a copy of the service CIDR.",
			"add the new range wherever the old one is named; --acknowledge has the runner wait until you say that it is done", ""},
		{CodeNodesSingleStack, Blocker, "Nodes have pod ranges of one family only",
			"A Service of the new family needs pods that have addresses of it, and these nodes give them none.",
			"make the nodes and the network plugin dual-stack first", accept(CodeNodesSingleStack)},

		{CodePermissionMissing, Blocker, "You lack permissions that the run needs",
			"It would stop in the middle, at the first call that is refused.",
			"docs/rbac.yaml has the roles; accept it if somebody else applies the plan", accept(CodePermissionMissing)},
		{CodeNotChecked, Warning, "Something could not be read, so it was not checked",
			"What this plan would find there, it does not know.",
			"ask for permission to list it, and plan again", ""},
		{CodeNodesNotChecked, Blocker, "Nodes could not be read",
			"Whether the new range overlaps pods or nodes is not known.",
			"ask for permission to list nodes, and plan again", accept(CodeNodesNotChecked)},

		{CodeOtherCluster, Blocker, "The plan is of another cluster",
			"The UID of namespace kube-system differs: names that look alike mean other objects here.",
			"use the kubeconfig and context that the plan was made with, or make a plan of this cluster", ""},
		{CodeServiceCIDRGone, Blocker, "A ServiceCIDR of the plan is gone or is being deleted",
			"The steps of the plan suppose that it is there.", planAnew, ""},
		{CodeServiceCIDRChanged, Blocker, "A ServiceCIDR of the plan has changed",
			"It has other ranges or is another object of the same name, or the name that the plan would use is taken.", planAnew, ""},
		{CodeServiceCIDRNew, Blocker, "There is a new ServiceCIDR that overlaps the plan's ranges",
			"Addresses could be drawn where the plan did not expect it, or a range could not be removed.", planAnew, accept(CodeServiceCIDRNew)},
		{CodeServiceGone, Warning, "A Service of the plan is gone",
			"There is nothing to move: it is skipped.", "nothing to do, if you know why it is gone", ""},
		{CodeServiceChanged, Blocker, "A Service of the plan has changed",
			"It is another object of the same name, has other addresses or is of another class, so the plan's row does not fit it.", planAnew, accept(CodeServiceChanged)},
		{CodeServiceUnknown, Warning, "A Service in a range to leave is not in the plan",
			"It was made after the plan was, and has an address that must be left. The runner moves it too, to an address that the API server draws.",
			"nothing to do, or " + planAnew, ""},
	}
}

func infoOf(c Code) (CodeInfo, bool) {
	for _, info := range Codes() {
		if info.Code == c {
			return info, true
		}
	}
	return CodeInfo{}, false
}

// finding makes one with what holds of all of its code. remedy takes the place of
// the general one, if given.
func finding(c Code, object, message string, remedy ...string) Finding {
	info, _ := infoOf(c)
	f := Finding{Code: c, Severity: info.Severity, Object: object, Message: message, Remedy: info.Remedy, Override: info.Override}
	if len(remedy) > 0 {
		f.Remedy = remedy[0]
	}
	return f
}

// sortFindings puts blockers first; within a severity it keeps the order of Codes, and of
// what was found.
func sortFindings(all []Finding) {
	order := map[Code]int{}
	for i, info := range Codes() {
		order[info.Code] = i
	}
	severities := []Severity{Blocker, Warning, Info}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
			cmp.Compare(order[a.Code], order[b.Code]))
	})
}

// some lists the first few, and how many more there are.
func some(all []string) string {
	const few = 5
	out := ""
	for i, s := range all {
		switch {
		case i == few:
			return fmt.Sprintf("%s and %d more", out, len(all)-few)
		case i > 0:
			out += ", "
		}
		out += s
	}
	return out
}
