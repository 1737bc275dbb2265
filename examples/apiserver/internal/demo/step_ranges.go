// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/metacidr/metacidr/cidr"
)

// exhaust fills the /28 and shows that one more is refused, and that the refusal left nothing.
func (w *walk) exhaust(ctx context.Context) error {
	w.say("A /28 has 14 usable addresses. The Service of the server itself has the first; 13 more fill it.")
	if err := w.showCIDRs(ctx); err != nil {
		return err
	}
	w.command("for i in {001..013}; do kubectl create service clusterip web-$i --tcp=80; done")
	addrs, err := w.createMany(ctx, "web", 13)
	if err != nil {
		return err
	}
	distinct := map[netip.Addr]bool{}
	for _, a := range addrs {
		if !first.Contains(a) {
			return fmt.Errorf("a Service got %s, which is not in %s", a, first)
		}
		distinct[a] = true
	}
	if len(distinct) != len(addrs) {
		return fmt.Errorf("%d Services share %d addresses", len(addrs), len(distinct))
	}
	if err := w.showServices(ctx, 5); err != nil {
		return err
	}
	w.say("\nThey are not in sequence: the scan begins at random. One more:")
	w.command("kubectl create service clusterip web-014 --tcp=80")
	_, err = w.create(ctx, newService("web-014"))
	if err == nil {
		return errors.New("a Service was created though no address was free")
	}
	w.refused(err)
	s, err := takeStock(ctx, w.client)
	if err != nil {
		return err
	}
	if len(s.addresses) != 14 || len(s.services) != 14 {
		return fmt.Errorf("there are %d IPAddresses and %d Services, 14 of each were expected", len(s.addresses), len(s.services))
	}
	w.say("\nThat left nothing behind: still 14 Services and 14 IPAddresses.")
	return nil
}

// addSecond makes the refused Service again, with a second range.
func (w *walk) addSecond(ctx context.Context) error {
	w.say("No restart, no flag: a ServiceCIDR object is enough.")
	if err := w.createCIDR(ctx, "second", second); err != nil {
		return err
	}
	w.command("kubectl create service clusterip web-014 --tcp=80")
	return eventually(ctx, "until the new range is used", func(ctx context.Context) error {
		svc, err := w.create(ctx, newService("web-014"))
		if err != nil {
			return err
		}
		if addr, _ := addressOf(svc); !second.Contains(addr) {
			return fmt.Errorf("web-014 got %s, which is not in %s", addr, second)
		}
		w.say("service/web-014 created")
		return w.showService(ctx, "web-014")
	})
}

// spread draws many addresses, and compares how many each range gave with how many it had free.
func (w *walk) spread(ctx context.Context) error {
	w.say("A /22 beside a /24 has four times the room, so it gets four of five Services. The full /28 gets none.")
	if err := w.createCIDR(ctx, "third", third); err != nil {
		return err
	}
	return w.draw(ctx, "app", 400, []netip.Prefix{first, second, third})
}

// draw makes n Services, shows which ranges their addresses came from, and fails if that is not in proportion to the
// free addresses.
func (w *walk) draw(ctx context.Context, prefix string, n int, ranges []netip.Prefix) error {
	before, err := takeStock(ctx, w.client)
	if err != nil {
		return err
	}
	w.command("for i in {001..%03d}; do kubectl create service clusterip %s-$i --tcp=80; done", n, prefix)
	addrs, err := w.createMany(ctx, prefix, n)
	if err != nil {
		return err
	}
	bars := make([]bar, len(ranges))
	total := 0
	for i, r := range ranges {
		bars[i] = bar{label: r.String(), free: freeDynamic(r, before.addresses)}
		total += bars[i].free
		for _, a := range addrs {
			if r.Contains(a) {
				bars[i].drawn++
			}
		}
	}
	sum := 0
	for i := range bars {
		bars[i].expected = float64(n) * float64(bars[i].free) / float64(total)
		sum += bars[i].drawn
	}
	w.chart(bars)
	if sum != n {
		return fmt.Errorf("%d of %d Services got an address of another range", n-sum, n)
	}
	for _, b := range bars {
		// n of total are drawn without putting back. Six standard deviations: once in half a billion walks.
		p := float64(b.free) / float64(total)
		deviation := math.Sqrt(float64(n) * p * (1 - p) * float64(total-n) / float64(total-1))
		if off := math.Abs(float64(b.drawn) - b.expected); off > 6*deviation {
			return fmt.Errorf("%s: %d drawn, %.1f expected, which is %.1f standard deviations off", b.label, b.drawn, b.expected, off/deviation)
		}
	}
	return nil
}

// freeDynamic is how many addresses of the dynamic band are free: these are drawn from.
func freeDynamic(prefix netip.Prefix, taken []networkingv1.IPAddress) int {
	r := cidr.MustParse(prefix.String())
	free := int(r.DynamicSize().SaturateInt64())
	for _, obj := range taken {
		if addr, err := cidr.ParseAddr(obj.Name); err == nil && r.Band(addr) == cidr.BandDynamic {
			free--
		}
	}
	return free
}

// nest puts a range into another.
func (w *walk) nest(ctx context.Context) error {
	w.say("Ranges may overlap. %s lies in %s: dynamic addresses are drawn from the outer one, so nothing is counted twice.", nested, third)
	if err := w.createCIDR(ctx, "nested", nested); err != nil {
		return err
	}
	if err := w.draw(ctx, "more", 100, []netip.Prefix{second, third}); err != nil {
		return err
	}
	w.say("\n10.98.0.64 is the network address of the inner range, but an ordinary one of the outer. It is in the static band,")
	w.say("the first addresses of a range, which are kept for those who ask for one:")
	w.command("kubectl create service clusterip edge --tcp=80 --clusterip=10.98.0.64")
	edge := newService("edge")
	edge.Spec.ClusterIP = "10.98.0.64"
	if _, err := w.create(ctx, edge); err != nil {
		return err
	}
	w.say("service/edge created")
	if err := w.showService(ctx, "edge"); err != nil {
		return err
	}
	w.say("\nThe second who asks for it is told who has it:")
	w.command("kubectl create service clusterip edge-2 --tcp=80 --clusterip=10.98.0.64")
	again := newService("edge-2")
	again.Spec.ClusterIP = "10.98.0.64"
	_, err := w.create(ctx, again)
	if err == nil {
		return errors.New("two Services have 10.98.0.64")
	}
	w.refused(err)
	return w.client.CoreV1().Services(namespace).Delete(ctx, "edge", metav1.DeleteOptions{})
}
