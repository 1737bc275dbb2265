// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package renumber

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"
)

// LabelPlan is on all that a plan makes in the cluster; its value is the plan's name.
const LabelPlan = "renumber.metacidr.io/plan"

const (
	labelPart   = "renumber.metacidr.io/part"
	partPlan    = "plan"
	partEntries = "entries"
	dataKey     = "json.gz"
	// secretType tells people what it is.
	secretType corev1.SecretType = "renumber.metacidr.io/journal"
	// maxPart is how much goes into one Secret, compressed. A Secret may have 1 MiB.
	maxPart = 700 << 10
)

// ClusterJournal keeps the journal in Secrets: one or more for the plan, one for each
// Append. They are immutable, and never written twice. Secrets and not ConfigMaps,
// since annotations of Services may hold what is not for everybody.
type ClusterJournal struct {
	secrets corev1client.SecretInterface
	plan    string
}

var _ Journal = (*ClusterJournal)(nil)

// NewClusterJournal keeps the journal of a plan in a namespace.
func NewClusterJournal(client corev1client.SecretsGetter, namespace, plan string) *ClusterJournal {
	return &ClusterJournal{secrets: client.Secrets(namespace), plan: plan}
}

// ClusterJournals lists the plans that have a journal in a namespace, by name.
func ClusterJournals(ctx context.Context, client corev1client.SecretsGetter, namespace string) ([]string, error) {
	found, err := client.Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelPlan + "," + labelPart + "=" + partPlan})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range found.Items {
		names = append(names, s.Labels[LabelPlan])
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Begin stores the plan.
func (j *ClusterJournal) Begin(ctx context.Context, p *Plan) error {
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	zipped, err := compress(raw)
	if err != nil {
		return err
	}
	// The first part is written last: with it there, all are.
	parts := slices.Collect(slices.Chunk(zipped, maxPart))
	for i := range slices.Backward(parts) {
		if err := j.put(ctx, j.plan+"-plan-"+strconv.Itoa(i), partPlan, parts[i], map[string]string{"parts": strconv.Itoa(len(parts))}); err != nil {
			return err
		}
	}
	return nil
}

// Plan reads it.
func (j *ClusterJournal) Plan(ctx context.Context) (*Plan, error) {
	var zipped []byte
	for i, n := 0, 1; i < n; i++ {
		s, err := j.secrets.Get(ctx, j.plan+"-plan-"+strconv.Itoa(i), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w of plan %s in the cluster", ErrNoJournal, j.plan)
		}
		if err != nil {
			return nil, err
		}
		if n, err = strconv.Atoi(s.Annotations["parts"]); err != nil {
			return nil, fmt.Errorf("the Secret %s/%s has no number of parts: %w", s.Namespace, s.Name, err)
		}
		zipped = append(zipped, s.Data[dataKey]...)
	}
	raw, err := expand(zipped)
	if err != nil {
		return nil, fmt.Errorf("the plan %s in the cluster cannot be read: %w", j.plan, err)
	}
	return ReadPlan(bytes.NewReader(raw))
}

// Append stores the entries, in as few Secrets as they fit into.
func (j *ClusterJournal) Append(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	raw, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	zipped, err := compress(raw)
	if err != nil {
		return err
	}
	if len(zipped) > maxPart && len(entries) > 1 {
		half := len(entries) / 2
		if err := j.Append(ctx, entries[:half]...); err != nil {
			return err
		}
		return j.Append(ctx, entries[half:]...)
	}
	first := entries[0]
	// The time keeps a number apart that was written twice, see identity.
	name := fmt.Sprintf("%s-%08d-%s", j.plan, first.Seq, strconv.FormatInt(first.Time.UnixMicro(), 36))
	return j.put(ctx, name, partEntries, zipped, nil)
}

// put makes a Secret. If it is there, an earlier try made it: names are never used
// for two contents.
func (j *ClusterJournal) put(ctx context.Context, name, part string, data []byte, annotations map[string]string) error {
	_, err := j.secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelPlan: j.plan, labelPart: part}, Annotations: annotations},
		Type:       secretType,
		Immutable:  ptr.To(true),
		Data:       map[string][]byte{dataKey: data},
	}, metav1.CreateOptions{FieldManager: FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("the journal cannot be written into the cluster: %w", err)
	}
	return nil
}

// Entries reads them.
func (j *ClusterJournal) Entries(ctx context.Context) ([]Entry, error) {
	var all []Entry
	found := false
	opts := metav1.ListOptions{LabelSelector: labels.Set{LabelPlan: j.plan}.String(), Limit: 100}
	for {
		page, err := j.secrets.List(ctx, opts)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Items {
			found = true
			if s.Labels[labelPart] != partEntries {
				continue
			}
			raw, err := expand(s.Data[dataKey])
			if err != nil {
				return nil, fmt.Errorf("the Secret %s/%s cannot be read: %w", s.Namespace, s.Name, err)
			}
			var entries []Entry
			if err := json.Unmarshal(raw, &entries); err != nil {
				return nil, fmt.Errorf("the Secret %s/%s cannot be read: %w", s.Namespace, s.Name, err)
			}
			all = append(all, entries...)
		}
		if opts.Continue = page.Continue; opts.Continue == "" {
			break
		}
	}
	if !found {
		return nil, fmt.Errorf("%w of plan %s in the cluster", ErrNoJournal, j.plan)
	}
	sortEntries(all)
	return all, nil
}

// Remove deletes the journal from the cluster.
func (j *ClusterJournal) Remove(ctx context.Context) error {
	return j.secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: labels.Set{LabelPlan: j.plan}.String()})
}

func compress(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func expand(zipped []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return raw, r.Close()
}
