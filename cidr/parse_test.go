// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package cidr

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestS53_OneNamePerAddress(t *testing.T) {
	for _, tc := range []struct {
		in        string
		canonical string // "" if there is no address in it at all
	}{
		{"10.96.0.5", "10.96.0.5"},
		{"0.0.0.0", "0.0.0.0"},
		{"2001:db8::5", "2001:db8::5"},
		{"::", "::"},
		{"::1.2.3.4", "::102:304"},
		{"2001:DB8::0005", "2001:db8::5"},
		{"2001:db8:0:0:0:0:0:5", "2001:db8::5"},
		{"2001:db8::0:5", "2001:db8::5"},
		{"::ffff:10.96.0.5", "10.96.0.5"},
		{"::FFFF:0a60:0005", "10.96.0.5"},
		{"::ffff:010.096.000.005", "10.96.0.5"},
		{"10.096.0.5", "10.96.0.5"},
		{"010.096.000.005", "10.96.0.5"},
		{"0000.0.0.0", ""},
		{"fe80::1%eth0", ""},
		{"::ffff:10.96.0.5%eth0", ""},
		{"10.96.0", ""},
		{"10.96.0.256", ""},
		{"10.96.0.0256", ""},
		{"0x0a.0.0.1", ""},
		{"10.96.0.5/32", ""},
		{" 10.96.0.5", ""},
		{"10.96.0.+5", ""},
		{"10.96.0.٥", ""},
		{"", ""},
		{":", ""},
	} {
		a, err := ParseAddr(tc.in)
		lenient, canonical, lenientErr := ParseAddrLenient(tc.in)
		if canonical != (err == nil) {
			t.Errorf("%q: canonical %v, and strictly %v", tc.in, canonical, err)
		}
		var refused *ParseError
		switch {
		case tc.in == tc.canonical && tc.in != "":
			if err != nil || a.String() != tc.in || lenient != a {
				t.Errorf("ParseAddr(%q) = %v, %v", tc.in, a, err)
			}
		case !errors.As(err, &refused) || refused.Canonical != tc.canonical || refused.Input != tc.in || a.IsValid():
			t.Errorf("ParseAddr(%q) = %v, %v; want to be told %q", tc.in, a, err, tc.canonical)
		case addrOrNone(lenient) != tc.canonical || (lenientErr == nil) != (tc.canonical != ""):
			t.Errorf("ParseAddrLenient(%q) = %v, %v; want %q", tc.in, lenient, lenientErr, tc.canonical)
		}
	}
}

func TestS53_S54_OneNamePerRange(t *testing.T) {
	const (
		host, zeros, length = "has bits set beyond its length", "has leading zeros", "has leading zeros in its length"
		mapped, spelling    = "is IPv4-mapped", "is not in canonical form"
	)
	for _, tc := range []struct {
		in        string
		canonical string // "" if there is no range in it at all
		notes     []string
	}{
		{"10.96.0.0/12", "10.96.0.0/12", nil},
		{"fd00::/108", "fd00::/108", nil},
		{"0.0.0.0/0", "0.0.0.0/0", nil},
		{"::/0", "::/0", nil},
		{"10.96.10.10/20", "10.96.0.0/20", []string{host}},
		{"fd00::1/64", "fd00::/64", []string{host}},
		{"FD00:0::/64", "fd00::/64", []string{spelling}},
		{"10.096.0.0/12", "10.96.0.0/12", []string{zeros}},
		{"10.96.0.0/012", "10.96.0.0/12", []string{length}},
		{"010.96.0.1/012", "10.96.0.0/12", []string{zeros, length, host}},
		{"::ffff:10.96.0.0/108", "10.96.0.0/12", []string{mapped}},
		{"::ffff:10.96.0.1/108", "10.96.0.0/12", []string{mapped, host}},
		{"::ffff:10.096.0.0/108", "10.96.0.0/12", []string{zeros, mapped}},
		{"::ffff:0.0.0.0/96", "0.0.0.0/0", []string{mapped}},
		{"::ffff:10.96.0.0/95", "", nil},
		{"::fffe:0:0/95", "", nil},
		{"::ff00:0:0/88", "", nil},
		{"fe80::%eth0/64", "", nil},
		{"fe80::/64%eth0", "", nil},
		{"10.96.0.0", "", nil},
		{"10.96.0.0/", "", nil},
		{"10.96.0.0/33", "", nil},
		{"10.96.0.0/-1", "", nil},
		{"10.96.0.0/+8", "", nil},
		{"10.96.0.0/0008", "", nil},
		{"fd00::/129", "", nil},
		{"10.96.0.0/8/8", "", nil},
		{"/8", "", nil},
		{"", "", nil},
	} {
		r, err := Parse(tc.in)
		lenient, notes, lenientErr := ParseLenient(tc.in)
		if (lenientErr == nil) != (tc.canonical != "") || !slices.Equal(notes, tc.notes) ||
			lenientErr == nil && lenient.String() != tc.canonical {
			t.Errorf("ParseLenient(%q) = %v, %q, %v; want %v, %q", tc.in, lenient, notes, lenientErr, tc.canonical, tc.notes)
		}
		var refused *ParseError
		switch {
		case tc.in == tc.canonical && tc.in != "":
			if err != nil || r.String() != tc.in {
				t.Errorf("Parse(%q) = %v, %v", tc.in, r, err)
			}
		case !errors.As(err, &refused) || r != Range{}:
			t.Errorf("Parse(%q) = %v, %v, want a ParseError", tc.in, r, err)
		case tc.canonical != "" && refused.Canonical != tc.canonical:
			t.Errorf("Parse(%q): %v; want to be told %q", tc.in, err, tc.canonical)
		}
	}
}

func TestParseErrorsSayWhatToDo(t *testing.T) {
	for in, want := range map[string]string{
		"10.96.1.0/12": `"10.96.1.0/12" has bits set beyond its length: use 10.96.0.0/12`,
		"10.0.0.1":     `"10.0.0.1" has no length: use 10.0.0.1/32 if the single address is meant`,
		"ten/8":        `"ten/8" is not an IP address`,
		"10.0.0.0/64":  `"10.0.0.0/64" has no length from 0 to 32`,
	} {
		if _, err := Parse(in); err == nil || err.Error() != want {
			t.Errorf("Parse(%q):\n got %v\nwant %s", in, err, want)
		}
	}
}

func TestMustParsePanicsWhereParseFails(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	MustParse("10.96.1.0/12")
}

// parseProperty holds for every text.
func parseProperty(t interface{ Fatalf(string, ...any) }, s string) {
	r, err := Parse(s)
	lenient, notes, lenientErr := ParseLenient(s)
	if err == nil {
		if r.String() != s {
			t.Fatalf("Parse(%q) is spelled %q", s, r)
		}
		if lenientErr != nil || lenient != r || len(notes) > 0 {
			t.Fatalf("Parse(%q) = %v, but leniently %v, %q, %v", s, r, lenient, notes, lenientErr)
		}
		if p, err := netip.ParsePrefix(s); err != nil || p != r.Prefix() {
			t.Fatalf("Parse(%q) = %v, but netip has %v, %v", s, r, p, err)
		}
	} else if lenientErr == nil {
		if len(notes) == 0 {
			t.Fatalf("Parse(%q): %v, and no note why", s, err)
		}
		if again, err := Parse(lenient.String()); err != nil || again != lenient {
			t.Fatalf("ParseLenient(%q) = %v, which reads back as %v, %v", s, lenient, again, err)
		}
		if refused := err.(*ParseError); refused.Canonical != lenient.String() {
			t.Fatalf("Parse(%q): %v, but it means %v", s, err, lenient)
		}
	}
	if lenientErr == nil && !lenient.IsValid() || lenientErr != nil && lenient.IsValid() {
		t.Fatalf("ParseLenient(%q) = %v, %v", s, lenient, lenientErr)
	}

	a, err := ParseAddr(s)
	la, canonical, lenientErr := ParseAddrLenient(s)
	if canonical != (err == nil) || err == nil && (a.String() != s || la != a || lenientErr != nil) {
		t.Fatalf("ParseAddr(%q) = %v, %v, but leniently %v, %v, %v", s, a, err, la, canonical, lenientErr)
	}
	if (lenientErr == nil) != FamilyOf(la).IsValid() {
		t.Fatalf("ParseAddrLenient(%q) = %v, %v", s, la, lenientErr)
	}
}

func TestParseRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := genRange().Draw(t, "range")
		if again, err := Parse(r.String()); err != nil || again != r {
			t.Fatalf("Parse(%q) = %v, %v", r, again, err)
		}
		a := r.Prefix().Addr()
		for _, s := range []string{
			r.String(), a.String(), strings.ToUpper(r.String()), a.StringExpanded() + "/64",
			rapid.StringMatching(`(::ffff:)?0?[0-9]{1,2}(\.[0-9]{1,3}){3}/[0-9]{1,3}`).Draw(t, "v4"),
			rapid.StringMatching(`[0-9a-fA-F:]{2,20}/[0-9]{1,3}`).Draw(t, "v6"),
		} {
			parseProperty(t, s)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"10.96.0.0/12", "10.96.1.0/012", "fd00::/108", "::ffff:10.96.0.0/108", "fe80::1%eth0/64", "010.0.0.1", "::/0",
		"2001:DB8::0005", "::ffff:10.96.0.5", "10.096.0.5", "::fffe:0:0/95", "/", "1.2.3.4/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { parseProperty(t, s) })
}
