// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestList_SelectorsAndOrder(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	for _, name := range []string{"10.0.0.3", "10.0.0.1", "10.0.0.2"} {
		obj := address(name)
		obj.Labels = map[string]string{"last": name[len(name)-1:]}
		must(client.Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	}
	cases := map[string]struct {
		opts metav1.ListOptions
		want []string
		err  check
	}{
		"all, by name":          {metav1.ListOptions{}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, isOK},
		"any version":           {metav1.ListOptions{ResourceVersion: "0"}, []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, isOK},
		"by label":              {metav1.ListOptions{LabelSelector: "last in (1,3)"}, []string{"10.0.0.1", "10.0.0.3"}, isOK},
		"by name":               {metav1.ListOptions{FieldSelector: "metadata.name=10.0.0.2"}, []string{"10.0.0.2"}, isOK},
		"by absent name":        {metav1.ListOptions{FieldSelector: "metadata.name=10.0.0.9"}, nil, isOK},
		"by name, negated":      {metav1.ListOptions{FieldSelector: "metadata.name!=10.0.0.2"}, []string{"10.0.0.1", "10.0.0.3"}, isOK},
		"unknown field":         {metav1.ListOptions{FieldSelector: "spec.x=1"}, nil, isBadRequest},
		"bad selector":          {metav1.ListOptions{LabelSelector: "((("}, nil, isBadRequest},
		"bad version":           {metav1.ListOptions{ResourceVersion: "x"}, nil, isBadRequest},
		"bad continue":          {metav1.ListOptions{Continue: "*"}, nil, isBadRequest},
		"future version":        {metav1.ListOptions{ResourceVersion: "99"}, nil, check{"Timeout", apierrors.IsTimeout}},
		"match without version": {metav1.ListOptions{ResourceVersionMatch: metav1.ResourceVersionMatchExact}, nil, isInvalid},
		"initial events":        {metav1.ListOptions{SendInitialEvents: ptr.To(true)}, nil, isInvalid},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			list, err := client.List(t.Context(), test.opts)
			expect(t, test.err, err)
			if diff := cmp.Diff(test.want, names(list.Items)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if err == nil && list.ResourceVersion != strconv.FormatUint(s.Revision(), 10) {
				t.Errorf("resourceVersion %s, want %d", list.ResourceVersion, s.Revision())
			}
		})
	}
}

func TestList_PagesShowOneMoment(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	for i := range 5 {
		mustCreate(t, s.Client("a"), fmt.Sprintf("10.0.0.%d", i))
	}
	first := must(client.List(t.Context(), metav1.ListOptions{Limit: 2}))(t)
	if diff := cmp.Diff([]string{"10.0.0.0", "10.0.0.1"}, names(first.Items)); diff != "" {
		t.Fatal(diff)
	}
	// What happens between the pages is in neither.
	expect(t, isOK, client.Delete(t.Context(), "10.0.0.3", metav1.DeleteOptions{}))
	mustCreate(t, s.Client("a"), "10.0.0.9")

	var rest []string
	page := first
	for page.Continue != "" {
		page = must(client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: page.Continue}))(t)
		rest = append(rest, names(page.Items)...)
		if page.ResourceVersion != first.ResourceVersion {
			t.Errorf("page at %s, want %s", page.ResourceVersion, first.ResourceVersion)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "10.0.0.3", "10.0.0.4"}, rest); diff != "" {
		t.Errorf("rest (-want +got):\n%s", diff)
	}

	exact := metav1.ListOptions{ResourceVersion: first.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	if got := names(must(client.List(t.Context(), exact))(t).Items); len(got) != 5 {
		t.Errorf("exact list %v, want the first five", got)
	}
	s.Compact()
	_, err := client.List(t.Context(), exact)
	expect(t, isExpired, err)
	_, err = client.List(t.Context(), metav1.ListOptions{Continue: first.Continue})
	expect(t, isExpired, err)
}
