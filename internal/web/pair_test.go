package web_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/web"
)

// Both ends have to have the pair; and who has another one, none, or speaks in
// clear, gets nothing.
func TestAttackWithoutThePair(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pair.pem")
	ours := open(t, file)
	other := open(t, filepath.Join(t.TempDir(), "pair.pem"))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	foreign := other.Client()
	foreign.InsecureSkipVerify = true // it does not care whom it attacks
	for name, tc := range map[string]struct {
		server, client *tls.Config
		works          bool
	}{
		"the pair":                  {ours.Server(), open(t, file).Client(), true},
		"another pair":              {ours.Server(), foreign, false},
		"no pair":                   {ours.Server(), &tls.Config{InsecureSkipVerify: true}, false},
		"server of another pair":    {other.Server(), ours.Client(), false},
		"server without any client": {&tls.Config{Certificates: other.Server().Certificates}, ours.Client(), false},
	} {
		if err := exchange(t, tc.server, tc.client); (err == nil) != tc.works {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRenewed: a client shows and trusts the certificates that its files have now, and those
// before while they are being written.
func TestRenewed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pair.pem")
	first := open(t, file)
	client := web.Renewed(first.Client(), func() (*tls.Config, error) {
		now, err := web.LoadPair(file)
		if err != nil {
			return nil, err
		}
		return now.Client(), nil
	}).Clone()
	reaches := func(server *web.Pair, want bool) {
		t.Helper()
		here, there := net.Pipe()
		cfg := server.Server()
		cfg.NextProtos = []string{"h2"}
		go func() {
			s := tls.Server(there, cfg)
			_ = s.Handshake() // that of the client says how it went
			there.Close()
		}()
		conn, _, err := client.ClientHandshake(t.Context(), "localhost", here)
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // the server has refused, or closes
		}
		if got := errors.Is(err, io.EOF); got != want {
			t.Errorf("%v, want %t", err, want)
		}
	}
	reaches(first, true)
	perduretest.NoError(t, os.WriteFile(file, []byte("half"), 0o600))
	reaches(first, true)
	perduretest.NoError(t, os.Remove(file))
	second := open(t, file)
	reaches(second, true)
	reaches(first, false)
}

func open(t *testing.T, file string) *web.Pair {
	t.Helper()
	p := perduretest.Must(web.OpenPair(file))(t)
	return p
}

// exchange sends a byte there and back.
func exchange(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	l := perduretest.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		at, err := l.Accept()
		if err != nil {
			return
		}
		defer at.Close()
		s := tls.Server(at, server)
		b := make([]byte, 1)
		if _, err := s.Read(b); err == nil {
			_, _ = s.Write(b)
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), client)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}
