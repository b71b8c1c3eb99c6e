package program_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/perdure/perdure/internal/perduretest"
)

// What clients and operators of perdure know by name.
const (
	defaultListen   = "127.0.0.1:4483"
	defaultUIListen = "127.0.0.1:8233"
	endpoint        = "/mcp"
	metricsPath     = "/metrics"
	keyVar          = "PERDURE_KEY"
	payloadKeysVar  = "PERDURE_PAYLOAD_KEYS"
	awaitTool       = "perdure_run_await"
	scriptTool      = "execute_tool_script"
)

// A devFile is dev.json in the data directory of perdure dev: where it listens.
type devFile struct {
	MCP       string `json:"mcp"`      // URL of the MCP endpoint
	Temporal  string `json:"temporal"` // host:port
	Namespace string `json:"namespace"`
	UI        string `json:"ui"` // URL of the Web UI
}

// readDevFile gives nil where there is none.
func readDevFile(data string) (*devFile, error) {
	raw, err := os.ReadFile(filepath.Join(data, "dev.json"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var file devFile
	return &file, json.Unmarshal(raw, &file)
}

// temporalKey is the file with the key pair that perdure dev's Temporal takes.
func temporalKey(data string) string { return filepath.Join(data, "temporal.pem") }

func write(t *testing.T, name, text string) {
	t.Helper()
	perduretest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	perduretest.NoError(t, os.WriteFile(name, []byte(text), 0o644))
}
