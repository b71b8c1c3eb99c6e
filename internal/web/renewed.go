package web

import (
	"context"
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"
)

// Renewed are the credentials of a client whose files are read for each connection, so that
// certificates, keys and authorities can be renewed while it runs. While read gives none,
// as when a file is being written, those of first count.
func Renewed(first *tls.Config, read func() (*tls.Config, error)) credentials.TransportCredentials {
	return renewed{credentials.NewTLS(first), read}
}

type renewed struct {
	credentials.TransportCredentials // of the start
	read                             func() (*tls.Config, error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (r renewed) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if now, err := r.read(); err == nil && now != nil {
		return credentials.NewTLS(now).ClientHandshake(ctx, authority, conn)
	}
	return r.TransportCredentials.ClientHandshake(ctx, authority, conn)
}

// Clone implements credentials.TransportCredentials.
func (r renewed) Clone() credentials.TransportCredentials {
	return renewed{r.TransportCredentials.Clone(), r.read}
}
