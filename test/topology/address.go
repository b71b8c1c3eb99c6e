package topology

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
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
// program that is about to be started. It gives none twice, and on Linux none
// that another process has been given and that it still may start a program at.
func FreeAddress() (string, error) {
	for range ports {
		port := lowestPort + nextPort.Add(1)%ports
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		address := l.Addr().String()
		if err := l.Close(); err != nil {
			return "", err
		}
		if reserve(port) {
			return address, nil
		}
	}
	return "", errors.New("there is no free port")
}

// reserved are what other processes see of the ports that this one was given.
var reserved struct {
	mu   sync.Mutex
	held []net.Listener
}

// reserve says whether no other process was given a port, and keeps it from
// others until this process ends: by a socket whose name is in no file system,
// which the kernel forgets with the process.
func reserve(port int64) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", fmt.Sprintf("@perdure-port-%d", port))
	if err != nil {
		return false
	}
	reserved.mu.Lock()
	defer reserved.mu.Unlock()
	reserved.held = append(reserved.held, l)
	return true
}
