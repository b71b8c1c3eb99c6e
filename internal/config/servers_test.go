package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/perdure/perdure/internal/perduretest"
)

// TestServerFiles finds files that list MCP servers, and leaves others with such keys.
func TestServerFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	codex, dir := t.TempDir(), t.TempDir()
	t.Setenv("CODEX_HOME", codex)
	if err := os.WriteFile(filepath.Join(codex, "config.toml"), []byte("[mcp_servers.a]\ncommand = \"a\""), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".zed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".zed/settings.json": `{"context_servers": {"a": {"command": "a"}},}`,
		".mcp.json":          `{"mcpServers": {"a": {"command": "a"}}} // ours`,
		"vmcp.yaml":          "backends: [{name: a, url: http://a/mcp}]",
		"group.yaml":         "kind: VirtualMCPServer\nspec: {groupRef: {name: g}, config: {}}",
		"librechat.yaml":     "version: 1.3.1\nmcpServers: {a: {command: a}}",
		"openapi.yaml":       "openapi: 3.1.0\nservers: [{url: https://example.com}]",
		"asyncapi.yml":       "servers: {production: {url: kafka://example.com, protocol: kafka}}",
		"proxy.yaml":         "backends: {a: {url: http://a}}",
		"empty.yaml":         "",
		"broken.yaml":        "a: [",
		"templated.yaml":     "backends: {{ .Values.backends }}",
	} {
		perduretest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if got, want := ServerFiles(dir), []string{filepath.Join(dir, ".mcp.json"), filepath.Join(dir, ".zed", "settings.json"), filepath.Join(dir, "group.yaml"), filepath.Join(dir, "librechat.yaml"), filepath.Join(dir, "vmcp.yaml"), filepath.Join(codex, "config.toml")}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// TestServersOfOtherClients reads what other clients call otherwise.
func TestServersOfOtherClients(t *testing.T) {
	t.Parallel()
	dir, here := t.TempDir(), perduretest.Must(os.Getwd())(t)
	for name, tc := range map[string]struct{ text, want, says string }{
		"claude.json": {
			`{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}, "projects": {"/other": {"mcpServers": {"c": {"command": "c"}}}, "` + here + `": {"mcpServers": {"b": {"command": "own"}}}}}`,
			"b:  own []; a:  a []", "",
		},
		"zed.json": {
			`{"context_servers": {"a": {"source": "custom", "command": "a", "args": ["b"]}, "github": {"settings": {"token": "x"}}}}`,
			"a:  a [b]", `"github" is part of the client`,
		},
		"zed_before.json": {`{"context_servers": {"a": {"command": {"path": "a", "args": ["b"], "env": {}}}}}`, "a:  a [b]", ""},
		"continue.yaml": {
			"name: x\nmcpServers:\n  - name: a\n    type: streamable-http\n    url: http://a/mcp\n    requestOptions: {headers: {X: '${{ secrets.KEY }}'}}\n",
			"a: http://a/mcp  [] map[X:${env:KEY}]", "",
		},
		"continue_remote.json": {`{"mcpServers": [{"name": "a", "type": "streamable-http", "url": "http://a/mcp"}]}`, "a: http://a/mcp  []", ""},
		"gemini.json":          {`{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {"httpUrl": "http://a/mcp", "headers": {"K": "Bearer $A_KEY"}, "includeTools": ["t"]}}}`, "a: http://a/mcp  [] map[K:Bearer ${env:A_KEY}]", "includeTools is not read: list the tools"},
		"windsurf.json":        {`{"mcpServers": {"a": {"serverUrl": "http://a/mcp", "disabledTools": ["t"]}}}`, "a: http://a/mcp  []", "disabledTools is not read"},
		"goose.yaml": {
			"GOOSE_MODEL: x\nextensions:\n  memory: {type: builtin, enabled: true}\n  a: {type: stdio, cmd: a, args: [b], envs: {}, env_keys: [K], available_tools: []}\n  r: {type: streamable_http, uri: http://a/mcp}\n",
			"a:  a [b] [K]; r: http://a/mcp  []", `"memory" is part of the client`,
		},
		"librechat.yaml": {
			"version: 1.3.1\nmcpServers:\n  s: {url: http://s/sse}\n  a: {url: http://a/mcp, headers: {K: '${A_KEY}'}, customUserVars: {K: {title: k}}}\n",
			"s: http://s/sse  [] sse; a: http://a/mcp  [] map[K:${env:A_KEY}]", "customUserVars is not read",
		},
		"librechat_user.yaml": {"mcpServers: {a: {url: http://a/mcp, headers: {U: '{{LIBRECHAT_USER_ID}}'}}}", "a: http://a/mcp  [] map[U:{{LIBRECHAT_USER_ID}}]", `{{LIBRECHAT_USER_ID}} of "a" is for its client to fill in`},
		"opencode.json":       {`{"mcp": {"a": {"type": "remote", "url": "http://a/mcp", "headers": {"K": "{env:A_KEY}"}}}}`, "a: http://a/mcp  [] map[K:${env:A_KEY}]", ""},
		"opencode_2.json":     {`{"mcp": {"servers": {"a": {"type": "local", "command": ["a", "b"]}}}}`, "a:  a [b]", ""},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		servers, diags := ReadServers(file)
		var got []string
		for _, s := range servers {
			text := fmt.Sprint(s.Name, ": ", s.URL, " ", s.Command, " ", s.Args)
			if s.Transport == "sse" {
				text += " sse"
			}
			if len(s.PassEnv) > 0 {
				text += fmt.Sprint(" ", s.PassEnv)
			}
			if len(s.Headers) > 0 {
				text += fmt.Sprint(" ", s.Headers)
			}
			got = append(got, text)
		}
		if all := strings.Join(got, "; "); all != tc.want || !strings.Contains(fmt.Sprint(diags), tc.says) || diags.HasErrors() || len(diags) > 0 && tc.says == "" {
			t.Errorf("%s: %q, want %q; it says %v, want %s", name, all, tc.want, diags, tc.says)
		}
	}
}

// TestReferredSecrets notes the values of variables in what may be shown of a backend.
func TestReferredSecrets(t *testing.T) {
	t.Parallel()
	text := `backends: [{name: a, command: "${env:A}", args: ["--x=${env:B}", "${env:C:-other}"], env: {E: "${env:D}"}}]`
	found, diags := Load(Sources{Config: "perdure.yaml", Text: []byte(text), Env: func(name string) (string, bool) { return "value-" + name, name != "C" }})
	if diags != nil {
		t.Fatal(diags)
	}
	var got []string
	for _, secret := range found.Backends[0].Secrets {
		got = append(got, string(secret))
	}
	if want := []string{"value-A", "value-B"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestServersOfConfigurations says what is not taken over of a configuration, and what a
// file of ToolHive lacks.
func TestServersOfConfigurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"name: a\nbackends: [{name: a, url: http://a/mcp}]":                                                             "",
		"backends: [{name: a, url: http://a/mcp}]\ncompositeTools: []\nincomingAuth: {type: anonymous}":                 "1:1: warning: only backends are taken over, not compositeTools, incomingAuth; perdure dev --config FILE serves all of it [config]",
		"kind: VirtualMCPServer\nspec: {groupRef: {name: g}}":                                                           "1:1: warning: has no backends, which ToolHive finds by group: list them in spec.config.backends; perdure dev --config FILE serves the file then [backends]",
		"kind: VirtualMCPServer\nspec: {config: {backends: [{name: a, url: http://a/mcp}], aggregation: {}, group: g}}": "2:16: warning: only backends are taken over, not aggregation; perdure dev --config FILE serves all of it [config]",
		"other: 1": "lists no servers: no mcpServers, servers or backends [config]",
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, diags := ReadServers(file)
		var got strings.Builder
		for _, d := range diags {
			got.WriteString(strings.ReplaceAll(strings.TrimLeft(strings.TrimPrefix(d.String(), file), ": "), file, "FILE"))
		}
		if got.String() != want {
			t.Errorf("%s\ngives %s\nwant  %s", text, got.String(), want)
		}
	}
}

// TestServersOfCodex takes the servers over that Codex lists in its TOML, and says where
// a mistake is.
func TestServersOfCodex(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.toml")
	write := func(text string) {
		perduretest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(`
model = "gpt-5"
[projects."/work"]
trust_level = "trusted"
[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-server"]
env = { LEVEL = "debug" }
env_vars = ["DOCS_TOKEN"]
startup_timeout_sec = 20
[mcp_servers.shop]
url = "https://shop.example.com/mcp"
bearer_token_env_var = "SHOP_TOKEN"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Tenant" = "SHOP_TENANT" }
[mcp_servers.old]
command = "old"
enabled = false
`)
	got, diags := ReadServers(file)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	want := []*Server{
		{Name: "docs", File: file, Command: "npx", Args: []string{"-y", "docs-server"}, Env: map[string]string{"LEVEL": "debug"}, PassEnv: []string{"DOCS_TOKEN"}},
		{Name: "shop", File: file, Transport: "streamable-http", URL: "https://shop.example.com/mcp",
			Headers: map[string]string{"Authorization": "Bearer ${env:SHOP_TOKEN}", "X-Region": "eu", "X-Tenant": "${env:SHOP_TENANT}"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for text, want := range map[string]string{
		"[mcp_servers.a]\ncommand = npx":             ":2:11: this is not TOML: expected value but found \"npx\" instead [syntax]",
		"mcp_servers = 1":                            ": lists no servers",
		"[mcp_servers]\na = 1":                       `: the server "a" must be a mapping`,
		"[mcp_servers.a]\ncommand = \"a\"\nargs = 1": ": backends[0].args must be a list",
		"model = \"gpt-5\"":                          ": lists no servers",
	} {
		write(text)
		if _, diags := ReadServers(file); len(diags) != 1 || !strings.HasPrefix(diags[0].String(), file+want) {
			t.Errorf("%s\ngives %v\nwant  %s", text, diags, want)
		}
	}
}

// TestAttackTOML reads what is nested as deeply as a file can be, in little time.
func TestAttackTOML(t *testing.T) {
	t.Parallel()
	var deep strings.Builder
	for i := 0; deep.Len() < maxTOML-2*maxNesting-40; i++ {
		fmt.Fprintf(&deep, "[mcp_servers%s.b%d]\n", strings.Repeat(".a", maxNesting-5), i)
	}
	for name, text := range map[string]string{
		"names":  "mcp_servers." + strings.Repeat("a.", maxTOML/2-10) + "a=1",
		"lists":  "mcp_servers.a=" + strings.Repeat("[", maxTOML-20),
		"tables": "mcp_servers.a=" + strings.Repeat("{a=", maxTOML/3-10),
		"deep":   deep.String(),
		"large":  strings.Repeat("#", maxTOML+1),
	} {
		began := time.Now()
		if _, diags := codexDocument("a.toml", []byte(text)); diags == nil && name != "deep" {
			t.Errorf("%s: nothing is wrong", name)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

// TestHome reads ~/ as the home directory where a path is meant, and leaves arguments,
// which another machine may read.
func TestHome(t *testing.T) {
	t.Parallel()
	text := `backends: [{name: a, command: ~/bin/a, dir: ~/work, args: [~/docs]}]`
	found, diags := Load(Sources{Config: "perdure.yaml", Text: []byte(text), Env: func(string) (string, bool) { return "/home/ada", true }})
	if diags != nil {
		t.Fatal(diags)
	}
	if b := found.Backends[0]; b.Command != "/home/ada/bin/a" || b.Dir != "/home/ada/work" || b.Args[0] != "~/docs" || b.Secrets != nil {
		t.Errorf("command %s, directory %s, arguments %s, secrets %d", b.Command, b.Dir, b.Args, len(b.Secrets))
	}
}
