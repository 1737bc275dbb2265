// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package repair

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1client "k8s.io/client-go/kubernetes/typed/networking/v1"
	"pgregory.net/rapid"

	"github.com/metacidr/metacidr/informer"
)

// mutant is a controller that is broken in one known way, from outside.
type mutant struct {
	name, broken string
	change       func(*Config)
	focus        string // the disturbance that shows it; empty for any
}

var mutants = []mutant{
	{"repair-without-grace", "what looks leaked is deleted at once", func(c *Config) {
		c.LeakGrace, c.MismatchGrace = time.Nanosecond, time.Nanosecond
	}, ""},
	{"repair-by-name-only", "an IPAddress is deleted by name, without the UID and version that were read", func(c *Config) {
		c.Client = byName{c.Client}
	}, "re-allocate"},
	{"repair-trusts-the-list", "an owner that the list did not show is taken for gone, and not read again", func(c *Config) {
		for i, r := range c.Owners {
			c.Owners[i].Owners = &listed{Owners: r.Owners}
		}
	}, "owner born"},
	{"repair-forgets-the-label", "an IPAddress is made without the managed-by label", func(c *Config) {
		for i := range c.Owners {
			c.Owners[i].Manager = "nobody.example.com"
		}
	}, ""},
}

// Every mutant is noticed by the state machine.
func TestNoMutantSurvives(t *testing.T) {
	// What a mutant fails on is no case to keep.
	keep := flag.Lookup("rapid.nofailfile").Value
	was := keep.String()
	if err := keep.Set("true"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = keep.Set(was) }()
	var table strings.Builder
	for _, m := range mutants {
		failure := ""
		synctest.Test(t, func(t *testing.T) {
			tb := &silent{TB: t}
			ended := make(chan struct{})
			go func() { // it ends with Goexit when the mutant is noticed
				defer close(ended)
				rapid.Check(tb, stateMachine(m.change, m.focus))
			}()
			<-ended
			failure = tb.failure
		})
		if failure == "" {
			t.Errorf("%s survives: %s", m.name, m.broken)
			failure = "SURVIVES"
		}
		fmt.Fprintf(&table, "%-26s %s; %s\n", m.name, m.broken, failure)
	}
	t.Log("\n" + table.String())
}

// silent is a test that may fail.
type silent struct {
	testing.TB
	failure string
	failed  bool
}

func (s *silent) Logf(string, ...any) {}
func (s *silent) Log(...any)          {}
func (s *silent) Errorf(format string, args ...any) {
	s.failed = true
	if s.failure == "" {
		s.failure, _, _ = strings.Cut(fmt.Sprintf(format, args...), "\n")
	}
}
func (s *silent) Error(args ...any)                 { s.Errorf("%s", fmt.Sprint(args...)) }
func (s *silent) Fail()                             { s.failed = true }
func (s *silent) Failed() bool                      { return s.failed }
func (s *silent) FailNow()                          { s.failed = true; runtime.Goexit() }
func (s *silent) Fatalf(format string, args ...any) { s.Errorf(format, args...); s.FailNow() }
func (s *silent) Fatal(args ...any)                 { s.Error(args...); s.FailNow() }

// byName deletes without preconditions.
type byName struct{ informer.Client }

func (b byName) IPAddresses() networkingv1client.IPAddressInterface {
	return byNameAddresses{b.Client.IPAddresses()}
}

type byNameAddresses struct {
	networkingv1client.IPAddressInterface
}

func (b byNameAddresses) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	return b.IPAddressInterface.Delete(ctx, name, metav1.DeleteOptions{})
}

// listed answers a read of one owner by the last list.
type listed struct {
	Owners
	last []Claims
}

func (l *listed) List(ctx context.Context) (claims []Claims, err error) {
	l.last, err = l.Owners.List(ctx)
	return l.last, err
}

func (l *listed) Get(_ context.Context, owner informer.Owner) (Claims, error) {
	for _, c := range l.last {
		if c.Owner == owner {
			return c, nil
		}
	}
	return Claims{}, apierrors.NewNotFound(l.Resource(), owner.Name)
}
