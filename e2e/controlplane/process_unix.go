// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package controlplane

import "syscall"

// sysProcAttr puts the child in a process group of its own, so that a Ctrl-C at the
// terminal reaches only this process, which then stops the child in order.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
