// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"maps"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/informer"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// truth is what the API server has stored at one moment.
type truth struct {
	revision uint64
	rows     []*informer.ServiceCIDR
	addrs    map[netip.Addr]stored
}

type stored struct {
	uid   types.UID
	owner Owner
}

func truthOf(server *simapi.Server) truth {
	t := truth{revision: server.Revision(), addrs: map[netip.Addr]stored{}}
	for _, obj := range server.TrueServiceCIDRs() {
		t.rows = append(t.rows, informer.NewServiceCIDR(&obj))
	}
	for _, obj := range server.TrueIPAddresses() {
		if addr, _, err := cidr.ParseAddrLenient(obj.Name); err == nil {
			t.addrs[addr] = stored{obj.UID, informer.OwnerOf(obj.Spec.ParentRef)}
		}
	}
	return t
}

// after is the truth after a change of one IPAddress, the next after this. It is
// truthOf for less: many cases have hundreds of addresses.
func (t truth) after(server *simapi.Server, c simapi.Call) truth {
	addr, err := netip.ParseAddr(c.Name)
	if err != nil || c.Resource != "ipaddresses" || server.Revision() != t.revision+1 {
		return truthOf(server)
	}
	next := truth{revision: t.revision + 1, rows: t.rows, addrs: maps.Clone(t.addrs)}
	if obj, err := server.Client(observer).IPAddresses().Get(context.Background(), c.Name, metav1.GetOptions{}); err == nil {
		next.addrs[addr] = stored{obj.UID, informer.OwnerOf(obj.Spec.ParentRef)}
	} else {
		delete(next.addrs, addr)
	}
	return next
}

// observer is the name of the client that looks at the truth.
const observer = "observer"

// ready is the set of prefixes that some ready ServiceCIDR carries. With
// finalizer only those count that bear it: an allocator may insist on it.
func (t truth) ready(finalizer bool) map[cidr.Range]bool {
	out := map[cidr.Range]bool{}
	for _, row := range t.rows {
		if row.WhyNot(finalizer) == "" {
			for _, r := range row.Ranges {
				out[r] = true
			}
		}
	}
	return out
}

// row is that of a ServiceCIDR, nil if there is none.
func (t truth) row(name string) *informer.ServiceCIDR {
	for _, row := range t.rows {
		if row.Name == name {
			return row
		}
	}
	return nil
}

// entry is one prefix of one ServiceCIDR object.
type entry struct {
	uid    types.UID
	prefix cidr.Range
}

// entries are those of the ServiceCIDRs that are ready and bear the finalizer.
func (t truth) entries() map[entry]bool {
	out := map[entry]bool{}
	for _, row := range t.rows {
		if row.WhyNot(true) == "" {
			for _, r := range row.Ranges {
				out[entry{row.UID, r}] = true
			}
		}
	}
	return out
}

func (t truth) families() map[cidr.Family]bool {
	out := map[cidr.Family]bool{}
	for _, row := range t.rows {
		for _, r := range row.Ranges {
			out[r.Family()] = true
		}
	}
	return out
}

// knowledge is what a replica can know. Its caches show some state between the
// last moment at which they were in step with the server and now, perhaps of
// ServiceCIDRs another than of IPAddresses. So what was so in every state since
// is certain, and what was so in one of them is possible:
//
//	in step          |<-------- the caches show one of these ------->| now
//	-----------------+-----------------------------------------------+--->
//	                  certain: in all of them    possible: in one
//
// No look into the allocator is needed, and a check that uses the right one of the
// two blames no allocator for what it could not know.
type knowledge struct {
	valid  bool // it has been in step
	inStep int  // the step at which it last was

	// Certain is a prefix of which one and the same ServiceCIDR was ready, and bore
	// its finalizer, all the time: one that knows the first of two that took turns
	// finds it terminating.
	entriesCertain              map[entry]bool
	readyCertain, readyPossible map[cidr.Range]bool
	existCertain                map[cidr.Family]bool
	takenPossible               map[netip.Addr]bool
}

// reset takes the truth as what the replica knows.
func (k *knowledge) reset(t truth, step int) {
	*k = knowledge{
		valid: true, inStep: step,
		entriesCertain: t.entries(), readyCertain: t.ready(true), readyPossible: t.ready(false),
		existCertain: t.families(), takenPossible: map[netip.Addr]bool{},
	}
	for addr := range t.addrs {
		k.takenPossible[addr] = true
	}
}

// extend takes one more state that the replica may or may not know.
func (k *knowledge) extend(t truth) {
	if !k.valid {
		return
	}
	entries, lenient, exist := t.entries(), t.ready(false), t.families()
	clear(k.readyCertain)
	for e := range k.entriesCertain {
		if entries[e] {
			k.readyCertain[e.prefix] = true
		} else {
			delete(k.entriesCertain, e)
		}
	}
	for r := range lenient {
		k.readyPossible[r] = true
	}
	for f := range k.existCertain {
		if !exist[f] {
			delete(k.existCertain, f)
		}
	}
	for addr := range t.addrs {
		k.takenPossible[addr] = true
	}
}

// maximal reports whether the prefix is certain to be ready and not nested in a
// ready one.
func (k *knowledge) maximal(r cidr.Range) bool {
	if !k.readyCertain[r] {
		return false
	}
	for other := range k.readyPossible {
		if other != r && other.Covers(r) {
			return false
		}
	}
	return true
}

// maximalPart is a part of maximal prefixes, and none of others.
func (k *knowledge) maximalPart(part func(cidr.Range) cidr.Span) func(cidr.Range) cidr.Span {
	return func(r cidr.Range) cidr.Span {
		if !k.maximal(r) {
			return cidr.Span{}
		}
		return part(r)
	}
}
