// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestServiceCIDR(t *testing.T) {
	for name, tc := range map[string]struct {
		cidrs []string
		want  []string
	}{
		"v4":                {[]string{"10.96.0.0/12"}, nil},
		"v6":                {[]string{"2001:db8::/64"}, nil},
		"both":              {[]string{"10.96.0.0/12", "2001:db8::/64"}, nil},
		"both, v6 first":    {[]string{"2001:db8::/64", "10.96.0.0/12"}, nil},
		"a single address":  {[]string{"10.96.0.1/32"}, nil},
		"none":              {nil, []string{"Required spec.cidrs"}},
		"three":             {[]string{"10.96.0.0/12", "2001:db8::/64", "10.0.0.0/24"}, []string{"Invalid spec.cidrs"}},
		"two of one family": {[]string{"10.96.0.0/12", "10.0.0.0/24"}, []string{"Invalid spec.cidrs"}},
		"host bits":         {[]string{"10.96.0.1/12"}, []string{"Invalid spec.cidrs[0]"}},
		"leading zeros":     {[]string{"10.096.0.0/12"}, []string{"Invalid spec.cidrs[0]"}},
		"mapped":            {[]string{"::ffff:10.96.0.0/108"}, []string{"Invalid spec.cidrs[0]"}},
		"capitals":          {[]string{"10.0.0.0/24", "2001:DB8::/64"}, []string{"Invalid spec.cidrs[1]"}},
		"uncompressed":      {[]string{"2001:db8:0:0::/64"}, []string{"Invalid spec.cidrs[0]"}},
		"no length":         {[]string{"10.96.0.0"}, []string{"Invalid spec.cidrs[0]"}},
		"nonsense":          {[]string{"blue", "green"}, []string{"Invalid spec.cidrs[0]", "Invalid spec.cidrs[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			wantErrors(t, ServiceCIDR(newServiceCIDR(tc.cidrs...)), tc.want...)
		})
	}
	unnamed := newServiceCIDR("10.96.0.0/12")
	unnamed.Name = "A"
	wantErrors(t, ServiceCIDR(unnamed), "Invalid metadata.name")
}

// One family may become two by appending. All else, downgrade and swap of families included, is refused.
func TestS34_ServiceCIDRUpdate(t *testing.T) {
	v4, v6 := "10.96.0.0/12", "2001:db8::/64"
	for name, tc := range map[string]struct {
		old, now []string
		want     []string
	}{
		"same":               {[]string{v4}, []string{v4}, nil},
		"same, both":         {[]string{v4, v6}, []string{v4, v6}, nil},
		"single to dual":     {[]string{v4}, []string{v4, v6}, nil},
		"single to dual, v6": {[]string{v6}, []string{v6, v4}, nil},
		"prepended":          {[]string{v4}, []string{v6, v4}, []string{"Invalid spec.cidrs[0]"}},
		"same family":        {[]string{v4}, []string{v4, "10.0.0.0/24"}, []string{"Invalid spec.cidrs"}},
		"not canonical":      {[]string{v4}, []string{v4, "2001:db8::1/64"}, []string{"Invalid spec.cidrs[1]"}},
		"other":              {[]string{v4}, []string{"10.0.0.0/24"}, []string{"Invalid spec.cidrs[0]"}},
		"downgrade":          {[]string{v4, v6}, []string{v4}, []string{"Invalid spec.cidrs"}},
		"swap":               {[]string{v4, v6}, []string{v6, v4}, []string{"Invalid spec.cidrs[0]", "Invalid spec.cidrs[1]"}},
		"other second":       {[]string{v4, v6}, []string{v4, "2001:db8:1::/64"}, []string{"Invalid spec.cidrs[1]"}},
		"emptied":            {[]string{v4}, nil, []string{"Invalid spec.cidrs"}},
	} {
		t.Run(name, func(t *testing.T) {
			old, now := newServiceCIDR(tc.old...), newServiceCIDR(tc.now...)
			old.ResourceVersion, now.ResourceVersion = "1", "1"
			wantErrors(t, ServiceCIDRUpdate(now, old), tc.want...)
		})
	}
}

func TestServiceCIDRStatusUpdate(t *testing.T) {
	old := newServiceCIDR("10.96.0.0/12")
	old.ResourceVersion = "1"
	now := old.DeepCopy()
	now.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}
	wantErrors(t, ServiceCIDRStatusUpdate(now, old))
	now.Name = "other"
	wantErrors(t, ServiceCIDRStatusUpdate(now, old), "Invalid metadata.name")
}

func TestIPAddress(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*networkingv1.IPAddress)
		want   []string
	}{
		"valid":             {func(*networkingv1.IPAddress) {}, nil},
		"other group":       {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Group = "example.com" }, nil},
		"cluster-scoped":    {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Namespace = "" }, nil},
		"no owner":          {func(a *networkingv1.IPAddress) { a.Spec.ParentRef = nil }, []string{"Required spec.parentRef"}},
		"no owner's name":   {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "" }, []string{"Required spec.parentRef.name"}},
		"no resource":       {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = "" }, []string{"Required spec.parentRef.resource"}},
		"bad group":         {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Group = "A_B" }, []string{"Invalid spec.parentRef.group"}},
		"slash in the name": {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Name = "a/b" }, []string{"Invalid spec.parentRef.name"}},
		"dots as resource":  {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Resource = ".." }, []string{"Invalid spec.parentRef.resource"}},
		"bad namespace":     {func(a *networkingv1.IPAddress) { a.Spec.ParentRef.Namespace = "a%b" }, []string{"Invalid spec.parentRef.namespace"}},
		"generated name": {func(a *networkingv1.IPAddress) { a.Name, a.GenerateName = "", "10.96.0." },
			[]string{"Invalid metadata.generateName", "Required metadata.name"}},
		"namespace": {func(a *networkingv1.IPAddress) { a.Namespace = "default" }, []string{"Forbidden metadata.namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			obj := newIPAddress("10.96.0.5")
			tc.change(obj)
			wantErrors(t, IPAddress(obj), tc.want...)
		})
	}
}

func TestIPAddressUpdate_AnAddressDoesNotChangeHands(t *testing.T) {
	old := newIPAddress("10.96.0.5")
	old.ResourceVersion = "1"
	now := old.DeepCopy()
	now.Labels = map[string]string{"a": "b"}
	wantErrors(t, IPAddressUpdate(now, old))
	now.Spec.ParentRef.Name = "green"
	wantErrors(t, IPAddressUpdate(now, old), "Invalid spec.parentRef")
}

func TestNamespace(t *testing.T) {
	obj := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue"}}
	wantErrors(t, Namespace(obj))
	obj.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"}
	wantErrors(t, Namespace(obj))
	obj.Spec.Finalizers = []corev1.FinalizerName{"a b"}
	wantErrors(t, Namespace(obj), "Invalid spec.finalizers")
	obj.Spec.Finalizers = nil
	obj.Name = "a.b"
	wantErrors(t, Namespace(obj), "Invalid metadata.name")

	old := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", ResourceVersion: "1"}}
	now := old.DeepCopy()
	now.Labels = map[string]string{"a": "b c"}
	wantErrors(t, NamespaceUpdate(now, old), "Invalid metadata.labels")
}
