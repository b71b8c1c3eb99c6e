package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/web"
)

// Pages may ask that --ui-origin names, or those of the Web UI of dev: without
// either, there is no page that may.
func TestCodecOrigins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got, err := (codecCommand{Data: dataDir(dir)}).origins(); err == nil || !strings.Contains(err.Error(), "--ui-origin") {
		t.Errorf("beside no dev: %v, %v", got, err)
	}
	for _, c := range []struct {
		given []webURL
		ui    string
		want  []webURL
	}{
		{nil, "http://127.0.0.1:8233", []webURL{"http://127.0.0.1:8233", "http://localhost:8233"}},
		{[]webURL{"https://temporal.example.com"}, "http://127.0.0.1:8233", []webURL{"https://temporal.example.com"}},
		{nil, "", nil},
	} {
		if err := (devFile{UI: c.ui}).write(dir); err != nil {
			t.Fatal(err)
		}
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
	config := filepath.Join(dir, "perdure.yaml")
	write(t, filepath.Join(dir, "tokens.yaml"), "tokens: [{subject: alice, env: ALICE}]\n")
	write(t, config, `incomingAuth: {type: token, tokenFile: tokens.yaml}
authorization: {operators: [{tools: ["*"], groups: [ops]}]}
backends: [{name: be, transport: streamable-http, url: "http://localhost:1/mcp"}]
outgoingAuth: {backends: {be: {type: header_injection, headerInjection: {headerName: X-Key, headerValueEnv: PERDURE_TEST_NOT_SET}}}}
compositeToolRefs: [{name: elsewhere}]
`)
	if _, diags := load(sources{Config: config}); !diags.HasErrors() {
		t.Error("a gateway would start without the secret")
	}
	found, diags := load(sources{Config: config, CallersOnly: true})
	if diags.HasErrors() || len(found.Auth.Policy.Operators) != 1 || !found.Auth.Ruled {
		t.Errorf("callers only: %v, %+v", diags, found.Auth)
	}
}

// A request that finds no room is told to come back, and not begun.
func TestCodecIsBounded(t *testing.T) {
	t.Parallel()
	bodies := web.NewBodies(4<<20, 10*time.Millisecond)
	server := &codecServer{callers: auth.Everybody{}, policy: &auth.Policy{}, bodies: bodies}
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		server.handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/decode", strings.NewReader(`{"payloads":[{"data":"`+strings.Repeat("eHh4", 1<<19)+`"}]}`)))
		return answer
	}
	free, err := bodies.Work(t.Context(), web.Caller("", httptest.NewRequest(http.MethodPost, "/decode", nil)), 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("without room it is answered %d, %v", got.Code, got.Header())
	}
	free()
	if got := ask(); got.Code != http.StatusOK {
		t.Errorf("with room it is answered %d: %s", got.Code, got.Body)
	}
}
