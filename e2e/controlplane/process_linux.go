// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import "syscall"

// sysProcAttr puts the child in a process group of its own, so that a Ctrl-C at the
// terminal reaches only this process, which then stops the child in order; and has
// the kernel kill the child if this process ends without doing so.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
