// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package child

import "syscall"

func sysProcAttr() *syscall.SysProcAttr { return nil }
