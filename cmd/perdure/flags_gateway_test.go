package main

import (
	"net"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/config"
)

// A server that serves everybody listens on this machine alone, unless it is told
// that more is meant.
func TestAttackStrangers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string
		auth    config.Auth
		allowed bool
		refuses bool
	}{
		"every address":       {address: "0.0.0.0:4483", refuses: true},
		"every address, IPv6": {address: "[::]:4483", refuses: true},
		"a network":           {address: "10.1.2.3:4483", refuses: true},
		"as it is meant":      {address: "0.0.0.0:4483", allowed: true},
		"this machine":        {address: "127.0.0.1:4483"},
		"this machine, IPv6":  {address: "[::1]:4483"},
		"tokens":              {address: "0.0.0.0:4483", auth: config.Auth{TokenFile: "tokens"}},
		"an issuer":           {address: "0.0.0.0:4483", auth: config.Auth{OIDC: &config.OIDC{}}},
	} {
		address, err := net.ResolveTCPAddr("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		err = (&gatewayFlags{AllowAnonymous: c.allowed}).refuseStrangers(c.auth, address)
		if (err != nil) != c.refuses || c.refuses && (!strings.Contains(err.Error(), "incomingAuth") || !strings.Contains(err.Error(), "--allow-anonymous")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
