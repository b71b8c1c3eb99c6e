package service

import (
	"log/slog"
	"testing"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

// TestAttackReloadBesideARestart: what is written for a way of authentication, or for a
// server, that holds after a restart only, does not hold for the one of before.
func TestAttackReloadBesideARestart(t *testing.T) {
	t.Parallel()
	everybody := func(tool string) auth.Policy {
		return auth.Policy{Rules: []auth.Rule{{Grant: auth.Grant{Tools: []string{tool}, Groups: []string{"*"}}}}}
	}
	settings := func(tokens, url, tool string, class backends.EffectRule) *config.Loaded {
		return &config.Loaded{Settings: config.Settings{
			Auth:     config.Auth{TokenFile: tokens, Policy: everybody(tool), Ruled: true},
			Backends: []backends.Config{{Name: "be", Transport: backends.StreamableHTTP, URL: url, Effects: []backends.EffectRule{class}}},
		}}
	}
	read, unsafe := backends.EffectRule{Tool: "*", Class: "read"}, backends.EffectRule{Tool: "*", Class: "unsafe"}
	first := settings("", "http://127.0.0.1:1/mcp", "get", unsafe)
	common := perduretest.Must(newShared(Options{Loaded: first, Logger: slog.New(slog.DiscardHandler)}))(t)
	s, running := &Service{shared: common}, withoutReloaded(first.Settings)
	first.Auth.Policy.Exchangeable()
	may := func(tool string) bool {
		return first.Auth.Policy.May(auth.Identity{Subject: auth.Anonymous}, auth.Call, auth.Object{Tool: tool})
	}
	reload := func(found *config.Loaded) {
		t.Helper()
		perduretest.NoError(t, s.reconfigure(found, running))
	}

	reload(settings("tokens.yaml", "http://127.0.0.1:1/mcp", "delete", unsafe))
	if may("delete") || !may("get") {
		t.Error("rules for callers with tokens hold for callers without")
	}
	reload(settings("", "http://127.0.0.1:1/mcp", "delete", unsafe))
	if !may("delete") || may("get") {
		t.Error("rules for the callers of now do not hold")
	}

	moved := settings("", "http://127.0.0.1:2/mcp", "delete", read)
	if same := unchanged(moved.Backends, running, withoutReloaded(moved.Settings)); same != nil {
		t.Errorf("effects of another server hold: %v", same)
	}
	same := settings("", "http://127.0.0.1:1/mcp", "delete", read)
	if kept := unchanged(same.Backends, running, withoutReloaded(same.Settings)); len(kept) != 1 || kept[0].Effects[0].Class != "read" {
		t.Errorf("effects of the same server do not hold: %v", kept)
	}
}
