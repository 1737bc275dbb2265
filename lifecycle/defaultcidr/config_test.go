// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package defaultcidr

import (
	"errors"
	"strings"
	"testing"

	"github.com/metacidr/metacidr/proptest/simapi"
)

// What cannot be right is refused before any call, and the text says what to write.
func TestConfig_Refused(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	client := server.Client("r")
	for _, tc := range []struct {
		name   string
		config Config
		want   string
	}{
		{"no client", Config{Ranges: []string{v4}}, "Client is nil"},
		{"no range", Config{Client: client}, "give one, or one of each family"},
		{"three", Config{Client: client, Ranges: []string{v4, v6, other4}}, "3 are too many"},
		{"one family twice", Config{Client: client, Ranges: []string{v4, other4}}, "both IPv4"},
		{"IPv6 twice", Config{Client: client, Ranges: []string{v6, v6}}, "both IPv6"},
		{"S54 unaligned", Config{Client: client, Ranges: []string{"10.96.10.10/20"}}, "use 10.96.0.0/20"},
		{"S53 leading zeros", Config{Client: client, Ranges: []string{"10.096.0.0/16"}}, "use 10.96.0.0/16"},
		{"S53 IPv4-mapped", Config{Client: client, Ranges: []string{"::ffff:10.96.0.0/112"}}, "use 10.96.0.0/16"},
		{"S53 capitals", Config{Client: client, Ranges: []string{v4, "FD00::/108"}}, "use fd00::/108"},
		{"no length", Config{Client: client, Ranges: []string{"10.96.0.0"}}, "has no length"},
		{"no prefix", Config{Client: client, Ranges: []string{v4 + "," + v6}}, v4 + "," + v6},
		{"/31", Config{Client: client, Ranges: []string{"10.96.0.0/31"}}, "no usable address"},
		{"/32", Config{Client: client, Ranges: []string{"10.96.0.0/32"}}, "no usable address"},
		{"/128", Config{Client: client, Ranges: []string{v4, "fd00::/128"}}, "no usable address"},
		{"name", Config{Client: client, Ranges: []string{v4}, Name: "No_Name"}, "No_Name"},
		{"interval", Config{Client: client, Ranges: []string{v4}, Interval: -1}, "Interval -1ns is negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := New(tc.config)
			if !errors.Is(err, ErrInvalidConfig) || c != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to say %q", err, tc.want)
			}
		})
	}
	if n := server.Calls("").Total(); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// The smallest ranges with a usable address, either order of families.
func TestConfig_Taken(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	for _, texts := range [][]string{{"10.96.0.0/30"}, {"fd00::/127"}, {v4, v6}, {v6, v4}} {
		if _, err := New(Config{Client: server.Client("r"), Ranges: texts}); err != nil {
			t.Errorf("%q: %v", texts, err)
		}
	}
}

// The configuration is the caller's to change afterwards.
func TestConfig_Copied(t *testing.T) {
	server := simapi.New()
	defer server.Close()
	texts := []string{v4, v6}
	c := controller(t, server, nil, texts...)
	texts[0], texts[1] = other4, other6
	find(t, c, Created)
	if got := ranges(t, server); got != v4+","+v6 {
		t.Errorf("created with %s", got)
	}
}
