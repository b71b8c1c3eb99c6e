package topology

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Where FreeAddress looks: below the ports that systems give to connections,
// one of which could be taken before whoever asked opens it. Processes begin at
// places of their own.
const (
	lowestPort = 20_000
	ports      = 12_000
)

var nextPort atomic.Int64

func init() { nextPort.Store(int64(os.Getpid()) * 100 % ports) }

// FreeAddress gives an address of this machine where nothing listens, for a
// program that is about to be started. It gives none twice.
func FreeAddress() (string, error) {
	for range ports {
		port := lowestPort + nextPort.Add(1)%ports
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return l.Addr().String(), l.Close()
		}
	}
	return "", errors.New("there is no free port")
}
