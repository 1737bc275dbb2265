// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/metacidr/metacidr/examples/apiserver/internal/audit"
	"github.com/metacidr/metacidr/examples/apiserver/internal/server"
)

// Config says how to run.
type Config struct {
	// Server is the path of the program metacidr-apiserver, and ServerArgs what it gets beside what a run needs.
	Server     string
	ServerArgs []string
	// Dir is an empty folder for all data, keys and logs.
	Dir string
	// Ranges are those of the servers' --service-cluster-ip-range.
	Ranges string
	// Replicas is how many servers run, Clients how many clients, and Keep about how many Services each has at a time.
	Replicas, Clients, Keep int
	// Duration is how long the clients work; every KillEvery a replica is killed.
	Duration, KillEvery time.Duration
	// Collection is how long the servers may take to collect what was left by kills.
	Collection time.Duration
	// Seed is of what the clients do.
	Seed uint64
	// Out is where the run is shown.
	Out io.Writer
}

// ErrFailed is wrapped by what Run returns if the servers did something that they must not.
var ErrFailed = errors.New("the soak failed")

// Run runs once. It leaves nothing running, and what it wrote in Dir.
func Run(ctx context.Context, config Config) (err error) {
	if config.Replicas < 1 || config.Clients < 1 || config.Keep < 1 || config.Duration <= 0 || config.KillEvery <= 0 {
		return errors.New("replicas, clients, keep, duration and kill-every have to be more than 0")
	}
	// The same etcd that a server has inside; here all share it.
	etcd, err := server.StartEtcd(ctx, filepath.Join(config.Dir, "etcd"))
	if err != nil {
		return err
	}
	defer etcd.Stop()

	var replicas []*replica
	defer func() {
		stops := make([]error, len(replicas))
		var stopping sync.WaitGroup
		for i, r := range replicas {
			stopping.Go(func() { stops[i] = r.stop() })
		}
		stopping.Wait()
		err = errors.Join(append([]error{err}, stops...)...)
	}()
	var clients []kubernetes.Interface
	for i := range config.Replicas {
		r, err := newReplica(config, i+1, etcd.Endpoint)
		if err != nil {
			return err
		}
		replicas = append(replicas, r)
		took, err := r.start(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(config.Out, "%s is ready after %s\n", r.name, took.Round(10*time.Millisecond))
		clients = append(clients, r.client)
	}

	follower := &follower{replicas: clients, ledger: audit.NewLedger()}
	if err := follower.begin(ctx); err != nil {
		return err
	}
	following, unfollow := context.WithCancel(ctx)
	defer unfollow()
	followed := make(chan error, 1)
	go func() { followed <- follower.run(following) }()

	tally := newTally()
	worked, live, problem := work(ctx, config, replicas, clients, tally)
	tally.show(config.Out, worked)
	if problem == nil {
		problem = compare(ctx, clients[0], live)
	}

	faults, err := collect(ctx, config, clients[0])
	problem = errors.Join(problem, err)
	for _, f := range faults {
		problem = errors.Join(problem, fmt.Errorf("%w: after the collection: %s", ErrFailed, f))
	}
	problem = errors.Join(problem, wait.PollUntilContextTimeout(ctx, pause, patience, true, func(ctx context.Context) (bool, error) {
		return follower.reached(ctx)
	}))
	unfollow()
	problem = errors.Join(problem, <-followed)
	for _, d := range follower.ledger.Duplicates {
		problem = errors.Join(problem, fmt.Errorf("%w: %s", ErrFailed, d))
	}
	fmt.Fprintf(config.Out, "%d changes of Services followed, %d duplicates\n", follower.ledger.Changes, len(follower.ledger.Duplicates))
	if problem == nil {
		fmt.Fprintln(config.Out, "No duplicate, no leak, no orphan.")
	}
	return problem
}

// work lets the clients work while replicas are killed, and returns how long that was, and the names of the Services that
// the clients have by then.
func work(ctx context.Context, config Config, replicas []*replica, clients []kubernetes.Interface, tally *tally) (time.Duration, []string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, config.Duration, nil)
	defer cancel()
	began := time.Now()
	problems := make(chan error, config.Clients+1)
	var running sync.WaitGroup
	workers := make([]*worker, config.Clients)
	for i := range workers {
		w := &worker{
			client: client{replicas: clients, at: i % len(clients), tally: tally},
			number: i, keep: config.Keep, dual: strings.Contains(config.Ranges, ","),
			random: rand.New(rand.NewPCG(config.Seed, uint64(i))),
		}
		workers[i] = w
		running.Go(func() {
			if err := w.run(ctx); err != nil {
				cancel() // there is nothing to learn from going on
				problems <- err
			}
		})
	}
	if err := kill(ctx, config, replicas, tally); err != nil {
		cancel()
		problems <- err
	}
	running.Wait()
	worked := time.Since(began)
	close(problems)
	var all []error
	for err := range problems {
		all = append(all, fmt.Errorf("%w: %w", ErrFailed, err))
	}
	var live []string
	for _, w := range workers {
		live = append(live, w.live...)
	}
	return worked, live, errors.Join(all...)
}

// compare looks whether exactly those Services are there that the clients know of: no write that was answered is lost, and
// none that was refused is there.
func compare(ctx context.Context, client kubernetes.Interface, live []string) error {
	list, err := client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list Services: %w", err)
	}
	there := map[string]bool{}
	for _, svc := range list.Items {
		there[svc.Name] = true
	}
	var errs []error
	for _, name := range live {
		if !there[name] {
			errs = append(errs, fmt.Errorf("%w: Service %s was created and is not there", ErrFailed, name))
		}
		delete(there, name)
	}
	for name := range there {
		if strings.HasPrefix(name, prefix) {
			errs = append(errs, fmt.Errorf("%w: Service %s was deleted, or never created, and is there", ErrFailed, name))
		}
	}
	return errors.Join(errs...)
}

// kill kills one replica after the other, and starts it again at once, until ctx ends. All run when it returns.
func kill(ctx context.Context, config Config, replicas []*replica, tally *tally) error {
	ticker := time.NewTicker(config.KillEvery)
	defer ticker.Stop()
	before := 0
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		r := replicas[n%len(replicas)]
		r.kill()
		took, err := r.start(context.WithoutCancel(ctx)) // bounded by startTimeout
		if err != nil {
			return err
		}
		operations := tally.operations()
		fmt.Fprintf(config.Out, "%s was killed, and is ready again after %s; %d operations meanwhile\n", r.name, took.Round(10*time.Millisecond), operations-before)
		before = operations
	}
}

// collect waits until Services and IPAddresses are one to one, and returns what was not until the time was over.
func collect(ctx context.Context, config Config, client kubernetes.Interface) ([]audit.Fault, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, config.Collection+requestTimeout)
	defer cancel()
	at := -1
	for {
		faults, err := audit.Now(ctx, client)
		if err != nil {
			return nil, err
		}
		if at < 0 {
			fmt.Fprintf(config.Out, "when the clients stop, %d addresses are not one to one\n", len(faults))
		}
		at = len(faults)
		if at == 0 {
			fmt.Fprintf(config.Out, "one to one after %s\n", time.Since(began).Round(100*time.Millisecond))
			return nil, nil
		}
		if time.Since(began) > config.Collection {
			return faults, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}
