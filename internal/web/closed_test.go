//go:build linux

package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// TestConnectionsAreProbed: the kernel is told to end a connection whose client does not
// answer for a minute, with bytes under way and without.
func TestConnectionsAreProbed(t *testing.T) {
	t.Parallel()
	accepted := &noted{listener(t), make(chan net.Conn, 1)}
	server := web.New(web.Options{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})})
	go server.Serve(accepted)
	t.Cleanup(func() { server.End(0) })
	resp, err := http.Get("http://" + accepted.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	raw := perduretest.Must((<-accepted.conns).(*net.TCPConn).SyscallConn())(t)
	const userTimeout = 0x12
	err = raw.Control(func(fd uintptr) {
		for name, option := range map[string]struct{ level, number, want int }{
			"SO_KEEPALIVE":     {syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			"TCP_KEEPIDLE":     {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			"TCP_KEEPINTVL":    {syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			"TCP_KEEPCNT":      {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 3},
			"TCP_USER_TIMEOUT": {syscall.IPPROTO_TCP, userTimeout, 60_000},
		} {
			if got, err := syscall.GetsockoptInt(int(fd), option.level, option.number); err != nil || got != option.want {
				t.Errorf("%s is %d, want %d (%v)", name, got, option.want, err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	return l
}

// A noted listener gives its first connection to the test as well.
type noted struct {
	net.Listener
	conns chan net.Conn
}

func (l *noted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		select {
		case l.conns <- c:
		default:
		}
	}
	return c, err
}

// TestClientVanishes takes the network away between server and client, one of them idle
// and one with bytes under way, in a network of its own. It takes more than a minute, so
// it has to be asked for: PERDURE_VANISH=1.
func TestClientVanishes(t *testing.T) {
	switch os.Getenv("PERDURE_VANISH") {
	case "":
		t.Skip("takes a minute; PERDURE_VANISH=1 runs it")
	case "1":
		inner := exec.Command("unshare", "-rn", os.Args[0], "-test.run=^TestClientVanishes$", "-test.v")
		inner.Env = append(os.Environ(), "PERDURE_VANISH=inside")
		out, err := inner.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	link := func(state string) {
		if out, err := exec.Command("ip", "link", "set", "lo", state).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	link("up")
	type end struct {
		path  string
		after time.Duration
		left  bool
	}
	var gone time.Time
	ends := make(chan end, 2)
	server := web.New(web.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		for r.Context().Err() == nil && !web.Left(r.Context()) {
			if r.URL.Path == "/sends" {
				io.WriteString(w, ": ping\n\n")
				w.(http.Flusher).Flush()
			}
			time.Sleep(time.Second)
		}
		ends <- end{r.URL.Path, time.Since(gone), context.Cause(r.Context()) != nil || web.Left(r.Context())}
	})})
	l := listener(t)
	go server.Serve(l)
	for _, path := range []string{"/idle", "/sends"} {
		c := perduretest.Must(net.Dial("tcp", l.Addr().String()))(t)
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	gone = time.Now()
	link("down")
	for range 2 {
		select {
		case e := <-ends:
			if t.Logf("%+v", e); e.after > 70*time.Second || !e.left {
				t.Errorf("got %+v, want an end after a minute", e)
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("the server still waits after two minutes")
		}
	}
}
