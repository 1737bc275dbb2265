// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// port is a TCP port of 127.0.0.1 that stays ours until it is released.
//
// The usual way, to ask the kernel for a free port and to close it again before the
// child binds it, loses the port to whoever is faster, and once more at each restart.
// So the socket is kept: bound, but not listening, with SO_REUSEPORT. The kernel then
// gives the port to nobody else; a child of the same user that sets SO_REUSEPORT as
// well binds it and, as the only listener, receives every connection. While no child
// listens, connections are refused.
type port struct {
	number int
	fd     int
}

func reservePort() (port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return port{}, fmt.Errorf("reserve a port: socket: %w", err)
	}
	number, err := bindLoopback(fd)
	if err != nil {
		_ = unix.Close(fd)
		return port{}, fmt.Errorf("reserve a port of 127.0.0.1: %w", err)
	}
	return port{number: number, fd: fd}, nil
}

// bindLoopback binds fd to a port of the kernel's choice and returns its number.
func bindLoopback(fd int) (int, error) {
	unix.CloseOnExec(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, fmt.Errorf("bind: %w", err)
	}
	// Only now: with the option set before, the kernel might choose a port that another
	// reservation shares.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, fmt.Errorf("set SO_REUSEPORT: %w", err)
	}
	addr, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("read the port's number: %w", err)
	}
	inet, ok := addr.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("read the port's number: the socket has a %T", addr)
	}
	return inet.Port, nil
}

func (p port) release() { _ = unix.Close(p.fd) }

func (p port) String() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

func (p port) url() string { return "https://" + p.String() }
