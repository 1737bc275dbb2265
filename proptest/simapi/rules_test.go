// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package simapi_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/metacidr/metacidr/proptest/simapi"
)

const finalizer = "networking.k8s.io/service-cidr-finalizer"

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

// check is a predicate of apierrors with its name.
type check struct {
	name string
	is   func(error) bool
}

var (
	isOK            = check{"no error", func(err error) bool { return err == nil }}
	isAlreadyExists = check{"AlreadyExists", apierrors.IsAlreadyExists}
	isConflict      = check{"Conflict", apierrors.IsConflict}
	isInvalid       = check{"Invalid", apierrors.IsInvalid}
	isNotFound      = check{"NotFound", apierrors.IsNotFound}
	isBadRequest    = check{"BadRequest", apierrors.IsBadRequest}
	isNotSupported  = check{"MethodNotSupported", apierrors.IsMethodNotSupported}
	isMediaType     = check{"UnsupportedMediaType", apierrors.IsUnsupportedMediaType}
	isExpired       = check{"Expired", apierrors.IsResourceExpired}
)

func expect(t *testing.T, want check, err error) {
	t.Helper()
	if !want.is(err) {
		t.Errorf("got error %v, want %s", err, want.name)
	}
}

func must[T any](obj T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
}

func TestCreate_FillsInWhatTheSystemOwns(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 999, time.UTC)
	s := newServer(t, simapi.WithClock(clocktesting.NewFakePassiveClock(now)))
	ctx, client := t.Context(), s.Client("a")

	in := serviceCIDR("x", "10.0.0.0/24")
	in.UID, in.Generation = "mine", 7
	in.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	in.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	in.Kind = "ServiceCIDR"
	got := must(client.ServiceCIDRs().Create(ctx, in, metav1.CreateOptions{}))(t)

	want := serviceCIDR("x", "10.0.0.0/24")
	want.UID = got.UID
	want.ResourceVersion = strconv.FormatUint(s.Revision(), 10)
	want.Generation = 1
	want.CreationTimestamp = metav1.NewTime(now.Truncate(time.Second))
	want.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "a", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "networking.k8s.io/v1",
		Time:       ptr.To(metav1.NewTime(now.Truncate(time.Second))),
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:cidrs":{}}}`),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("created object (-want +got):\n%s", diff)
	}
	if got.UID == "" || got.UID == "mine" {
		t.Errorf("UID %q is not the server's", got.UID)
	}
	if again := mustCreate(t, client, "10.0.0.1"); again.UID == got.UID {
		t.Error("two objects have one UID")
	}
}

func TestCreate_Validation(t *testing.T) {
	parent := func(mutate func(*networkingv1.ParentReference)) *networkingv1.IPAddress {
		obj := address("10.0.0.1")
		mutate(obj.Spec.ParentRef)
		return obj
	}
	type ref = networkingv1.ParentReference
	addresses := map[string]struct {
		obj  *networkingv1.IPAddress
		want check
	}{
		"IPv4":                     {address("10.0.0.1"), isOK},
		"IPv6":                     {address("2001:db8::5"), isOK},
		"S53 upper case":           {address("2001:DB8::5"), isInvalid},
		"S53 not shortest":         {address("2001:db8::0005"), isInvalid},
		"S53 4 in 6":               {address("::ffff:10.96.0.5"), isInvalid},
		"S53 leading zero":         {address("10.096.0.5"), isInvalid},
		"S53 zone":                 {address("fe80::1%eth0"), isInvalid},
		"no address":               {address("web"), isInvalid},
		"no name":                  {address(""), isInvalid},
		"S1 no parent":             {&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1"}}, isInvalid},
		"S1 parent lacks resource": {parent(func(p *ref) { p.Resource = "" }), isInvalid},
		"S1 parent lacks name":     {parent(func(p *ref) { p.Name = "" }), isInvalid},
		"parent name is a path":    {parent(func(p *ref) { p.Name = "a/b" }), isInvalid},
		"parent of a bad group":    {parent(func(p *ref) { p.Group = "No Group" }), isInvalid},
		"parent without namespace": {parent(func(p *ref) { p.Namespace = "" }), isOK},
	}
	for name, test := range addresses {
		t.Run("IPAddress/"+name, func(t *testing.T) {
			s := newServer(t)
			_, err := s.Client("a").IPAddresses().Create(t.Context(), test.obj, metav1.CreateOptions{})
			expect(t, test.want, err)
			if stored := len(s.TrueIPAddresses()) == 1; stored != (err == nil) {
				t.Errorf("stored: %v, error: %v", stored, err)
			}
		})
	}

	cidrs := map[string]struct {
		cidrs []string
		want  check
	}{
		"IPv4":               {[]string{"10.0.0.0/24"}, isOK},
		"dual":               {[]string{"2001:db8::/112", "10.0.0.0/24"}, isOK},
		"none":               {nil, isInvalid},
		"three":              {[]string{"10.0.0.0/24", "2001:db8::/112", "10.1.0.0/24"}, isInvalid},
		"same family":        {[]string{"10.0.0.0/24", "10.1.0.0/24"}, isInvalid},
		"S54 host bits":      {[]string{"10.0.0.1/24"}, isInvalid},
		"an address":         {[]string{"10.0.0.0"}, isInvalid},
		"not canonical":      {[]string{"2001:DB8::/112"}, isInvalid},
		"IPv4 mapped prefix": {[]string{"::ffff:10.0.0.0/120"}, isInvalid},
	}
	for name, test := range cidrs {
		t.Run("ServiceCIDR/"+name, func(t *testing.T) {
			s := newServer(t)
			_, err := s.Client("a").ServiceCIDRs().Create(t.Context(), serviceCIDR("x", test.cidrs...), metav1.CreateOptions{})
			expect(t, test.want, err)
		})
	}
}

func TestCreate_TakenNameIsAlreadyExists(t *testing.T) {
	s := newServer(t)
	first := mustCreate(t, s.Client("a"), "10.0.0.1")
	_, err := s.Client("b").IPAddresses().Create(t.Context(), address("10.0.0.1"), metav1.CreateOptions{})
	expect(t, isAlreadyExists, err)
	if got := s.TrueIPAddresses()[0]; got.UID != first.UID {
		t.Error("the refused create replaced the object")
	}
}

func TestCreate_WithResourceVersionIsRefused(t *testing.T) {
	s := newServer(t)
	obj := mustCreate(t, s.Client("a"), "10.0.0.1")
	obj.Name = "10.0.0.2"
	_, err := s.Client("a").IPAddresses().Create(t.Context(), obj, metav1.CreateOptions{})
	expect(t, check{"InternalError", apierrors.IsInternalError}, err)
}

func TestCreate_GeneratesNames(t *testing.T) {
	s := newServer(t)
	obj := serviceCIDR("", "10.0.0.0/24")
	obj.GenerateName = "x-"
	a := must(s.Client("a").ServiceCIDRs().Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	b := must(s.Client("a").ServiceCIDRs().Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	if a.Name == b.Name {
		t.Errorf("both are %q", a.Name)
	}
}

func TestUpdate_Rules(t *testing.T) {
	cases := map[string]struct {
		mutate func(*networkingv1.ServiceCIDR)
		want   check
	}{
		"fresh":                  {func(o *networkingv1.ServiceCIDR) { o.Labels = map[string]string{"a": "b"} }, isOK},
		"unconditional":          {func(o *networkingv1.ServiceCIDR) { o.ResourceVersion = ""; o.Labels = map[string]string{"a": "b"} }, isOK},
		"stale":                  {func(o *networkingv1.ServiceCIDR) { o.ResourceVersion = "1" }, isConflict},
		"stale beats invalid":    {func(o *networkingv1.ServiceCIDR) { o.ResourceVersion = "1"; o.Spec.CIDRs = nil }, isConflict},
		"another UID":            {func(o *networkingv1.ServiceCIDR) { o.UID = "other" }, isConflict},
		"absent":                 {func(o *networkingv1.ServiceCIDR) { o.Name = "absent"; o.UID = "" }, isNotFound},
		"absent, with a UID":     {func(o *networkingv1.ServiceCIDR) { o.Name = "absent" }, isNotFound},
		"set deletionTimestamp":  {func(o *networkingv1.ServiceCIDR) { o.DeletionTimestamp = ptr.To(metav1.Now()) }, isInvalid},
		"S34 append a family":    {func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = append(o.Spec.CIDRs, "2001:db8::/112") }, isOK},
		"append the same family": {func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = append(o.Spec.CIDRs, "10.1.0.0/24") }, isInvalid},
		"prepend a family": {func(o *networkingv1.ServiceCIDR) {
			o.Spec.CIDRs = []string{"2001:db8::/112", "10.0.0.0/24"}
		}, isInvalid},
		"finalizer that is no name": {func(o *networkingv1.ServiceCIDR) { o.Finalizers = []string{"not a name"} }, isInvalid},
		"change a CIDR":             {func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs[0] = "10.1.0.0/24" }, isInvalid},
		"remove a CIDR":             {func(o *networkingv1.ServiceCIDR) { o.Spec.CIDRs = nil }, isInvalid},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			obj := s.CreateServiceCIDR("x", "", "10.0.0.0/24")
			before := s.Revision()
			test.mutate(obj)
			_, err := s.Client("a").ServiceCIDRs().Update(t.Context(), obj, metav1.UpdateOptions{})
			expect(t, test.want, err)
			if changed := s.Revision() != before; changed != (err == nil) {
				t.Errorf("revision changed: %v, error: %v", changed, err)
			}
		})
	}
}

func TestUpdate_DualToSingleAndFamilySwapAreInvalid(t *testing.T) {
	s := newServer(t)
	for _, cidrs := range [][]string{{"10.0.0.0/24"}, {"2001:db8::/112", "10.0.0.0/24"}} {
		obj := s.CreateServiceCIDR("x"+strconv.Itoa(len(cidrs)), "", "10.0.0.0/24", "2001:db8::/112")
		obj.Spec.CIDRs = cidrs
		_, err := s.Client("a").ServiceCIDRs().Update(t.Context(), obj, metav1.UpdateOptions{})
		expect(t, isInvalid, err)
	}
}

func TestUpdate_GenerationFollowsTheSpecAlone(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	obj := s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
	obj.Labels = map[string]string{"a": "b"}
	obj.Generation = 9
	obj = must(client.Update(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if obj.Generation != 1 {
		t.Errorf("generation %d after labels and status, want 1", obj.Generation)
	}
	obj.Spec.CIDRs = append(obj.Spec.CIDRs, "2001:db8::/112")
	obj = must(client.Update(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if obj.Generation != 2 {
		t.Errorf("generation %d after a change of the spec, want 2", obj.Generation)
	}
}

func TestUpdate_KeepsWhatTheSystemOwns(t *testing.T) {
	s := newServer(t)
	created := mustCreate(t, s.Client("a"), "10.0.0.1")
	bare := address("10.0.0.1")
	bare.Labels = map[string]string{"a": "b"}
	bare.CreationTimestamp = metav1.NewTime(time.Unix(1, 0))
	got := must(s.Client("a").IPAddresses().Update(t.Context(), bare, metav1.UpdateOptions{}))(t)
	if got.UID != created.UID || !got.CreationTimestamp.Equal(&created.CreationTimestamp) {
		t.Errorf("updated to UID %q, created %v, want %q, %v", got.UID, got.CreationTimestamp, created.UID, created.CreationTimestamp)
	}
}

func TestUpdate_OfNothingTakesNoRevisionAndSendsNoEvent(t *testing.T) {
	s := newServer(t)
	obj := mustCreate(t, s.Client("a"), "10.0.0.1")
	before := s.Revision()
	s.Hold("a")
	if _, err := s.Client("a").IPAddresses().Watch(t.Context(), metav1.ListOptions{ResourceVersion: obj.ResourceVersion}); err != nil {
		t.Fatal(err)
	}
	got := must(s.Client("a").IPAddresses().Update(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if s.Revision() != before || got.ResourceVersion != obj.ResourceVersion || s.Pending("a") != 0 {
		t.Errorf("revision %d to %d, %d events", before, s.Revision(), s.Pending("a"))
	}
}

func TestUpdate_IPAddressSpecIsImmutable(t *testing.T) {
	s := newServer(t)
	obj := mustCreate(t, s.Client("a"), "10.0.0.1")
	obj.Spec.ParentRef.Name = "other"
	_, err := s.Client("a").IPAddresses().Update(t.Context(), obj, metav1.UpdateOptions{})
	expect(t, isInvalid, err)
}

func TestStatus_IsWrittenThroughItsSubresourceAlone(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").ServiceCIDRs()
	obj := s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")

	obj.Status.Conditions = nil
	obj.Labels = map[string]string{"a": "b"}
	obj = must(client.Update(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if len(obj.Status.Conditions) != 1 || obj.Labels["a"] != "b" {
		t.Errorf("Update: status %v, labels %v, want the old status and the new labels", obj.Status, obj.Labels)
	}

	obj.Status.Conditions[0].Status = metav1.ConditionFalse
	obj.Labels = nil
	obj.Finalizers = []string{finalizer}
	obj.Spec.CIDRs = []string{"10.9.0.0/24"}
	obj = must(client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}))(t)
	if obj.Status.Conditions[0].Status != metav1.ConditionFalse {
		t.Error("UpdateStatus did not write the status")
	}
	if obj.Labels["a"] != "b" || len(obj.Finalizers) != 0 || obj.Spec.CIDRs[0] != "10.0.0.0/24" {
		t.Errorf("UpdateStatus wrote more than the status: %v %v %v", obj.Labels, obj.Finalizers, obj.Spec)
	}

	obj.ResourceVersion = "1"
	_, err := client.UpdateStatus(t.Context(), obj, metav1.UpdateOptions{})
	expect(t, isConflict, err)

	mustCreate(t, s.Client("a"), "10.0.0.1")
	_, err = s.Client("a").IPAddresses().Patch(t.Context(), "10.0.0.1", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
	expect(t, isNotFound, err)
}

func TestDelete_Preconditions(t *testing.T) {
	other, stale := types.UID("other"), "1"
	cases := map[string]struct {
		name string
		pre  func(*networkingv1.IPAddress) *metav1.Preconditions
		want check
	}{
		"none":           {"10.0.0.1", func(*networkingv1.IPAddress) *metav1.Preconditions { return nil }, isOK},
		"absent":         {"10.0.0.2", func(*networkingv1.IPAddress) *metav1.Preconditions { return nil }, isNotFound},
		"its UID":        {"10.0.0.1", func(o *networkingv1.IPAddress) *metav1.Preconditions { return &metav1.Preconditions{UID: &o.UID} }, isOK},
		"I8 another UID": {"10.0.0.1", func(*networkingv1.IPAddress) *metav1.Preconditions { return &metav1.Preconditions{UID: &other} }, isConflict},
		"its version": {"10.0.0.1", func(o *networkingv1.IPAddress) *metav1.Preconditions {
			return &metav1.Preconditions{ResourceVersion: &o.ResourceVersion}
		}, isOK},
		"a stale version": {"10.0.0.1", func(*networkingv1.IPAddress) *metav1.Preconditions {
			return &metav1.Preconditions{ResourceVersion: &stale}
		}, isConflict},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			obj := mustCreate(t, s.Client("a"), "10.0.0.1")
			err := s.Client("a").IPAddresses().Delete(t.Context(), test.name, metav1.DeleteOptions{Preconditions: test.pre(obj)})
			expect(t, test.want, err)
			if gone := len(s.TrueIPAddresses()) == 0; gone != (err == nil) {
				t.Errorf("gone: %v, error: %v", gone, err)
			}
		})
	}
}

func TestDelete_FinalizersHoldTheObject(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	s := newServer(t, simapi.WithClock(clock))
	client := s.Client("a").ServiceCIDRs()
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	s.AddFinalizer("x", finalizer)
	s.AddFinalizer("x", "example.com/other")

	if err := client.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	marked := must(client.Get(t.Context(), "x", metav1.GetOptions{}))(t)
	if marked.DeletionTimestamp == nil || !marked.DeletionTimestamp.Time.Equal(clock.Now()) {
		t.Fatalf("deletionTimestamp %v, want now", marked.DeletionTimestamp)
	}
	if g := marked.DeletionGracePeriodSeconds; g == nil || *g != 0 {
		t.Errorf("deletionGracePeriodSeconds %v, want 0", g)
	}

	// Again: nothing changes.
	clock.SetTime(clock.Now().Add(time.Minute))
	before := s.Revision()
	if err := client.Delete(t.Context(), "x", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a second delete: %v", err)
	}
	if s.Revision() != before {
		t.Error("a second delete changed the object")
	}

	// The mark stays whatever an update says, and no finalizer joins.
	edited := marked.DeepCopy()
	edited.DeletionTimestamp = nil
	edited.Finalizers = []string{finalizer}
	edited = must(client.Update(t.Context(), edited, metav1.UpdateOptions{}))(t)
	if !edited.DeletionTimestamp.Equal(marked.DeletionTimestamp) {
		t.Errorf("an update changed deletionTimestamp to %v", edited.DeletionTimestamp)
	}
	joined := edited.DeepCopy()
	joined.Finalizers = append(joined.Finalizers, "example.com/new")
	_, err := client.Update(t.Context(), joined, metav1.UpdateOptions{})
	expect(t, isInvalid, err)

	// It goes with the last one; the event shows it as it last was.
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: edited.ResourceVersion})
	expect(t, isOK, err)
	defer w.Stop()
	_, err = client.Patch(t.Context(), "x", types.StrategicMergePatchType,
		[]byte(`{"metadata":{"resourceVersion":"`+edited.ResourceVersion+`","$deleteFromPrimitiveList/finalizers":["`+finalizer+`"]}}`), metav1.PatchOptions{})
	expect(t, isOK, err)
	_, err = client.Get(t.Context(), "x", metav1.GetOptions{})
	expect(t, isNotFound, err)
	expect(t, isNotFound, client.Delete(t.Context(), "x", metav1.DeleteOptions{}))
	same(t, []string{"DELETED x@" + strconv.FormatUint(s.Revision(), 10)}, next(t, w, 1))
}

func TestDeleteCollection_DeletesWhatTheSelectorFinds(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	for i := range 4 {
		obj := address("10.0.0." + strconv.Itoa(i))
		obj.Labels = map[string]string{"odd": strconv.FormatBool(i%2 == 1)}
		must(client.Create(t.Context(), obj, metav1.CreateOptions{}))(t)
	}
	expect(t, isOK, client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}))
	if diff := cmp.Diff([]string{"10.0.0.0", "10.0.0.2"}, names(s.TrueIPAddresses())); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

func names(items []networkingv1.IPAddress) []string {
	var out []string
	for _, i := range items {
		out = append(out, i.Name)
	}
	return out
}

func TestPatch_Rules(t *testing.T) {
	cases := map[string]struct {
		pt    types.PatchType
		patch string
		want  check
		check func(*networkingv1.ServiceCIDR) bool
	}{
		"merge replaces lists": {types.MergePatchType, `{"metadata":{"finalizers":["example.com/b"],"labels":{"k":null,"n":"1"}}}`, isOK,
			func(o *networkingv1.ServiceCIDR) bool {
				return len(o.Finalizers) == 1 && len(o.Labels) == 1 && o.Labels["n"] == "1"
			}},
		"strategic merges finalizers": {types.StrategicMergePatchType, `{"metadata":{"finalizers":["example.com/b"]}}`, isOK,
			func(o *networkingv1.ServiceCIDR) bool { return len(o.Finalizers) == 2 }},
		"JSON with a test that holds": {types.JSONPatchType,
			`[{"op":"test","path":"/metadata/finalizers/0","value":"example.com/a"},{"op":"remove","path":"/metadata/finalizers/0"}]`, isOK,
			func(o *networkingv1.ServiceCIDR) bool { return len(o.Finalizers) == 0 }},
		"JSON with a test that fails": {types.JSONPatchType, `[{"op":"test","path":"/metadata/finalizers/0","value":"other"}]`, isInvalid, nil},
		"stale resourceVersion":       {types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, isConflict, nil},
		"another UID":                 {types.MergePatchType, `{"metadata":{"uid":"other"}}`, isInvalid, nil},
		"another UID, and stale":      {types.MergePatchType, `{"metadata":{"uid":"other","resourceVersion":"1"}}`, isConflict, nil},
		"another name":                {types.MergePatchType, `{"metadata":{"name":"y"}}`, isBadRequest, nil},
		"not JSON":                    {types.MergePatchType, `{`, isBadRequest, nil},
		"JSON patch of no list":       {types.JSONPatchType, `{}`, isBadRequest, nil},
		"another type":                {types.MergePatchType, `{"spec":{"cidrs":7}}`, isBadRequest, nil},
		"immutable":                   {types.MergePatchType, `{"spec":{"cidrs":["10.7.0.0/24"]}}`, isInvalid, nil},
		"apply without a manager":     {types.ApplyYAMLPatchType, `{}`, isInvalid, nil},
		"apply in CBOR":               {types.ApplyCBORPatchType, `{}`, isInvalid, nil},
		"unknown":                     {"text/plain", `{}`, isMediaType, nil},
		"status is not touched": {types.MergePatchType, `{"status":{"conditions":null}}`, isOK,
			func(o *networkingv1.ServiceCIDR) bool { return len(o.Status.Conditions) == 1 }},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
			s.AddFinalizer("x", "example.com/a")
			got, err := s.Client("a").ServiceCIDRs().Patch(t.Context(), "x", test.pt, []byte(test.patch), metav1.PatchOptions{})
			expect(t, test.want, err)
			if test.check != nil && !test.check(got) {
				t.Errorf("patched object: %+v", got)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := newServer(t).Client("a").ServiceCIDRs().Patch(t.Context(), "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
		expect(t, isNotFound, err)
	})
	t.Run("status", func(t *testing.T) {
		s := newServer(t)
		s.CreateServiceCIDR("x", metav1.ConditionTrue, "10.0.0.0/24")
		got, err := s.Client("a").ServiceCIDRs().Patch(t.Context(), "x", types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), metav1.PatchOptions{}, "status")
		expect(t, isOK, err)
		if c := got.Status.Conditions; len(c) != 1 || c[0].Status != metav1.ConditionFalse || c[0].Reason != "SetByTest" {
			t.Errorf("conditions %v, want Ready merged to False", c)
		}
	})
}

func TestDryRun_ValidatesAndWritesNothing(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	obj := mustCreate(t, s.Client("a"), "10.0.0.1")
	before := s.Revision()
	dry := []string{metav1.DryRunAll}

	got := must(client.Create(t.Context(), address("10.0.0.2"), metav1.CreateOptions{DryRun: dry}))(t)
	if got.UID == "" {
		t.Error("a dry-run create answers without a UID")
	}
	_, err := client.Create(t.Context(), address("10.0.0.1"), metav1.CreateOptions{DryRun: dry})
	expect(t, isAlreadyExists, err)
	_, err = client.Create(t.Context(), address("x"), metav1.CreateOptions{DryRun: dry})
	expect(t, isInvalid, err)
	obj.Labels = map[string]string{"a": "b"}
	must(client.Update(t.Context(), obj, metav1.UpdateOptions{DryRun: dry}))(t)
	must(client.Patch(t.Context(), "10.0.0.1", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{DryRun: dry}))(t)
	expect(t, isOK, client.Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{DryRun: dry}))
	expect(t, isInvalid, client.Delete(t.Context(), "10.0.0.1", metav1.DeleteOptions{DryRun: []string{"Some"}}))

	if s.Revision() != before || len(s.TrueIPAddresses()) != 1 || s.TrueIPAddresses()[0].Labels != nil {
		t.Error("a dry run wrote something")
	}
}

func TestObjects_AreCopiedBothWays(t *testing.T) {
	s := newServer(t)
	client := s.Client("a").IPAddresses()
	w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	in := address("10.0.0.1")
	spoil := func(o *networkingv1.IPAddress) { o.Spec.ParentRef.Name = "spoilt" }
	out := must(client.Create(t.Context(), in, metav1.CreateOptions{}))(t)
	spoil(in)
	spoil(out)
	spoil(must(client.Get(t.Context(), "10.0.0.1", metav1.GetOptions{}))(t))
	spoil(&must(client.List(t.Context(), metav1.ListOptions{}))(t).Items[0])
	spoil((<-w.ResultChan()).Object.(*networkingv1.IPAddress))
	spoil(&s.TrueIPAddresses()[0])
	if got := s.TrueIPAddresses()[0].Spec.ParentRef.Name; got != "web" {
		t.Errorf("the stored object was reached: parent %q", got)
	}
}

func TestGet_ErrorComesWithAnEmptyObject(t *testing.T) {
	got, err := newServer(t).Client("a").IPAddresses().Get(t.Context(), "10.0.0.1", metav1.GetOptions{})
	expect(t, isNotFound, err)
	if got == nil {
		t.Error("nil beside the error: the typed client returns an empty object")
	}
}

func TestPutRaw_StoresWhatValidationRefuses(t *testing.T) {
	s := newServer(t)
	s.PutRaw(&networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "010.0.0.1"}})
	s.PutRaw(serviceCIDR("x", "nonsense"))
	got := must(s.Client("a").IPAddresses().Get(t.Context(), "010.0.0.1", metav1.GetOptions{}))(t)
	if got.UID == "" || got.ResourceVersion == "" || got.CreationTimestamp.IsZero() {
		t.Errorf("raw object lacks what the system owns: %+v", got.ObjectMeta)
	}
	expect(t, isOK, s.Client("a").IPAddresses().Delete(t.Context(), "010.0.0.1", metav1.DeleteOptions{}))
	if got := s.TrueServiceCIDRs()[0].Spec.CIDRs[0]; got != "nonsense" {
		t.Errorf("stored CIDR %q", got)
	}
}

func TestSetReady_CoversTheFourStates(t *testing.T) {
	s := newServer(t)
	s.CreateServiceCIDR("x", "", "10.0.0.0/24")
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown, ""} {
		got := s.SetReady("x", status).Status.Conditions
		if status == "" && len(got) != 0 || status != "" && (len(got) != 1 || got[0].Status != status) {
			t.Errorf("SetReady %q: conditions %v", status, got)
		}
	}
}
