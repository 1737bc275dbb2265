// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
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

func TestList_PageRules(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	for i := range 5 {
		obj := address(fmt.Sprintf("10.0.0.%d", i))
		obj.Labels = map[string]string{"even": strconv.FormatBool(i%2 == 0)}
		must(client.Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	}
	first := must(client.List(t.Context(), metav1.ListOptions{Limit: 2}))(t)
	if first.RemainingItemCount == nil || *first.RemainingItemCount != 3 {
		t.Errorf("remaining %v, want 3", first.RemainingItemCount)
	}
	cases := map[string]struct {
		opts metav1.ListOptions
		want []string
		more bool
		err  check
	}{
		"exactly the limit":                        {metav1.ListOptions{Limit: 5}, []string{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, false, isOK},
		"a cache does not page":                    {metav1.ListOptions{Limit: 2, ResourceVersion: "0"}, []string{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, false, isOK},
		"the limit counts what the selector finds": {metav1.ListOptions{Limit: 2, LabelSelector: "even=true"}, []string{"10.0.0.0", "10.0.0.2"}, true, isOK},
		"the next page may be longer":              {metav1.ListOptions{Limit: 9, Continue: first.Continue}, []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"}, false, isOK},
		"with a version and a token":               {metav1.ListOptions{Continue: first.Continue, ResourceVersion: first.ResourceVersion}, nil, false, isBadRequest},
		"with a match and a token": {metav1.ListOptions{Continue: first.Continue, ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			nil, false, isInvalid},
		"a version and a limit is that version": {metav1.ListOptions{Limit: 9, ResourceVersion: "3"}, []string{"10.0.0.0", "10.0.0.1"}, false, isOK},
		"not older than, with a limit, is now": {metav1.ListOptions{Limit: 9, ResourceVersion: "3", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
			[]string{"10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, false, isOK},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			list, err := client.List(t.Context(), test.opts)
			expect(t, test.err, err)
			if diff := cmp.Diff(test.want, names(list.Items)); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
			if more := list.Continue != ""; more != test.more {
				t.Errorf("more: %v, want %v", more, test.more)
			}
			if test.opts.LabelSelector != "" && list.RemainingItemCount != nil {
				t.Error("the rest is counted in spite of a selector")
			}
		})
	}
	_, err := newServer(t).Client("a").IPAddresses().List(t.Context(), metav1.ListOptions{Continue: first.Continue})
	expect(t, isBadRequest, err) // a token of another server
}

func TestList_PagesStayWithinTheNamespace(t *testing.T) {
	s := newServer(t)
	for _, namespace := range []string{"a", "b", "c"} {
		for i := range 3 {
			mustCreateService(t, s.Client("x").Services(namespace), service(fmt.Sprintf("web%d", i)))
		}
	}
	for namespace, want := range map[string]int{"": 9, "b": 3} {
		var got []string
		opts := metav1.ListOptions{Limit: 2}
		for {
			page := must(s.Client("x").Services(namespace).List(t.Context(), opts))(t)
			got = append(got, serviceNames(page.Items)...)
			if opts.Continue = page.Continue; opts.Continue == "" {
				break
			}
		}
		if !slices.IsSorted(got) || len(slices.Compact(got)) != want {
			t.Errorf("pages of %q have %v, want %d", namespace, got, want)
		}
	}
}

// TestList_AnExpiredTokenOffersTheRestOfThePresent: the answer to a token of a
// compacted revision is 410, with a token for what the list would have now.
func TestList_AnExpiredTokenOffersTheRestOfThePresent(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	for i := range 4 {
		mustCreate(t, s.Client("a"), fmt.Sprintf("10.0.0.%d", i))
	}
	first := must(client.List(t.Context(), metav1.ListOptions{Limit: 2}))(t)
	expect(t, isOK, client.Delete(t.Context(), "10.0.0.3", metav1.DeleteOptions{}))
	mustCreate(t, s.Client("a"), "10.0.0.5")
	mustCreate(t, s.Client("a"), "10.0.0.6")
	s.Compact()

	_, err := client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: first.Continue})
	expect(t, isExpired, err)
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Continue == "" {
		t.Fatalf("%v offers no token", err)
	}
	rest := must(client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: status.ErrStatus.Continue}))(t)
	if diff := cmp.Diff([]string{"10.0.0.2", "10.0.0.5"}, names(rest.Items)); diff != "" {
		t.Errorf("rest (-want +got):\n%s", diff)
	}
	if want := strconv.FormatUint(s.Revision(), 10); rest.ResourceVersion != want {
		t.Errorf("rest at %s, want %s", rest.ResourceVersion, want)
	}
	// From here on it is a consistent list again.
	expect(t, isOK, client.Delete(t.Context(), "10.0.0.6", metav1.DeleteOptions{}))
	last := must(client.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: rest.Continue}))(t)
	if diff := cmp.Diff([]string{"10.0.0.6"}, names(last.Items)); diff != "" {
		t.Errorf("last (-want +got):\n%s", diff)
	}
}

func TestCompact_ExpiresTheRevisionsOfEveryResource(t *testing.T) {
	s := newServer(t)
	c := s.Client("a")
	mustCreate(t, c, "10.0.0.1")
	s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
	mustCreateService(t, c.Services("default"), service("web"))
	must(c.Leases("default").Create(t.Context(), lease("lock", "a"), metav1.CreateOptions{}))(t)
	s.Compact()
	exact := metav1.ListOptions{ResourceVersion: "2", ResourceVersionMatch: metav1.ResourceVersionMatchExact}
	_, err := c.IPAddresses().List(t.Context(), exact)
	expect(t, isExpired, err)
	_, err = c.ServiceCIDRs().List(t.Context(), exact)
	expect(t, isExpired, err)
	_, err = c.Services("").List(t.Context(), exact)
	expect(t, isExpired, err)
	_, err = c.Leases("").List(t.Context(), exact)
	expect(t, isExpired, err)
}

// TestList_ClientPagerStartsOverWhenExpired runs client-go's own pager on it.
func TestList_ClientPagerStartsOverWhenExpired(t *testing.T) {
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprintf("compact=%v", compact), func(t *testing.T) {
			s := newServer(t)
			client := s.Client("a").IPAddresses()
			for i := range 6 {
				mustCreate(t, s.Client("a"), fmt.Sprintf("10.0.0.%d", i))
			}
			pages := 0
			p := pager.New(func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
				if pages++; pages == 2 {
					mustCreate(t, s.Client("b"), "10.0.0.9")
					if compact {
						s.Compact()
					}
				}
				return client.List(ctx, opts)
			})
			p.PageSize = 2
			obj, _, err := p.List(t.Context(), metav1.ListOptions{})
			expect(t, isOK, err)
			want := 6 // the list is of the moment of its first page
			if compact {
				want = 7
			}
			if n := apimeta.LenList(obj); n != want {
				t.Errorf("%d items, want %d", n, want)
			}
		})
	}
}
