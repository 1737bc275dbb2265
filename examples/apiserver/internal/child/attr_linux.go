// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import "syscall"

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
