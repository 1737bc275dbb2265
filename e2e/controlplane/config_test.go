// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"reflect"
	"testing"
)

func TestAnUnusableConfigIsRefusedBeforeAnythingStarts(t *testing.T) {
	for field, config := range map[string]Config{
		"ServiceClusterIPRange": {ServiceClusterIPRange: "10.0.0.0"},
		"Verbosity":             {Verbosity: 11},
		"ExtraAPIServerArgs":    {ExtraAPIServerArgs: []string{"event-ttl=1m"}},
	} {
		_, err := Start(t.Context(), config)
		var refusal *ConfigError
		if !errors.As(err, &refusal) || refusal.Field != field {
			t.Errorf("%+v: %v; want a ConfigError of %s", config, err, field)
		}
	}
	for _, arg := range []string{"--", "--event-ttl 1m", "-v=2", ""} {
		if err := (Config{ServiceClusterIPRange: "10.0.0.0/24", ExtraAPIServerArgs: []string{arg}}).validate(); err == nil {
			t.Errorf("argument %q is accepted", arg)
		}
	}
}

func TestAnExtraArgumentReplacesAllOfItsName(t *testing.T) {
	for _, c := range []struct{ base, extra, want []string }{
		{base: []string{"--a=1", "--b=2"}, want: []string{"--a=1", "--b=2"}},
		{base: []string{"--a=1", "--ab=2"}, extra: []string{"--a=3"}, want: []string{"--ab=2", "--a=3"}},
		{base: []string{"--a=1", "--a=2"}, extra: []string{"--a"}, want: []string{"--a"}},
		{base: []string{"--a=1"}, extra: []string{"--b=1", "--b=2"}, want: []string{"--a=1", "--b=1", "--b=2"}},
	} {
		if got := override(c.base, c.extra); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v overridden by %v is %v; want %v", c.base, c.extra, got, c.want)
		}
	}
}

func TestTheLastLines(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""},
		{"a\n", 3, "a"},
		{"a\nb\nc\n", 2, "b\nc"},
		{"a\nb\nc", 3, "a\nb\nc"},
	} {
		if got := lastLines(c.text, c.n); got != c.want {
			t.Errorf("last %d of %q: %q; want %q", c.n, c.text, got, c.want)
		}
	}
}
