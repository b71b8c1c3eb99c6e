package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/gateway"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/perduretest"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/store"
)

// newPublishing is a world with a registry. Ann may publish and call everything,
// ben may only call what begins with open; others may publish, too.
func newPublishing(t *testing.T, publishers ...auth.Publisher) (*world, *registry.Registry) {
	t.Helper()
	kept := perduretest.Must(store.OpenRegistryFile(filepath.Join(t.TempDir(), "registry.jsonl")))(t)
	t.Cleanup(kept.Close)
	published := registry.New(registry.Options{Store: kept})
	w := newWorld(t, nil, func(o *gateway.Options) {
		o.Registry = published
		everybody := auth.Rule{Grant: auth.Grant{Tools: []string{"open*"}, Groups: []string{"*"}}}
		ann := auth.Grant{Tools: []string{"*"}, Subjects: []string{"user-ann"}}
		o.Policy = &auth.Policy{Rules: []auth.Rule{everybody, {Grant: ann}}, Publishers: append(publishers, auth.Publisher{Grant: ann})}
	})
	published.OnChange(func() {
		var offers []gateway.Offer
		for _, e := range published.Current() {
			offers = append(offers, gateway.Offer{Entry: e})
		}
		if e, err := published.Resolve(refTo("open", "1")); err == nil {
			offers = append(offers, gateway.Offer{Entry: e, As: "first_open"})
		}
		w.gateway.SetOffers(offers)
	})
	return w, published
}

// request asks the registry of the gateway and gives the status and the body.
func (w *world) request(method, path, caller string, body any, header ...string) (int, string) {
	w.Helper()
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			w.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(w.Context(), method, strings.TrimSuffix(w.url, "/mcp")+gateway.RegistryPrefix+path, &text)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("X-Caller", caller)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// files asks for a definition to be published.
func files(name, version, description string) registry.Request {
	return registry.Request{Files: []registry.File{{Name: name + ".yaml", Text: fmt.Sprintf(
		"name: %s\nversion: %s\ndescription: %s\nsteps: [{id: a, tool: be_echo}]\n", name, version, description)}}}
}

func (w *world) mustPublish(name, version, description string) {
	w.Helper()
	if code, body := w.request("POST", "publish", "ann", files(name, version, description)); code != http.StatusOK || strings.Contains(body, `"severity":"error"`) {
		w.Fatalf("publishing %s %s: %d %s", name, version, code, body)
	}
}

func TestWhoMayPublish(t *testing.T) {
	t.Parallel()
	w, published := newPublishing(t)
	w.mustPublish("open", "1.0.0", "for all")
	w.mustPublish("closed", "1.0.0", "for ann")
	before := len(published.Versions(""))
	tests := []struct {
		what, method, path, caller string
		body                       any
		header                     []string
		code                       int
		says                       string
	}{
		{"nobody", "POST", "publish", "nobody", files("open", "1.1.0", "d"), nil, 401, ""},
		{"nobody reads", "GET", "versions", "nobody", nil, nil, 401, ""},
		{"who may only call", "POST", "publish", "ben", files("open", "1.1.0", "d"), nil, 200, "you may not publish open"},
		{"a page of another site", "POST", "publish", "ann", files("open", "1.1.0", "d"), []string{"Origin", "https://evil.example"}, 403, "origin"},
		{"a form of another site", "POST", "publish", "ann", files("open", "1.1.0", "d"), []string{"Content-Type", "text/plain"}, 415, "application/json"},
		{"a field that is none", "POST", "publish", "ann", map[string]any{"file": 1}, nil, 400, "invalid request"},
		{"deprecate what one may call", "POST", "deprecate", "ben", gateway.Deprecation{Reference: "open", Reason: "x"}, nil, 403, "you may not deprecate"},
		{"deprecate what one may not see", "POST", "deprecate", "ben", gateway.Deprecation{Reference: "closed", Reason: "x"}, nil, 404, "composite tool closed not found"},
		{"deprecate what is not there", "POST", "deprecate", "ann", gateway.Deprecation{Reference: "open@7", Reason: "x"}, nil, 404, "open has no version 7"},
		{"deprecate nonsense", "POST", "deprecate", "ann", gateway.Deprecation{Reference: "open@x y"}, nil, 400, "no version"},
		{"read what one may call", "GET", "definition?reference=open@1", "ben", nil, nil, 200, `"source":`},
		{"read what one may not see", "GET", "definition?reference=closed", "ben", nil, nil, 404, "composite tool closed not found"},
		{"read by a misspelt name", "GET", "definition?reference=opne", "ben", nil, nil, 404, `composite tool opne not found (did you mean \"open\"?)`},
		{"deprecate by a misspelt name", "POST", "deprecate", "ann", gateway.Deprecation{Reference: "closd@1"}, nil, 404, `composite tool closd not found (did you mean \"closed\"?)`},
		{"a misspelt name of what one may not see", "GET", "definition?reference=closd", "ben", nil, nil, 404, `composite tool closd not found"}`},
		{"that also by a version", "GET", "definition?reference=closed@9", "ben", nil, nil, 404, "composite tool closed not found"},
		{"a limit that is none", "GET", "history?limit=0", "ann", nil, nil, 400, "limit"},
		{"by no digest", "GET", "definition?digest=sha256:00000000", "ann", nil, nil, 404, "not found"},
		{"by too little of a digest", "GET", "definition?digest=sha256:0", "ann", nil, nil, 400, "at least 8 digits"},
		{"a path that is none", "GET", "else", "ann", nil, nil, 404, ""},
		{"publishing by GET", "GET", "publish", "ann", nil, nil, 405, ""},
	}
	for _, tt := range tests {
		if code, body := w.request(tt.method, tt.path, tt.caller, tt.body, tt.header...); code != tt.code || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s; want %d with %q", tt.what, code, body, tt.code, tt.says)
		}
	}
	if n := len(published.Versions("")); n != before {
		t.Errorf("%d versions were published", n-before)
	}
	for _, path := range []string{"versions", "history", "drift"} {
		if code, body := w.request("GET", path, "ben", nil); code != http.StatusOK || strings.Contains(body, "closed") {
			t.Errorf("ben reads %s: %d %s", path, code, body)
		}
	}
	if _, body := w.request("GET", "history", "ann", nil); !strings.Contains(body, `"by":"user-ann"`) || !strings.Contains(body, "closed") {
		t.Errorf("ann reads the history %s", body)
	}
}

// Without a registry of its own, a server reports what it lacks.
func TestPublishWithoutARegistry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, func(o *gateway.Options) {
		o.Registry = registry.New(registry.Options{})
		o.Policy = &auth.Policy{Publishers: []auth.Publisher{{Grant: auth.Grant{Tools: []string{"*"}, Groups: []string{"*"}}}}}
	})
	code, body := w.request("POST", "publish", "ann", files("open", "1.0.0", "d"))
	if code != http.StatusNotImplemented || !strings.Contains(body, "--database") {
		t.Errorf("the answer is %d %s", code, body)
	}
}

// A version that is not offered to somebody is not named to them either.
func TestVersionsOfOthersAreNotNamed(t *testing.T) {
	t.Parallel()
	w, _ := newPublishing(t)
	w.mustPublish("open", "1.0.0", "for all")
	w.mustPublish("open", "3.0.0", "for all")
	w.mustPublish("open", "2.0.0", "for ann\nexpose: {subjects: [user-ann]}")
	w.mustPublish("openly", "2.0.0", "for ann\nexpose: {subjects: [user-ann]}")
	for caller, says := range map[string]string{"ann": "known versions: 3.0.0, 2.0.0, 1.0.0", "ben": "known versions: 3.0.0, 1.0.0"} {
		if _, body := w.request("GET", "definition?reference=open@9", caller, nil); !strings.Contains(body, says) {
			t.Errorf("%s reads %s", caller, body)
		}
		m := connect(t, w.url, caller, "2025-11-25", `{}`).call("1", "open", `{}`, `{"perdure/version":"9"}`).result(true)
		if !strings.Contains(m.text(), says) {
			t.Errorf("%s calls, and is told %s", caller, m.text())
		}
	}
	if code, body := w.request("GET", "definition?reference=openly@9", "ben", nil); code != http.StatusNotFound || !strings.Contains(body, "composite tool openly not found") {
		t.Errorf("ben reads what is for ann: %d %s", code, body)
	}
}

// A version that is a tool of its own is called like one, by the right to call
// what it is a version of.
func TestVersionAsATool(t *testing.T) {
	t.Parallel()
	w, _ := newPublishing(t)
	w.mustPublish("open", "1.0.0", "the first")
	w.mustPublish("open", "2.0.0", "the second")
	tools := listed(t, w)
	var have []string
	for name, text := range tools {
		if strings.Contains(name, "open") {
			have = append(have, name+" "+map[bool]string{true: "first", false: "second"}[strings.Contains(text, "the first")])
		}
	}
	slices.Sort(have)
	if got := strings.Join(have, ", "); got != "first_open first, open second" {
		t.Errorf("listed are %s", got)
	}
	if code, body := w.request("POST", "publish", "ann", files("first_open", "1.0.0", "d")); code != http.StatusOK || !strings.Contains(body, "version 1.0.0 of open is offered under the name") {
		t.Errorf("its name is given to another one: %d %s", code, body)
	}
	if code, body := w.request("POST", "deprecate", "ann", gateway.Deprecation{Reference: "open", Reason: "use shut"}); code != http.StatusOK {
		t.Fatalf("deprecating: %d %s", code, body)
	}
	if text := listed(t, w)["open"]; !strings.Contains(text, `Deprecated: use shut`) {
		t.Errorf("the deprecated tool is listed as %s", text)
	}
}

// Permission to publish one tool does not let a caller take the name of another.
func TestNameOfferedIsTaken(t *testing.T) {
	t.Parallel()
	w, _ := newPublishing(t)
	w.mustPublish("open", "1.0.0", "d")
	for as, want := range map[string]string{"open": "open is offered under the name open", "be_echo": "has the name be_echo", "perdure_run_list": "reserved", "free": ""} {
		text := "{name: another, version: 1.0.0, description: d, expose: {as: " + as + "}, steps: [{id: a, tool: be_echo}]}"
		_, body := w.request("POST", "publish", "ann", map[string]any{"dryRun": true, "files": []any{map[string]any{"name": "f.yaml", "text": text}}})
		if !strings.Contains(body, want) || strings.Contains(body, `"severity":"error"`) != (want != "") {
			t.Errorf("as %s: %s", as, body)
		}
	}
}

// A caller who may not publish a name cannot take it by offering another tool under it.
func TestNameOfOthersIsNotReserved(t *testing.T) {
	t.Parallel()
	w, _ := newPublishing(t, auth.Publisher{Grant: auth.Grant{Tools: []string{"mine*"}, Subjects: []string{"user-ben"}}, Uses: []string{"be_*"}})
	for as, refused := range map[string]bool{"mine_too": false, "theirs": true} {
		text := "{name: mine, version: 1.0.0, description: d, expose: {as: " + as + "}, steps: [{id: a, tool: be_echo}]}"
		_, body := w.request("POST", "publish", "ben", map[string]any{"dryRun": true, "files": []any{map[string]any{"name": "f.yaml", "text": text}}})
		if strings.Contains(body, "you may not publish "+as) != refused || strings.Contains(body, `"severity":"error"`) != refused {
			t.Errorf("as %s: %s", as, body)
		}
	}
}
