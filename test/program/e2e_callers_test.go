package program_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// callersConfiguration lets developers call some tools, and no write but by a
// composite tool that has the right to it.
const callersConfiguration = `incomingAuth:
  type: oidc
  oidc: {issuer: %q, clientId: perdure, audience: %q, scopes: ["mcp:call"]}
authorization:
  rules:
    - {tools: [careful, promote, ask, kept, be_read], groups: [dev]}
    - {tools: [be_write], composites: [promote]}
  operators:
    - {tools: ["*"], groups: [ops]}
compositeTools:
  - name: careful
    description: Reads, and writes if it is told to.
    parameters: {type: object, properties: {really: {type: boolean, default: false}}}
    steps:
      - {id: look, tool: be_read}
      - {id: write, tool: be_write, condition: '{{.params.really}}', dependsOn: [look]}
  - name: promote
    description: Writes.
    runAs: composite
    steps: [{id: write, tool: be_write}]
  - name: kept
    description: For others than those who may call it by the rules.
    expose: {groups: [nobody]}
    steps: [{id: look, tool: be_read}]
  - name: inner
    description: What only steps call.
    expose: {hidden: true, callers: [ask]}
    steps: [{id: look, tool: be_read}]
  - name: ask
    description: Asks.
    steps: [{id: gate, type: elicitation, message: Go?, schema: {type: object}, timeout: 1h}]
`

// TestCallers: two callers of one identity provider, in different groups, and
// a third that is in the group of the first.
func TestCallers(t *testing.T) {
	t.Parallel()
	issuer := perduretest.NewIssuer(t)
	fakes := serveFakes(t, map[string]fakeTool{
		"be_read": structuredAnswer(`{"text":"read"}`), "be_write": structuredAnswer(`{"text":"written"}`),
	})
	dir := t.TempDir()
	d := newDev(t, dir, "--config", "perdure.yaml", "--log-level", "debug")
	write(t, filepath.Join(dir, "perdure.yaml"), fmt.Sprintf(callersConfiguration, issuer.URL, d.url())+fakes.configuration("[{tool: read, class: read}]"))
	groups := map[string][]string{"alice": {"dev"}, "carol": {"dev"}, "olga": {"ops"}}
	tokens := map[string]string{}
	for name, in := range groups {
		tokens[name] = issuer.Token(name, d.url(), perduretest.Claims{"groups": in, "scope": "mcp:call"})
		write(t, filepath.Join(dir, name), tokens[name]+"\n")
	}
	d.start()
	by := func(name string, args ...string) []string { return slices.Concat(args, []string{"--token-file", name}) }

	status, challenge, body := ask(t, d.url(), http.MethodPost, "")
	if status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, body)
	}
	at := regexp.MustCompile(`resource_metadata="([^"]+)"`).FindStringSubmatch(challenge)
	if at == nil || !strings.Contains(challenge, `scope="mcp:call"`) {
		t.Fatalf("WWW-Authenticate: %s", challenge)
	}
	var metadata struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if status, _, body = ask(t, at[1], http.MethodGet, ""); status != http.StatusOK || json.Unmarshal([]byte(body), &metadata) != nil ||
		metadata.Resource != d.url() || !slices.Equal(metadata.Servers, []string{issuer.URL}) {
		t.Errorf("%s: %d %s", at[1], status, body)
	}
	unscoped := issuer.Token("alice", d.url(), nil)
	if status, challenge, _ = ask(t, d.url(), http.MethodPost, unscoped); status != http.StatusForbidden || !strings.Contains(challenge, "insufficient_scope") {
		t.Errorf("without the scope: %d %s", status, challenge)
	}
	verbose := "http://" + d.address + "/readyz?verbose"
	if status, _, body = ask(t, verbose, http.MethodGet, ""); status != http.StatusUnauthorized || strings.Contains(body, "be_write") {
		t.Errorf("%s without a token: %d %s", verbose, status, body)
	}
	if status, _, body = ask(t, verbose, http.MethodGet, tokens["olga"]); status != http.StatusOK || !strings.Contains(body, "be_write") {
		t.Errorf("%s with a token: %d %s", verbose, status, body)
	}
	if status, _, body = ask(t, verbose, http.MethodGet, tokens["alice"]); status != http.StatusOK || !strings.Contains(body, "be_read") || strings.Contains(body, "be_write") {
		t.Errorf("%s tells who may not call everything: %d %s", verbose, status, body)
	}

	if _, told, err := d.try(t, "tools"); err == nil || !strings.Contains(told, "PERDURE_TOKEN") {
		t.Errorf("perdure tools without a token: %v %s", err, told)
	}
	for name, tools := range map[string][]string{
		"alice": {"ask", "be_read", "careful", "perdure_run_await", "perdure_run_cancel", "perdure_run_list", "promote"},
		"olga":  {"perdure_run_await", "perdure_run_cancel", "perdure_run_list"},
	} {
		var listed []string
		for line := range strings.Lines(d.run(t, by(name, "tools")...)) {
			listed = append(listed, strings.Fields(line)[0])
		}
		if !slices.Equal(listed, tools) {
			t.Errorf("%s is listed %v", name, listed)
		}
	}
	if out := d.run(t, by("alice", "definitions")...); !regexp.MustCompile(`promote .*available; calls tools in its own right`).MatchString(out) {
		t.Errorf("perdure definitions:\n%s", out)
	}
	for name, want := range map[string][]string{"alice": {"careful", "promote", "ask"}, "olga": {"careful", "promote", "kept", "inner", "ask"}} {
		var known []string
		for line := range strings.Lines(d.run(t, by(name, "definitions")...)) {
			known = append(known, strings.Fields(line)[0])
		}
		if !slices.Equal(known, want) {
			t.Errorf("%s is told of the composite tools %v", name, known)
		}
	}

	d.run(t, by("alice", "validate", "--config", "perdure.yaml", "--against", d.url())...)
	if _, told, err := d.try(t, "validate", "--config", "perdure.yaml", "--against", d.url()); err == nil || !strings.Contains(told, "PERDURE_TOKEN") {
		t.Errorf("perdure validate --against without a token: %v %s", err, told)
	}

	if _, told, err := d.try(t, by("olga", "call", "promote")...); err == nil || !strings.Contains(told, `tool "promote" not found`) {
		t.Errorf("olga calls promote: %v %s", err, told)
	}
	d.run(t, by("alice", "call", "careful")...)
	_, told, err := d.try(t, by("alice", "call", "careful", "really=true")...)
	if err == nil || !strings.Contains(told, "be_write was not called: the caller of the run may not call it") {
		t.Errorf("a step without the right to its tool: %v %s", err, told)
	}
	if n := fakes.count("be_write", ""); n != 0 {
		t.Errorf("be_write was called %d times by a caller who may not", n)
	}
	if out := d.run(t, by("alice", "call", "promote")...); !strings.Contains(out, "written") || fakes.count("be_write", "") != 1 {
		t.Errorf("promote gives %s", out)
	}

	ended := make(chan string, 1)
	go func() {
		_, told, _ := d.try(t, by("alice", "call", "ask")...)
		ended <- told
	}()
	run := d.onlyRun(t, "ask", "waiting")
	if list := d.run(t, "runs", "list", "--tool", "ask"); !strings.Contains(list, issuer.URL+"#alice") {
		t.Errorf("the caller is not in\n%s", list)
	}
	for _, tool := range []string{"perdure_run_await", "perdure_run_cancel"} {
		if _, told, err := d.try(t, by("carol", "call", tool, "runId="+run)...); err == nil || !strings.Contains(told, "no such run") {
			t.Errorf("carol, of alice's run: %s: %v %s", tool, err, told)
		}
	}
	if out := d.run(t, by("carol", "call", "perdure_run_list")...); strings.Contains(out, run) {
		t.Errorf("carol sees alice's run: %s", out)
	}
	d.run(t, by("olga", "call", "perdure_run_cancel", "runId="+run)...)
	d.onlyRun(t, "ask", "cancelled")
	if told := receive(t, ended, "alice's call to end"); !strings.Contains(told, "cancelled") {
		t.Errorf("alice is told %s", told)
	}
}

// ask sends an empty request.
func ask(t *testing.T, url, method, token string) (status int, challenge, body string) {
	t.Helper()
	request := perduretest.Must(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response := perduretest.Must(http.DefaultClient.Do(request))(t)
	defer response.Body.Close()
	text := perduretest.Must(io.ReadAll(response.Body))(t)
	return response.StatusCode, response.Header.Get("WWW-Authenticate"), string(text)
}
