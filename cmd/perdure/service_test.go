package main

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
)

// TestWarnOfStrangers says when anybody may call who reaches the server.
func TestWarnOfStrangers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string
		auth    authSettings
		worker  bool
		warns   bool
	}{
		"every address":       {address: "0.0.0.0:4483", warns: true},
		"every address, IPv6": {address: "[::]:4483", warns: true},
		"a network":           {address: "10.1.2.3:4483", warns: true},
		"this machine":        {address: "127.0.0.1:4483"},
		"this machine, IPv6":  {address: "[::1]:4483"},
		"tokens":              {address: "0.0.0.0:4483", auth: authSettings{TokenFile: "tokens"}},
		"an issuer":           {address: "0.0.0.0:4483", auth: authSettings{OIDC: &loginOIDC{}}},
		"a worker":            {address: "0.0.0.0:4484", worker: true},
	} {
		var log bytes.Buffer
		s := &service{opts: serviceOptions{Loaded: &loaded{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}, gateway: &gateway.Gateway{}}
		s.opts.Loaded.Auth = c.auth
		if c.worker {
			s.gateway = nil
		}
		address, err := net.ResolveTCPAddr("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		s.warnOfStrangers(address)
		if got := strings.Contains(log.String(), "incomingAuth"); got != c.warns {
			t.Errorf("%s: the log says %q", name, log.String())
		}
	}
}
