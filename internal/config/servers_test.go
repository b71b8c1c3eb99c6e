package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestServerFiles finds files that list MCP servers, and leaves others with such keys.
func TestServerFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	for name, text := range map[string]string{
		".mcp.json":      `{"mcpServers": {"a": {"command": "a"}}} // ours`,
		"vmcp.yaml":      "backends: [{name: a, url: http://a/mcp}]",
		"group.yaml":     "kind: VirtualMCPServer\nspec: {groupRef: {name: g}, config: {}}",
		"openapi.yaml":   "openapi: 3.1.0\nservers: [{url: https://example.com}]",
		"asyncapi.yml":   "servers: {production: {url: kafka://example.com, protocol: kafka}}",
		"proxy.yaml":     "backends: {a: {url: http://a}}",
		"empty.yaml":     "",
		"broken.yaml":    "a: [",
		"templated.yaml": "backends: {{ .Values.backends }}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := ServerFiles(dir), []string{filepath.Join(dir, ".mcp.json"), filepath.Join(dir, "group.yaml"), filepath.Join(dir, "vmcp.yaml")}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
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
		"name: a\nbackends: [{name: a, url: http://a/mcp}]":                                                   "",
		"backends: [{name: a, url: http://a/mcp}]\ncompositeTools: []\nincomingAuth: {type: anonymous}":       "1:1: warning: only backends are taken over, not compositeTools, incomingAuth; perdure dev --config FILE serves all of it [config]",
		"kind: VirtualMCPServer\nspec: {groupRef: {name: g}}":                                                 "1:1: warning: has no backends, which ToolHive finds by group: list them in spec.config.backends; perdure dev --config FILE serves the file then [backends]",
		"kind: VirtualMCPServer\nspec: {config: {backends: [{name: a, url: http://a/mcp}], aggregation: {}}}": "2:16: warning: only backends are taken over, not aggregation; perdure dev --config FILE serves all of it [config]",
		"other: 1": "lists no servers: no mcpServers, servers or backends [config]",
	} {
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
