// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"pgregory.net/rapid"
)

func journalPlan() *Plan {
	return &Plan{TypeMeta: metav1.TypeMeta{APIVersion: APIVersion, Kind: Kind}, Name: "plan-1", Cluster: ClusterID{UID: "uid"}, Request: Request{Strategy: InPlace},
		Steps: []Step{{ID: 1, Kind: Acknowledge, Title: "wait"}}}
}

func entriesTo(n int) []Entry {
	all := make([]Entry, n)
	for i := range all {
		all[i] = Entry{Seq: int64(i + 1), Time: metav1.NewMicroTime(time.Date(2027, 3, 1, 12, 0, i, 1000, time.UTC)), Type: Told, Step: 1,
			Service: fmt.Sprintf("web/web-%d", i), Message: fmt.Sprint("entry ", i)}
	}
	return all
}

func sameEntries(t testing.TB, got, want []Entry) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b metav1.MicroTime) bool { return a.Equal(&b) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func openFile(t testing.TB, dir string) *FileJournal {
	j := NewFileJournal(dir)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// What was appended is read back, by another that opens it; before Begin there is none.
func TestJournal_KeepsWhatItIsGiven(t *testing.T) {
	client := fake.NewClientset()
	dir := filepath.Join(t.TempDir(), "plan-1")
	for name, open := range map[string]func() Journal{
		"file":    func() Journal { return openFile(t, dir) },
		"cluster": func() Journal { return NewClusterJournal(client.CoreV1(), "kube-system", "plan-1") },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, err := open().Plan(ctx); !errors.Is(err, ErrNoJournal) {
				t.Errorf("a plan before there is one: %v", err)
			}
			if _, err := open().Entries(ctx); !errors.Is(err, ErrNoJournal) {
				t.Errorf("entries before there are any: %v", err)
			}
			j := open()
			for range 2 { // the second is a no-op
				if err := j.Begin(ctx, journalPlan()); err != nil {
					t.Fatal(err)
				}
			}
			want := entriesTo(5)
			if err := errors.Join(j.Append(ctx, want[:2]...), j.Append(ctx, want[2:]...)); err != nil {
				t.Fatal(err)
			}
			got, err := open().Entries(ctx)
			if err != nil {
				t.Fatal(err)
			}
			sameEntries(t, got, want)
			plan, err := open().Plan(ctx)
			if err != nil || plan.Name != "plan-1" {
				t.Errorf("plan %v, %v", plan, err)
			}
		})
	}
	if names, err := Journals(filepath.Dir(dir)); err != nil || len(names) != 1 || names[0] != "plan-1" {
		t.Errorf("local journals %v, %v", names, err)
	}
	if names, err := ClusterJournals(t.Context(), client.CoreV1(), "kube-system"); err != nil || len(names) != 1 || names[0] != "plan-1" {
		t.Errorf("the cluster's journals %v, %v", names, err)
	}
}

// I12: a file that a crash has cut anywhere holds all whole lines before the cut, and takes new ones.
func TestI12_FileJournalCutAnywhere(t *testing.T) {
	dir := t.TempDir()
	j := openFile(t, dir)
	if err := errors.Join(j.Begin(t.Context(), journalPlan()), j.Append(t.Context(), entriesTo(3)...)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, entriesFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more := Entry{Seq: 9, Time: metav1.NewMicroTime(time.Date(2027, 3, 1, 13, 0, 0, 0, time.UTC)), Type: Stopped}
	for cut := range len(raw) + 1 {
		if err := os.WriteFile(path, raw[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := strings.Count(string(raw[:cut]), "\n")
		if cut < len(raw) && raw[cut] == '\n' {
			whole++ // all of it but its end
		}
		next := NewFileJournal(dir)
		if err := errors.Join(next.Append(t.Context(), more), next.Close()); err != nil {
			t.Fatal(err)
		}
		got, err := next.Entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sameEntries(t, got, append(entriesTo(whole), more))
		if t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
	}
}

// What does not fit into one Secret goes into several, and comes back whole.
func TestClusterJournal_LargerThanASecret(t *testing.T) {
	client := fake.NewClientset()
	j := NewClusterJournal(client.CoreV1(), "kube-system", "plan-1")
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string { // does not compress
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(' ' + 1 + random.IntN(90))
		}
		return string(raw)
	}
	plan := journalPlan()
	plan.Findings = []Finding{{Message: noise(2 * maxPart)}}
	want := entriesTo(8)
	for i := range want {
		want[i].Original = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"noise": noise(maxPart / 3)}}}
	}
	if err := errors.Join(j.Begin(t.Context(), plan), j.Append(t.Context(), want...)); err != nil {
		t.Fatal(err)
	}
	secrets, err := client.CoreV1().Secrets("kube-system").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(secrets.Items) < 5 {
		t.Errorf("%d Secrets", len(secrets.Items))
	}
	for _, s := range secrets.Items {
		if n := len(s.Data[dataKey]); n > maxPart {
			t.Errorf("Secret %s has %d bytes", s.Name, n)
		}
	}
	got, err := j.Entries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sameEntries(t, got, want)
	back, err := j.Plan(t.Context())
	if err != nil || back.Findings[0].Message != plan.Findings[0].Message {
		t.Errorf("the plan came back another: %v", err)
	}
}

// I12: whatever each of the two journals lacks, Heal gives it, and nothing twice.
func TestI12_HealMakesBothWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := entriesTo(rapid.IntRange(0, 12).Draw(t, "entries"))
		local, remote := &memory{}, &memory{}
		if rapid.Bool().Draw(t, "local is there") {
			local.plan = journalPlan()
		}
		if local.plan == nil || rapid.Bool().Draw(t, "the cluster's is there") {
			remote.plan = journalPlan()
		}
		for _, e := range all {
			where := rapid.SampledFrom([]string{"both", "local", "remote"}).Draw(t, "where")
			if remote.plan == nil || local.plan != nil && where != "remote" {
				local.entries = append(local.entries, e)
			}
			if local.plan == nil || remote.plan != nil && where != "local" {
				remote.entries = append(remote.entries, e)
			}
		}
		both := Both{Local: local, Cluster: remote}
		before, err := both.Entries(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := both.Heal(context.Background()); err != nil {
			t.Fatal(err)
		}
		for name, j := range map[string]*memory{"local": local, "cluster": remote} {
			got, err := j.Entries(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			sortEntries(got)
			if len(got) != len(all) || len(before) != len(all) {
				t.Fatalf("%s has %d of %d, and both had %d", name, len(got), len(all), len(before))
			}
			for i := range got {
				if got[i].identity() != all[i].identity() {
					t.Fatalf("%s: entry %d is %v", name, i, got[i])
				}
			}
		}
	})
}

// With both journals lost there is nothing to go on by, and that is said.
func TestBoth_NoneIsThere(t *testing.T) {
	both := Both{Local: openFile(t, filepath.Join(t.TempDir(), "none")), Cluster: NewClusterJournal(fake.NewClientset().CoreV1(), "kube-system", "plan-1")}
	if _, err := both.Entries(t.Context()); !errors.Is(err, ErrNoJournal) {
		t.Errorf("want %v, got %v", ErrNoJournal, err)
	}
	if err := both.Heal(t.Context()); !errors.Is(err, ErrNoJournal) {
		t.Errorf("want %v, got %v", ErrNoJournal, err)
	}
}
