package service

import (
	"fmt"
	"net"

	"github.com/perdure/perdure/internal/secrets"
	"github.com/perdure/perdure/internal/store"
)

// Endpoint is the path of the MCP endpoint.
const Endpoint = "/mcp"

// Keys sign what clients carry between requests, and the signals of processes to runs.
type Keys struct {
	Signing []byte
	Retired [][]byte // still valid for what they have signed

	Proofs *secrets.Keys // of these; keys of a file are read each time
}

// sealing gives the keys that seal callers' credentials.
func (k Keys) sealing() (*store.Keys, error) { return store.NewKeys(k.Signing, k.Retired...) }

// Reachable is an address by which this machine reaches a listener.
func Reachable(address net.Addr) string {
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
	}
	return address.String()
}
