//go:build unix

package web

import (
	"cmp"
	"context"
	"net"
	"runtime"
	"syscall"
	"time"
)

// A client that vanishes without a word (power, network, NAT) is noticed by probes that it
// does not answer, or by bytes that it does not acknowledge; Linux only bounds the second.
const (
	probeAfter      = 15 * time.Second // without a byte from the client, and after each probe
	unansweredLimit = 60 * time.Second
	tcpUserTimeout  = 0x12 // Linux: TCP_USER_TIMEOUT, in milliseconds
)

// probe makes the kernel end a connection whose client has vanished.
func probe(conn net.Conn) error {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	err := tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probeAfter, Interval: probeAfter, Count: int(unansweredLimit/probeAfter) - 1})
	if err != nil || runtime.GOOS != "linux" {
		return err
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unansweredLimit.Milliseconds()))
	})
	return cmp.Or(controlled, err)
}

// connection is the key of a request's connection in its context.
type connection struct{}

// Left reports whether the client of a request is gone. ctx is that of the request, or
// derived from it.
func Left(ctx context.Context) bool {
	conn, ok := ctx.Value(connection{}).(net.Conn)
	return ctx.Err() != nil || ok && ClosedByPeer(conn)
}

// ClosedByPeer reports whether the other side has closed the connection, or the kernel has
// given it up, which may be known there before net/http has read it. Data to read does
// not count.
func ClosedByPeer(conn net.Conn) bool {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) { // not Read, which waits for net/http's own
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return closed || err != nil
}
