package config

import (
	"os"
	"path/filepath"
	"slices"
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
	if got, want := ServerFiles(dir), []string{filepath.Join(dir, ".mcp.json"), filepath.Join(dir, "vmcp.yaml")}; !slices.Equal(got, want) {
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
