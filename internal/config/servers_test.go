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
