//go:build unix

package web

import (
	"context"
	"net"
	"syscall"
)

// connection is the key of a request's connection in its context.
type connection struct{}

// Left reports whether the client of a request is gone. ctx is that of the request, or
// derived from it.
func Left(ctx context.Context) bool {
	conn, ok := ctx.Value(connection{}).(net.Conn)
	return ctx.Err() != nil || ok && ClosedByPeer(conn)
}

// ClosedByPeer reports whether the other side has closed the connection,
// which may be in the kernel before net/http has read it. Data to read does
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
		closed = err == nil && n == 0 || err == syscall.ECONNRESET
	})
	return closed || err != nil
}
