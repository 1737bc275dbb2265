// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// DefaultServiceClusterIPRange is a dual-stack range of 65,536 IPv4 addresses and
// 2^20 IPv6 addresses.
const DefaultServiceClusterIPRange = "10.96.0.0/16,fd00:10:96::/108"

// Config says what control plane to start. The zero value is useful.
type Config struct {
	// ServiceClusterIPRange is kube-apiserver's flag: one prefix, or two of different
	// families separated by a comma. Default: DefaultServiceClusterIPRange.
	ServiceClusterIPRange string

	// ExtraAPIServerArgs are further flags of kube-apiserver, each "--name=value" or
	// "--name". One that is set here replaces all that this package would have set
	// under the same name.
	ExtraAPIServerArgs []string

	// Verbosity is kube-apiserver's --v, 0 to 10.
	Verbosity int

	// Fsync makes etcd wait for the disk at each write. Without it the data outlives
	// a killed etcd all the same, but not a machine that loses power.
	Fsync bool

	// Dir is the folder for data, keys and logs. Default: a temporary one that Stop
	// removes. A folder named here is made if need be, never removed, and its etcd
	// data are used again by the next control plane started on it.
	Dir string

	// Log is where a build, which takes minutes the first time, is announced. Nothing
	// else is written to it. Default: os.Stderr.
	Log io.Writer
}

// withDefaults returns a copy, sharing nothing with c, in which every field is set.
func (c Config) withDefaults() Config {
	if c.ServiceClusterIPRange == "" {
		c.ServiceClusterIPRange = DefaultServiceClusterIPRange
	}
	if c.Log == nil {
		c.Log = os.Stderr
	}
	c.ExtraAPIServerArgs = append([]string(nil), c.ExtraAPIServerArgs...)
	return c
}

func (c Config) validate() error {
	if _, err := c.prefixes(); err != nil {
		return err
	}
	if c.Verbosity < 0 || c.Verbosity > 10 {
		return &ConfigError{"Verbosity", strconv.Itoa(c.Verbosity), "must be 0 to 10"}
	}
	for _, arg := range c.ExtraAPIServerArgs {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.HasPrefix(name, "--") || len(name) == len("--") || strings.ContainsAny(name, " \t\n") {
			return &ConfigError{"ExtraAPIServerArgs", arg, "must be --name=value or --name"}
		}
	}
	return nil
}

// prefixes returns the service ranges, masked. Whether they fit together is left to
// kube-apiserver, so that a test can see its refusal.
func (c Config) prefixes() ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, s := range strings.Split(c.ServiceClusterIPRange, ",") {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, &ConfigError{"ServiceClusterIPRange", c.ServiceClusterIPRange,
				"must be one prefix, or two separated by a comma, such as " + DefaultServiceClusterIPRange}
		}
		prefixes = append(prefixes, p.Masked())
	}
	return prefixes, nil
}

// override returns base less the flags that extra names, followed by extra.
func override(base, extra []string) []string {
	named := map[string]bool{}
	for _, arg := range extra {
		named[flagName(arg)] = true
	}
	args := make([]string, 0, len(base)+len(extra))
	for _, arg := range base {
		if !named[flagName(arg)] {
			args = append(args, arg)
		}
	}
	return append(args, extra...)
}

func flagName(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}
