package scaffold

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/config"
	"github.com/perdure/perdure/internal/perduretest"
)

func unset(string) (string, bool) { return "", false }

func readSet(t *testing.T) *Set {
	t.Helper()
	set, diags := Read([]string{"testdata/mcp.json", "testdata/vmcp.yaml"})
	if len(diags) != 1 || !strings.Contains(diags[0].Message, `"off" is disabled`) {
		t.Fatal(diags)
	}
	return set
}

// TestConfigurationOfServers writes a configuration of what others have, and loads it
// with the secrets in the environment: then it says what the files said.
func TestConfigurationOfServers(t *testing.T) {
	t.Parallel()
	set := readSet(t)
	text := set.Configuration("our team", []Proposal{
		{Backend: "files", Tool: "write: it", Class: definitions.Unsafe, Reason: "its name says write"},
		{Backend: "files", Tool: "read_file", Class: definitions.Read, Reason: "annotation readOnlyHint"},
		{Backend: "git-hub", Tool: "pay", Class: definitions.Keyed, KeyArgument: "idempotency_key", Reason: "it takes idempotency_key"},
	}, map[string]string{"db": "refused"})
	var missing strings.Builder
	for _, v := range set.Missing(unset) {
		fmt.Fprintf(&missing, "# %s: %s\n", v.Name, v.Where)
	}
	perduretest.Golden(t, "testdata/perdure.yaml", text+"\n# Notes: "+strings.Join(set.Notes, "; ")+"\n"+missing.String())
	if i := strings.Index(text+missing.String(), "secret1"); i >= 0 || strings.Contains(text, "hunter2") {
		t.Error("a secret is written")
	}
	for n := 1; n <= 9; n++ {
		if strings.Contains(text, fmt.Sprintf("secret%d", n)) {
			t.Errorf("secret%d is written", n)
		}
	}

	found, diags := config.Load(config.Sources{Config: "perdure.yaml", Text: []byte(text), Env: set.Env(func(name string) (string, bool) { return "env-" + name, true })})
	if diags != nil {
		t.Fatal(diags)
	}
	byName := map[string]backends.Config{}
	for _, b := range found.Backends {
		byName[b.Name] = b
	}
	if diff := cmp.Diff([]string{"postgresql://ada:hunter2@db.example.com/shop", "--api-key", "secret2", "--token=secret3", "ghp_secret4"}, byName["db"].Args); diff != "" {
		t.Errorf("arguments of db (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"GITHUB_TOKEN": "ghp_secret1", "LOG_LEVEL": "debug", "TOKEN_OF_TEAM": "env-TEAM_TOKEN", "TEAM": "env-TEAM"}, byName["git-hub"].Env); diff != "" {
		t.Errorf("variables of git-hub (-want +got)\n%s", diff)
	}
	if other := byName["other"].Env["GITHUB_TOKEN"]; other != "secret8" {
		t.Errorf("other gets %q", other)
	}
	shop := byName["shop"]
	for name, want := range map[string]string{"Authorization": "Bearer secret6", "X-Tenant": "acme", "X-Api-Key": "secret7"} {
		if got := string(shop.Headers[name]); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if shop.URL != "https://shop.example.com/mcp?api_key=secret5&page=1" {
		t.Errorf("the URL is %s", shop.URL)
	}
	if env := found.Outgoing["jira"].Header.Value.Env; env != "JIRA_HEADERVALUE" {
		t.Errorf("the header of jira is in %s", env)
	}
}

func TestPropose(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for _, test := range []struct {
		name  string
		hints backends.Annotations
		args  string
		want  string
	}{
		{"get_issue", backends.Annotations{}, "id", "read: its name says get"},
		{"issues.list", backends.Annotations{}, "", "read: its name says list"},
		{"listIssues", backends.Annotations{}, "", "read: its name says list"},
		{"GetIssue", backends.Annotations{}, "", "read: its name says get"},
		{"query", backends.Annotations{}, "sql", "unsafe: argument sql may do anything"},
		{"delete_issue", backends.Annotations{}, "id", "unsafe: its name says delete"},
		{"delete_issue", backends.Annotations{ReadOnlyHint: &yes}, "id", "unsafe: annotated as read-only, but its name says delete"},
		{"frobnicate", backends.Annotations{}, "", "unsafe: nothing says that it only reads"},
		{"frobnicate", backends.Annotations{ReadOnlyHint: &yes}, "", "read: annotation readOnlyHint"},
		{"get_and_lock", backends.Annotations{ReadOnlyHint: &no}, "", "unsafe: annotated as writing"},
		{"get_lock", backends.Annotations{DestructiveHint: &yes}, "", "unsafe: annotation destructiveHint"},
		{"put_file", backends.Annotations{IdempotentHint: &yes}, "path", "idempotent: annotation idempotentHint"},
		{"pay", backends.Annotations{}, "Idempotency_Key", "keyed: it takes Idempotency_Key"},
		{"approve_request", backends.Annotations{}, "request_id", "unsafe: its name says approve"},
		{"", backends.Annotations{}, "", "unsafe: nothing says that it only reads"},
	} {
		schema := json.RawMessage(fmt.Sprintf(`{"type": "object", "properties": {%q: {"type": "string"}}}`, test.args))
		p := Propose(backends.Tool{Backend: "be", Original: test.name, Annotations: test.hints, InputSchema: schema})
		if got := string(p.Class) + ": " + p.Reason; got != test.want {
			t.Errorf("%s (%s): %s, want %s", test.name, test.args, got, test.want)
		}
	}
}

// TestExtend adds a server to configurations as people write them: nothing else
// changes.
func TestExtend(t *testing.T) {
	t.Parallel()
	server := Of(&config.Server{Name: "new", Transport: "streamable-http", URL: "http://127.0.0.1:9/mcp"}).Servers[0]
	entry := server.Entry("  ", nil, "")
	shallow := server.Entry("", nil, "")
	for _, test := range []struct{ name, before, want string }{
		{"last key", "# ours\nbackends:\n  - name: a  # first\n    url: http://b\n", "# ours\nbackends:\n  - name: a  # first\n    url: http://b\n" + entry},
		{"no end of line", "backends:\n  - name: a", "backends:\n  - name: a\n" + entry},
		{"before a comment", "backends:\n- name: a\n  # of a\n\n# of c\nc: 1\n", "backends:\n- name: a\n  # of a\n" + shallow + "\n# of c\nc: 1\n"},
		{"block text", "backends:\n  - name: a\n    command: |\n      x\n\nname: n\n", "backends:\n  - name: a\n    command: |\n      x\n" + entry + "\nname: n\n"},
		{"empty list", "name: n\nbackends: []  # none\nc: 1\n", "name: n\nbackends:  # none\n" + entry + "c: 1\n"},
		{"null", "backends:\nc: 1\n", "backends:\n" + entry + "c: 1\n"},
		{"no key", "name: n\n", "name: n\n\nbackends:\n" + entry},
		{"empty file", "", "\nbackends:\n" + entry},
	} {
		got, err := Extend(test.before, server, nil)
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got)\n%s", test.name, err, diff)
		}
	}
	for name, before := range map[string]string{
		"in brackets": "backends: [{name: a}]\n", "in braces": "{name: a}\n", "two documents": "name: a\n---\nname: b\n", "a list": "- a\n",
	} {
		if _, err := Extend(before, server, nil); !errors.Is(err, ErrByHand) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Extend("backends:\n  - name: new\n", server, nil); err == nil {
		t.Error("a backend was added twice")
	}
	if name := Of(&config.Server{Name: "my server"}).Servers[0].Name; name != "my-server" {
		t.Errorf("a server is named %q, and no step can call a tool that begins so", name)
	}
}

// TestCompose composes tools of many shapes. That the result is valid and its test
// passes is checked by the command, and by its tests.
func TestCompose(t *testing.T) {
	t.Parallel()
	tool := func(backend, name, schema string) backends.Tool {
		return backends.Tool{Name: backend + "_" + name, Backend: backend, Original: name, InputSchema: json.RawMessage(schema)}
	}
	tools := []backends.Tool{
		tool("a", "delete", `{"type": "object"}`),
		tool("a", "get-one", `{"type": "object", "properties": {"id": {"type": "integer", "description": "Which, \"quoted\""}, "mode": {"enum": ["error", "fast", "slow"]}}, "required": ["id", "mode"]}`),
		tool("a", "get_env", `{"type": "object"}`),
		tool("b", "search", `{"type": "object", "properties": {"id": {"type": "string"}, "tags": {"type": "array"}}, "required": ["id", "tags"]}`),
	}
	var effects []Proposal
	for _, tool := range tools {
		effects = append(effects, Propose(tool))
	}
	c := Compose(tools, effects)
	perduretest.Golden(t, "testdata/first_look.yaml", c.Definition+"---\n"+c.Test)
	if diff := cmp.Diff([]string{"id", "b_id", "tags"}, c.Required); diff != "" {
		t.Errorf("required (-want +got)\n%s", diff)
	}
	if len(c.Changing) > 0 {
		t.Errorf("%v may change something, and only reads were to be chosen", c.Changing)
	}
	if one := Compose(tools[:1], effects); len(one.Tools) != 1 || !slices.Equal(one.Changing, []string{"a_delete"}) {
		t.Errorf("of one tool: %v, that may change something: %v", one.Tools, one.Changing)
	}
	if none := Compose(nil, nil); none != nil {
		t.Errorf("of no tools: %v", none)
	}
}
