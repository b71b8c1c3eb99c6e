package service

import (
	"fmt"
	"net"

	"github.com/perdure/perdure/internal/signing"
	"github.com/perdure/perdure/internal/store"
)

// Endpoint is the path of the MCP endpoint.
const Endpoint = "/mcp"

// Keys sign what clients carry from one request to the next, and what processes
// tell runs.
type Keys struct {
	Signing []byte
	Retired [][]byte // still open what they have signed

	Proofs *signing.Keys // of these; those of a file are read anew each time
}

// Sealing gives the keys that seal what callers leave.
func (k Keys) Sealing() (*store.Keys, error) { return store.NewKeys(k.Signing, k.Retired...) }

// Reachable is an address by which this machine reaches a listener.
func Reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return address.String()
}
