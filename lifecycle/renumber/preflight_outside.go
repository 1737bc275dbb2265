// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/metacidr/metacidr/cidr"
)

// tool is what a control plane was set up with.
type tool string

const (
	kubeadm tool = "kubeadm"
	k3s     tool = "k3s"
)

// tools are those that the operator may have.
func (w *World) tools() []tool {
	switch {
	case w.k3s():
		return []tool{k3s}
	case w.Kubeadm:
		return []tool{kubeadm}
	}
	return []tool{kubeadm, k3s}
}

// commands joins what to do with each tool.
func (w *World) commands(of map[tool]string) string {
	var all []string
	for _, t := range w.tools() {
		all = append(all, fmt.Sprintf("%s: %s", t, of[t]))
	}
	return strings.Join(all, "\n")
}

// checkDNS: what must kubelets and pods be told?
func checkDNS(w *World, p *Plan) []Finding {
	if len(p.moves()) == 0 {
		return nil
	}
	var all []Finding
	seen := false
	for i := range p.Services {
		row := &p.Services[i]
		if row.Class != ClassDNS {
			continue
		}
		seen = true
		if row.Action != ActionMove {
			continue
		}
		address := "its new address"
		message := fmt.Sprintf("%s moves to an address that the API server draws: it is known when it has moved", strings.Join(row.From, ","))
		if len(row.To) > 0 && !slices.Contains(row.To, "") {
			address = strings.Join(row.To, ",")
			message = fmt.Sprintf("%s moves to %s", strings.Join(row.From, ","), address)
		}
		if len(w.KubeletDNS) > 0 {
			message += fmt.Sprintf("; kubelets hand out %s", strings.Join(w.KubeletDNS, ","))
		}
		all = append(all, finding(CodeDNSAddress, "Service "+row.Key(), message, w.commands(map[tool]string{
			kubeadm: fmt.Sprintf("set clusterDNS to %s with kubectl -n kube-system edit configmap kubelet-config; then, on every node, sudo kubeadm upgrade node phase kubelet-config && sudo systemctl restart kubelet; then restart pods that are not on the host network", address),
			k3s:     fmt.Sprintf("set cluster-dns: %s in /etc/rancher/k3s/config.yaml of every server, and restart k3s; then restart pods that are not on the host network", address),
		})))
	}
	if !seen {
		all = append(all, finding(CodeDNSUnknown, "", "there is no Service kube-system/kube-dns, none labelled k8s-app=kube-dns, and none with an address that kubelets hand out"))
	}
	return all
}

// checkCertificate: which first addresses must certificates name?
func checkCertificate(w *World, p *Plan) []Finding {
	var all []Finding
	for _, s := range p.Steps {
		if s.Kind != HandOver {
			continue
		}
		first, before := cidr.MustParse(s.Ranges[0]).First(), netip.Addr{}
		if len(s.Before) > 0 {
			before = cidr.MustParse(s.Before[0]).First()
		}
		if first == before {
			continue
		}
		all = append(all, finding(CodeCertificate, fmt.Sprintf("step %d", s.ID),
			fmt.Sprintf("before the API servers restart with %s, their certificates must name %s (subjectAltName); keep %s in them until all have", strings.Join(s.Ranges, ","), first, before),
			w.commands(map[tool]string{
				kubeadm: fmt.Sprintf("kubectl -n kube-system get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}' > kubeadm.yaml; set networking.serviceSubnet to %s in it, and add %s to apiServer.certSANs; then, on every control-plane node: sudo mv /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key /root/ && sudo kubeadm init phase certs apiserver --config kubeadm.yaml (kubeadm certs renew keeps the names as they were)",
					strings.Join(s.Ranges, ","), before),
				k3s: fmt.Sprintf("nothing: k3s makes its certificates with %s when it restarts with the new service-cidr; with tls-san: %s it has it before", first, first),
			})))
	}
	return all
}

// checkRestart says how to do the hand-over steps.
func checkRestart(w *World, p *Plan) []Finding {
	var all []Finding
	for _, s := range p.Steps {
		if s.Kind != HandOver {
			continue
		}
		ranges := strings.Join(s.Ranges, ",")
		how := map[tool]string{
			kubeadm: fmt.Sprintf("set networking.serviceSubnet to %s with kubectl -n kube-system edit configmap kubeadm-config; then, on one control-plane node after the other, set --service-cluster-ip-range=%s in /etc/kubernetes/manifests/kube-apiserver.yaml and in /etc/kubernetes/manifests/kube-controller-manager.yaml: the kubelet restarts them",
				ranges, ranges),
			k3s: fmt.Sprintf("set service-cidr: %s in /etc/rancher/k3s/config.yaml of every server, then sudo systemctl restart k3s on one after the other", ranges),
		}
		message := fmt.Sprintf("the API servers go from %s to %s", strings.Join(s.Before, ","), ranges)
		if n := len(w.APIServers); n > 0 {
			message += fmt.Sprintf("; there are leases of %s", numberOf(n, "API server", "API servers"))
		}
		for _, t := range w.tools() {
			all = append(all, finding(CodeRestartAPIServers, fmt.Sprintf("step %d", s.ID), message, fmt.Sprintf("%s: %s", t, how[t])))
		}
	}
	return all
}

// checkConsumers reminds of copies of the range that no API knows.
func checkConsumers(_ *World, p *Plan) []Finding {
	var about []string
	for _, r := range p.left() {
		about = append(about, r.String())
	}
	message := "outside of the API, something may hold a copy of " + strings.Join(about, ", ")
	if len(about) == 0 {
		if len(p.fresh()) == 0 {
			return nil
		}
		message = "outside of the API, something may have to know " + strings.Join(p.Request.To, ", ")
	}
	f := finding(CodeConsumersOfRange, "", message)
	if p.Request.Acknowledge {
		f.Remedy = "add the new range wherever the old one is named; the runner waits until you say that it is done"
	}
	return []Finding{f}
}

// checkNodes: can pods have addresses of the new family?
func checkNodes(w *World, p *Plan) []Finding {
	if p.Request.Playbook != AddFamily && p.Request.Playbook != MigrateFamily {
		return nil
	}
	var all []Finding
	for _, r := range p.fresh() {
		var single []string
		for i := range w.Nodes {
			ranges := parseAll(w.Nodes[i].Spec.PodCIDRs)
			if len(ranges) > 0 && !slices.ContainsFunc(ranges, func(o cidr.Range) bool { return o.Family() == r.Family() }) {
				single = append(single, w.Nodes[i].Name)
			}
		}
		if len(single) > 0 {
			slices.Sort(single)
			all = append(all, finding(CodeNodesSingleStack, "", fmt.Sprintf("%s without an %s podCIDR: %s", numberOf(len(single), "node", "nodes"), r.Family(), some(single))))
		}
	}
	return all
}

// checkPermissions: may the user do all that the run does?
func checkPermissions(w *World, _ *Plan) []Finding {
	var needed, optional []Review
	for _, r := range w.Reviews {
		switch {
		case r.Allowed:
		case r.Optional:
			optional = append(optional, r)
		default:
			needed = append(needed, r)
		}
	}
	var all []Finding
	if len(needed) > 0 {
		all = append(all, finding(CodePermissionMissing, "", "you may not "+denied(needed)))
	}
	for _, r := range optional {
		// Of those without a use, the reading has told.
		if r.Use != "" {
			all = append(all, finding(CodeNotChecked, cmp.Or(r.Resource, r.Path), "you may not "+denied([]Review{r})+": "+r.Use, "ask for this permission, or do without"))
		}
	}
	return all
}

// checkUnread: what is not known?
func checkUnread(w *World, p *Plan) []Finding {
	var all []Finding
	for _, u := range w.Unread {
		if u.Resource == resourceNodes && len(p.fresh()) > 0 {
			all = append(all, finding(CodeNodesNotChecked, u.Resource, u.Reason))
			continue
		}
		all = append(all, finding(CodeNotChecked, u.Resource, u.Reason))
	}
	return all
}
