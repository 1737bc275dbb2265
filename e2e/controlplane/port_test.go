// Copyright The metacidr Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// tryListen listens on the port without sharing it, as a stranger would.
func (p port) tryListen() error {
	l, err := net.Listen("tcp", p.String())
	if err == nil {
		l.Close()
	}
	return err
}

func TestAReservedPortIsOursUntilReleased(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.tryListen(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a stranger gets %v; want EADDRINUSE", err)
	}
	sharing := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		ctlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(ctlErr, err)
	}}
	for range 2 { // also after a restart
		if _, err := net.Dial("tcp", p.String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a listener a client gets %v; want ECONNREFUSED", err)
		}
		l, err := sharing.Listen(context.Background(), "tcp", p.String())
		if err != nil {
			t.Fatalf("a child that shares the port: %v", err)
		}
		for range 20 { // all go to the listener, none to the reservation
			conn, err := net.Dial("tcp", p.String())
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		l.Close()
	}
	p.release()
	if err := p.tryListen(); err != nil {
		t.Errorf("after the release a stranger gets %v", err)
	}
}

func TestReservedPortsAreDistinct(t *testing.T) {
	seen := map[int]bool{}
	for range 200 {
		p, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		defer p.release()
		if seen[p.number] {
			t.Fatalf("port %d was given out twice", p.number)
		}
		seen[p.number] = true
	}
}
