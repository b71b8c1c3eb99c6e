package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// TestOriginPolicy: by which names, and for which pages, a server answers on
// loopback and elsewhere.
func TestOriginPolicy(t *testing.T) {
	t.Parallel()
	open := web.OriginPolicy{}
	named := web.OriginPolicy{Origins: []string{"https://chat.example"}, Hosts: []string{"tools.example:8443"}}
	const elsewhere, loopback = "10.0.0.7:4483", "127.0.0.1:4483"
	for _, tc := range []struct {
		policy       web.OriginPolicy
		local        string
		host, origin string
		allowed      bool
	}{
		{open, elsewhere, "any.example", "", false},
		{open, elsewhere, "any.example", "http://any.example", false},
		{open, elsewhere, "10.0.0.7:4483", "", true},
		{open, elsewhere, "gateway-1:4483", "", true}, // in a network of containers
		{open, elsewhere, "perdure.tools.svc", "", true},
		{open, elsewhere, "perdure.tools.svc.cluster.local:80", "", true},
		{open, elsewhere, "perdure.tools.svc.evil.example", "", false},
		{open, elsewhere, "", "", false},
		{open, elsewhere, "10.0.0.7:4483", "http://localhost:6274", false},
		{open, elsewhere, "10.0.0.7:4483", "null", false},
		{open, elsewhere, "localhost:4483", "null", false},
		{open, loopback, "evil.example", "", false},
		{open, loopback, "evil.local", "", false},
		{open, loopback, "chat", "", false},
		{open, loopback, "localhost:1", "", true},
		{open, loopback, "127.0.0.1", "", true},
		{open, loopback, "[::1]:7", "", true},
		{open, loopback, "localhost:4483", "http://localhost:6274", true},
		{open, loopback, "localhost:4483", "https://evil.example", false},
		{named, elsewhere, "evil.example", "", false},
		{named, elsewhere, "tools.example:8443", "", true},
		{named, elsewhere, "TOOLS.example:8443", "", true},
		{named, elsewhere, "tools.example", "", false},
		{named, elsewhere, "chat.example", "https://chat.example", true},
		{named, elsewhere, "localhost:4483", "http://localhost:6274", true}, // a port that is mapped
		{named, elsewhere, "localhost.evil.example", "", false},
		{named, loopback, "tools.example:8443", "", true},
		{named, loopback, "tools.example:8443", "http://localhost:6274", false},
	} {
		local := perduretest.Must(net.ResolveTCPAddr("tcp", tc.local))(t)
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
		r.Host = tc.host
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		if why := tc.policy.Refusal(r); (why == "") != tc.allowed {
			t.Errorf("at %s, host %q, origin %q: %q", tc.local, tc.host, tc.origin, why)
		}
	}
}

// A pipes is a listener whose connections are pipes: time passes as the test
// wants.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

type fromPeer struct {
	net.Conn
	peer string
}

func (c fromPeer) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.peer)
	return a
}

func (p *pipes) dial(peer string) net.Conn {
	client, server := net.Pipe()
	p.accepted <- fromPeer{server, peer}
	return client
}

// serve serves o until the end of the test.
func serve(t *testing.T, o web.Options) *pipes {
	t.Helper()
	p := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	o.Logger = slog.New(slog.DiscardHandler)
	s := web.New(o)
	served := make(chan error, 1)
	go func() { served <- s.Serve(p) }()
	t.Cleanup(func() {
		s.End(0)
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return p
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		web.RefuseBody(w, err)
		return
	}
	fmt.Fprint(w, len(body))
}

// answer reads the status and the body of an answer.
func answer(t *testing.T, c net.Conn) (status int, body string, header http.Header) {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	text := perduretest.Must(io.ReadAll(r.Body))(t)
	return r.StatusCode, string(text), r.Header
}

const post = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "

// Who sends a header, a body or the rest of a body too slowly is cut off, whether
// the handler reads it or not.
func TestAttackSlowClients(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		handler http.HandlerFunc
		send    func(c net.Conn)
		within  time.Duration
		status  int // 0 = the connection is closed without an answer
	}{
		{"header", echo, func(c net.Conn) {
			for _, b := range []byte("POST / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ") {
				c.Write([]byte{b})
			}
		}, 11 * time.Second, 0},
		{"body that never comes", echo, func(c net.Conn) { io.WriteString(c, post+"4000\r\n\r\n") }, 11 * time.Second, 408},
		{"body that stops", echo, func(c net.Conn) { io.WriteString(c, post+"60000\r\n\r\n"+strings.Repeat("x", 50_000)) }, 11 * time.Second, 408},
		{"byte after byte", echo, func(c net.Conn) {
			io.WriteString(c, post+"60000\r\n\r\n")
			for {
				if _, err := c.Write([]byte{'x'}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, 12 * time.Second, 408},
		{"body that nobody reads", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) },
			func(c net.Conn) { io.WriteString(c, post+"60000\r\n\r\n") }, 11 * time.Second, 401},
		{"chunks", echo, func(c net.Conn) {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		}, 11 * time.Second, 408},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := serve(t, web.Options{Handler: tc.handler})
				c := p.dial("127.0.0.1:1000")
				began := time.Now()
				var sending sync.WaitGroup
				defer sending.Wait()
				sending.Go(func() { tc.send(c) })
				if tc.status == 0 {
					if text, err := io.ReadAll(c); err != nil || len(text) > 0 {
						t.Errorf("%q, %v", text, err)
					}
				} else if status, body, _ := answer(t, c); status != tc.status {
					t.Errorf("answered %d: %s", status, body)
				}
				if _, err := io.ReadAll(c); err != nil { // the server closes it
					t.Error(err)
				}
				if took := time.Since(began); took > tc.within {
					t.Errorf("it lasted %s", took)
				}
				c.Close()
			})
		})
	}
}

// A body that no handler reads, and that is too long for net/http to read to its end, is
// not waited for: its sender is answered at once, and is not told to send it.
func TestAttackBodyIsNotAwaited(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"", "Expect: 100-continue\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			p := serve(t, web.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no", http.StatusRequestEntityTooLarge)
			})})
			c := p.dial("127.0.0.1:1000")
			defer c.Close()
			defer io.ReadAll(c) // until the server closes it
			began := time.Now()
			go io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\n"+header+"Content-Length: 99000000000\r\n\r\n")
			if status, body, _ := answer(t, c); status != http.StatusRequestEntityTooLarge || time.Since(began) > time.Second {
				t.Errorf("%q: answered %d after %s: %s", header, status, time.Since(began), body)
			}
		})
	}
}

// A body that is slow, and comes, is taken; and a handler may take its time before
// it reads on, and after.
func TestSlowBodyThatComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, web.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.CopyN(io.Discard, r.Body, 1000)
			time.Sleep(time.Minute) // for room
			echo(w, r)
			select {
			case <-r.Context().Done():
				t.Error("the client counts as gone")
			case <-time.After(time.Hour):
			}
		})})
		c := p.dial("127.0.0.1:1000")
		defer c.Close()
		go func() {
			io.WriteString(c, post+"60000\r\n\r\n")
			for range 60 {
				time.Sleep(50 * time.Millisecond)
				io.WriteString(c, strings.Repeat("x", 1000))
			}
		}()
		if status, body, _ := answer(t, c); status != 200 || body != "59000" {
			t.Errorf("answered %d: %s", status, body)
		}
	})
}

// Who does not read what is written for it is cut off, and so frees the handler.
func TestAttackSlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int64
		p := serve(t, web.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := fmt.Fprint(w, strings.Repeat("x", 100_000)); err != nil {
					ended.Store(1)
					return
				}
			}
		})})
		c := p.dial("127.0.0.1:1000")
		defer c.Close()
		go io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if ended.Load() == 0 {
			t.Error("the handler still writes")
		}
	})
}

// A request may have no more than it may have: header, and body whoever reads it.
func TestAttackLargeRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil)
	s := web.New(web.Options{Handler: http.HandlerFunc(echo), MaxBody: 1000, Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Serve(server.Listener) }()
	t.Cleanup(func() { s.End(0) })
	url := "http://" + server.Listener.Addr().String()
	for _, tc := range []struct {
		header, body int
		want         int
	}{{10, 1000, 200}, {10, 1001, 413}, {80 << 10, 10, 431}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(strings.Repeat("x", tc.body)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Large", strings.Repeat("x", tc.header))
		got := perduretest.Must(http.DefaultClient.Do(r))(t)
		got.Body.Close()
		if got.StatusCode != tc.want {
			t.Errorf("%d bytes of header, %d of body: %s", tc.header, tc.body, got.Status)
		}
	}
}

// A peer has so many connections and no more, whichever of its addresses it uses;
// others are served beside it.
func TestAttackConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := serve(t, web.Options{Handler: http.HandlerFunc(echo), MaxConnections: 3})
		var held []net.Conn
		for i := range 3 {
			held = append(held, p.dial(fmt.Sprintf("[2001:db8::%x]:1000", i+1)))
		}
		refused := p.dial("[2001:db8::ffff]:1000")
		if status, body, header := answer(t, refused); status != 503 || header.Get("Retry-After") == "" || body != "too many connections.\n" {
			t.Errorf("one too many is answered %d %q, %v", status, body, header)
		}
		try := func(peer string) int {
			c := p.dial(peer)
			defer c.Close()
			go io.WriteString(c, post+"2\r\n\r\nhi")
			status, _, _ := answer(t, c)
			return status
		}
		if got := try("[2001:db8:1::1]:1000"); got != 200 {
			t.Errorf("another peer is answered %d", got)
		}
		held[0].Close()
		synctest.Wait()
		if got := try("[2001:db8::abc]:1000"); got != 200 {
			t.Errorf("with one less it is answered %d", got)
		}
		for _, c := range held {
			c.Close()
		}
	})
}
