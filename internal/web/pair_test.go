package web_test

import (
	"crypto/tls"
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
