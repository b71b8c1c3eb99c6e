package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// isTOML reports whether a file is TOML by its name, as that of Codex is.
func isTOML(file string) bool { return strings.EqualFold(filepath.Ext(file), ".toml") }

// maxTOML bounds a file in bytes, and maxNesting what a line of it nests: reading takes
// more than the square of that.
const (
	maxTOML    = 64 << 10
	maxNesting = 256
)

// codexDocument gives the servers of Codex as other clients list them: its mcp_servers as
// mcpServers. Its nodes have no places.
func codexDocument(file string, data []byte) ([]*yaml.Node, definitions.Diagnostics) {
	fault := func(line, column int, format string, args ...any) ([]*yaml.Node, definitions.Diagnostics) {
		at := definitions.Position{File: file, Line: line, Column: column}
		return nil, definitions.Diagnostics{{Pos: at, Severity: definitions.SeverityError, Message: fmt.Sprintf(format, args...), Check: "syntax"}}
	}
	if len(data) > maxTOML {
		return fault(0, 0, "is larger than %d bytes; copy its mcp_servers to a file of their own", maxTOML)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if strings.Count(line, ".")+strings.Count(line, "{")+strings.Count(line, "[") > maxNesting {
			return fault(i+1, 1, "the line has more than %d dots and opening brackets; split it, or copy mcp_servers to a file of their own", maxNesting)
		}
	}
	var codex struct {
		Servers map[string]any `toml:"mcp_servers"`
	}
	if _, err := toml.Decode(string(data), &codex); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			return fault(at.Position.Line, max(1, at.Position.Col), "this is not TOML: %s", at.Message)
		}
		return fault(0, 0, "mcp_servers must be tables such as [mcp_servers.NAME]: %v", err)
	}
	if codex.Servers == nil {
		return nil, nil
	}
	for _, server := range codex.Servers {
		if server, ok := server.(map[string]any); ok {
			withCodexHeaders(server)
		}
	}
	root := new(yaml.Node)
	if err := root.Encode(map[string]any{"mcpServers": codex.Servers}); err != nil {
		return fault(0, 0, "mcp_servers cannot be read: %v", err)
	}
	withoutPlace(root)
	return []*yaml.Node{root}, nil
}

// withCodexHeaders gives a server its headers in one mapping: Codex has a key for those
// whose values are variables of the environment, and one for a token.
func withCodexHeaders(server map[string]any) {
	headers, _ := server["http_headers"].(map[string]any)
	if headers == nil {
		headers = map[string]any{}
	}
	variables, _ := server["env_http_headers"].(map[string]any)
	for name, variable := range variables {
		headers[name] = fmt.Sprintf("${env:%v}", variable)
	}
	if variable, ok := server["bearer_token_env_var"].(string); ok {
		headers["Authorization"] = "Bearer ${env:" + variable + "}"
	}
	if len(headers) > 0 {
		server["headers"] = headers
	}
}

func withoutPlace(node *yaml.Node) {
	node.Line, node.Column = 0, 0
	for _, inner := range node.Content {
		withoutPlace(inner)
	}
}
