package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/service"
)

// Pages may ask that --ui-origin names, or those of the Web UI of dev: without
// either, there is no page that may.
func TestCodecOrigins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := (codecCommand{Data: dataDir(dir)}).origins(); err == nil || !strings.Contains(err.Error(), "--ui-origin") {
		t.Errorf("beside no dev: %v, %v", got, err)
	}
	useDir(t, dir)
	for _, c := range []struct {
		given []service.WebURL
		ui    string
		want  []service.WebURL
	}{
		{nil, "http://127.0.0.1:8233", []service.WebURL{"http://127.0.0.1:8233", "http://localhost:8233"}},
		{[]service.WebURL{"https://temporal.example.com"}, "http://127.0.0.1:8233", []service.WebURL{"https://temporal.example.com"}},
		{nil, "", nil},
	} {
		perduretest.NoError(t, (devFile{UI: c.ui}).write(dir))
		if got, err := (codecCommand{Data: dataDir(dir), UIOrigin: c.given}).origins(); !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("with %v beside dev's %q: %v, %v, want %v", c.given, c.ui, got, err, c.want)
		}
	}
}

// Of the configuration the codec endpoint reads who callers are: neither secrets
// of backends nor definitions need be there.
func TestCodecNeedsNoBackends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "perdure.yaml")
	write(t, filepath.Join(dir, "tokens.yaml"), "tokens: [{subject: alice, env: ALICE}]\n")
	write(t, file, `incomingAuth: {type: token, tokenFile: tokens.yaml}
authorization: {operators: [{tools: ["*"], groups: [ops]}]}
backends: [{name: be, transport: streamable-http, url: "http://localhost:1/mcp"}]
outgoingAuth: {backends: {be: {type: header_injection, headerInjection: {headerName: X-Key, headerValueEnv: PERDURE_TEST_NOT_SET}}}}
compositeToolRefs: [{name: elsewhere}]
`)
	if _, diags := config.Load(config.Sources{Config: file}); !diags.HasErrors() {
		t.Error("a gateway would start without the secret")
	}
	found, diags := config.Load(config.Sources{Config: file, CallersOnly: true})
	if diags.HasErrors() || len(found.Auth.Policy.Operators) != 1 || !found.Auth.Ruled {
		t.Errorf("callers only: %v, %+v", diags, found.Auth)
	}
}
