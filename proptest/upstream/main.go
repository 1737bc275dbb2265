// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

const (
	// parallel is how many rows run at once.
	parallel = 2
	// perRow and perRun are limits by the wall clock.
	perRow = 40 * time.Second
	perRun = 4 * time.Minute
)

func main() {
	var (
		only   = flag.String("property", "", "run only this property")
		cases  = flag.Int("cases", 100, "cases in which each property looks for a failure")
		effort = flag.Duration("effort", 8*time.Second, "how long shorter stories are looked for, for each property that fails")
		child  = flag.String("row", "", "for the program itself: run this row in this process")
		report = flag.String("result", "", "for the program itself: where the result goes")
	)
	flag.Parse()
	if *child != "" {
		var r row
		if err := json.Unmarshal([]byte(*child), &r); err != nil {
			fmt.Fprintln(os.Stderr, "upstream: -row:", err)
			os.Exit(2)
		}
		os.Args = os.Args[:1] // package testing reads the flags once more
		one(r, *report, *cases, *effort)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := all(ctx, *only, *cases, *effort)
	if err == nil {
		err = print(os.Stdout, results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

// all runs all rows.
func all(ctx context.Context, only string, cases int, effort time.Duration) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, perRun)
	defer cancel()
	dir, err := os.MkdirTemp("", "upstream-properties-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var todo []row
	for _, r := range rows() {
		if only == "" || only == r.Property {
			todo = append(todo, r)
		}
	}
	if len(todo) == 0 {
		return nil, fmt.Errorf("there is no property %q", only)
	}
	results := make([]result, len(todo))
	next := make(chan int)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := range next {
				results[i] = run(ctx, todo[i], filepath.Join(dir, fmt.Sprint(i)), cases, effort)
			}
		})
	}
	order := make([]int, len(todo))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return longestFirst(todo[a], todo[b]) })
	for _, i := range order {
		next <- i
	}
	close(next)
	wg.Wait()
	return results, nil
}

// run runs a row in a process of its own.
func run(ctx context.Context, r row, path string, cases int, effort time.Duration) result {
	ctx, cancel := context.WithTimeout(ctx, perRow)
	defer cancel()
	failed := func(err error, output []byte) result {
		return result{row: r, Verdict: broken, Found: []found{{Message: err.Error(), Story: string(output)}}}
	}
	self, err := os.Executable()
	if err != nil {
		return failed(err, nil)
	}
	arg, err := json.Marshal(r)
	if err != nil {
		return failed(err, nil)
	}
	begin := time.Now()
	output, runErr := exec.CommandContext(ctx, self, "-row", string(arg), "-result", path, "-cases", fmt.Sprint(cases), "-effort", effort.String()).CombinedOutput()
	raw, err := os.ReadFile(path)
	if err != nil { // it ended before it knew
		if ctx.Err() != nil {
			return failed(fmt.Errorf("no end within %s", time.Since(begin).Truncate(time.Second)), output)
		}
		return failed(errors.Join(err, runErr), output)
	}
	var out result
	if err := json.Unmarshal(raw, &out); err != nil {
		return failed(err, output)
	}
	if out.Verdict == fails {
		out.merge(attempts(string(output)))
	}
	return out
}
