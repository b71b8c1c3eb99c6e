package topology

import (
	"net"
	"runtime"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestFreeAddress shows that what one was given nobody else is, though nothing
// listens there yet.
func TestFreeAddress(t *testing.T) {
	given := map[string]bool{}
	for range 50 {
		address := perduretest.Must(FreeAddress())(t)
		if given[address] {
			t.Fatalf("%s is given twice", address)
		}
		given[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Errorf("something listens at %s: %v", address, err)
			continue
		}
		port := int64(l.Addr().(*net.TCPAddr).Port)
		l.Close()
		if runtime.GOOS == "linux" && reserve(port) {
			t.Errorf("%s could be given to another process", address)
		}
	}
}
