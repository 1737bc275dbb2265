// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package proptest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/metacidr/metacidr/cidr"
	"github.com/metacidr/metacidr/proptest/simapi"
)

// linearizable is I1 for calls that overlap: workers of three replicas allocate and
// release in a few addresses, and each API call takes a random time. The history is
// right if the calls have some order, each between its begin and its end, in which
// every address is a register:
//
//	take(owner)      it was free, now it is the owner's    (an allocation that did not fail)
//	refuse           it was not free                       (AlreadyAllocated)
//	release(owner)   free if it was the owner's, else as it was
//	read(owner)      it is the owner's                     (the server's state at the end)
func linearizable(t *testing.T, s settings, round uint64) *Failure {
	var history []porcupine.Operation
	failure := inBubble(t, func() *Failure {
		w := newWorld(s, 7000+10*round)
		defer w.close()
		return w.tell(func() { history = w.race(round) })
	})
	if failure != nil {
		return failure
	}
	model := registerModel()
	result, info := porcupine.CheckOperationsVerbose(model, history, time.Minute)
	if result != porcupine.Illegal {
		return nil // Unknown: not decided within a minute
	}
	return &Failure{
		Property: "Linearizable", Rule: "I1",
		Message: "the calls have no order in which every address had one owner at a time",
		Story:   describe(model, history),
		picture: func(t *testing.T) (string, error) { return picture(t, model, info) },
	}
}

// register is what a call did with one address.
type register struct {
	addr  netip.Addr
	what  string
	owner string // the name, which is never used twice
	by    string
}

func registerModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			byAddr := map[netip.Addr][]porcupine.Operation{}
			for _, o := range history {
				addr := o.Input.(register).addr
				byAddr[addr] = append(byAddr[addr], o)
			}
			var out [][]porcupine.Operation
			for _, addr := range sortedAddrs(byAddr) {
				out = append(out, byAddr[addr])
			}
			return out
		},
		Init: func() any { return "" },
		Step: func(state, input, _ any) (bool, any) {
			owner, r := state.(string), input.(register)
			switch r.what {
			case "take":
				return owner == "", r.owner
			case "refuse":
				return owner != "", owner
			case "read":
				return owner == r.owner, owner
			}
			if owner == r.owner {
				owner = ""
			}
			return true, owner
		},
		DescribeOperation: func(input, _ any) string {
			r := input.(register)
			return fmt.Sprintf("%s: %s %s %s", r.by, r.what, r.addr, r.owner)
		},
		DescribeState: func(state any) string {
			if state == "" {
				return "free"
			}
			return state.(string)
		},
	}
}

// race runs the workers and returns what they did.
func (w *world) race(seed uint64) []porcupine.Operation {
	const replicas, workers, calls = 3, 6, 10
	w.addCIDR(true, "10.0.0.0/29")
	w.addCIDR(true, "10.0.0.0/28")
	for i := range replicas {
		w.start(i, 0, 1)
	}
	w.refresh()
	// Random delays mix the calls in another way each time.
	var mu sync.Mutex
	delays := rand.New(rand.NewPCG(seed, 3))
	w.server.OnCall(func(c simapi.Call) {
		if c.Verb == "watch" || c.Verb == "list" || c.Replica == observer {
			return
		}
		mu.Lock()
		d := time.Duration(delays.IntN(1000)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d)
	})
	var (
		clock   atomic.Int64
		history []porcupine.Operation
		wg      sync.WaitGroup
	)
	note := func(worker int, r register, begin int64) {
		end := clock.Add(1)
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: worker, Input: r, Call: begin, Return: end})
	}
	for worker := range workers {
		random := rand.New(rand.NewPCG(seed, uint64(100+worker)))
		r := w.replicas[worker%replicas]
		wg.Go(func() {
			var mine, past []register
			for i := range calls {
				owner := Owner{Group: "example.com", Resource: "widgets", Namespace: "default", Name: fmt.Sprintf("w%d-%d", worker, i)}
				reg := register{owner: owner.Name, by: r.name}
				begin := clock.Add(1)
				switch k := random.IntN(10); {
				case k < 4:
					addr, err := r.alloc.AllocateNext(quiet(), owner, cidr.IPv4)
					if err == nil {
						reg.addr, reg.what = addr, "take"
					}
				case k < 6:
					reg.addr = netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + random.IntN(6))})
					switch err := r.alloc.AllocateAt(quiet(), owner, reg.addr); {
					case err == nil:
						reg.what = "take"
					case r.alloc.Classify(err) == AlreadyAllocated:
						reg.what, reg.owner = "refuse", ""
					}
				default:
					if len(mine) == 0 && len(past) == 0 {
						continue
					}
					if len(mine) > 0 && (k < 9 || len(past) == 0) {
						j := random.IntN(len(mine))
						reg = mine[j]
						mine = slices.Delete(mine, j, j+1)
						past = append(past, reg)
					} else { // once more, though it may be another's by now
						reg = past[random.IntN(len(past))]
					}
					owner.Name, reg.what = reg.owner, "release"
					if err := r.alloc.Release(context.WithoutCancel(quiet()), owner, reg.addr); err != nil {
						w.violate("Linearizable", "I1", "%s could not release %s: %v", r.name, reg.addr, err)
						return
					}
				}
				if reg.what == "" {
					continue
				}
				note(worker, reg, begin)
				if reg.what == "take" {
					mine = append(mine, reg)
				}
			}
		})
	}
	wg.Wait()
	w.refresh()
	w.giveUp()
	begin := clock.Add(1)
	for k := range uint64(14) {
		addr := cidr.MustParse("10.0.0.0/28").Usable().At(cidr.U128(k))
		note(workers, register{addr: addr, what: "read", owner: w.truth.addrs[addr].owner.Name, by: "server"}, begin)
	}
	return history
}

// describe tells the history of the addresses that have no order.
func describe(model porcupine.Model, history []porcupine.Operation) string {
	var b strings.Builder
	for _, part := range model.Partition(history) {
		if porcupine.CheckOperations(model, part) {
			continue
		}
		slices.SortFunc(part, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		fmt.Fprintf(&b, "The calls at %s, each from its begin to its end:\n", part[0].Input.(register).addr)
		for i, o := range part {
			fmt.Fprintf(&b, "%3d. %4d-%-4d %s\n", i+1, o.Call, o.Return, model.DescribeOperation(o.Input, nil))
		}
	}
	return b.String()
}

// picture draws the history for a browser: into the test's artifacts if those are
// kept, else into a temporary file.
func picture(t *testing.T, model porcupine.Model, info porcupine.LinearizationInfo) (string, error) {
	dir := os.TempDir()
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	}
	file, err := os.CreateTemp(dir, "history-*.html")
	if err != nil {
		return "", err
	}
	defer file.Close()
	path, err := filepath.Abs(file.Name())
	if err != nil {
		return "", err
	}
	return path, porcupine.Visualize(model, info, file)
}
