package config

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// What MCP clients keep of their servers is a configuration, too: mcpServers of
// Claude, Cursor and others, servers of VS Code, and mcp_servers of Codex.

// isClientFile reports whether a document is such a file.
func isClientFile(root *yaml.Node) bool {
	return child(root, "backends") == nil && (child(root, "mcpServers") != nil || child(root, "servers") != nil)
}

// clientServers gives the servers of a client's file as a configuration. Those that
// are disabled are left out, and keys that concern the client alone.
func (l *loader) clientServers(file string, root *yaml.Node) *yaml.Node {
	servers := child(root, "mcpServers")
	if servers == nil {
		servers = child(root, "servers")
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: servers.Line, Column: servers.Column}
	if servers.Kind != yaml.MappingNode {
		l.errorf(positionOf(file, servers), "type", "the servers of a client are a mapping, by name")
		return nil
	}
	for i := 0; i+1 < len(servers.Content); i += 2 {
		s := clientServer{loader: l, file: file, name: servers.Content[i], node: servers.Content[i+1]}
		if s.node.Kind != yaml.MappingNode {
			l.errorf(positionOf(file, s.node), "type", "the server %q must be a mapping: write {\"command\": \"…\", \"args\": […]}, or {\"type\": \"http\", \"url\": \"…\"}", s.name.Value)
			continue
		}
		if s.is("disabled", "true") || s.is("enabled", "false") {
			l.reportf(definitions.SeverityNote, positionOf(file, s.name), "backends", "%q is disabled, and left out", s.name.Value)
			continue
		}
		if variables := child(s.node, "envFile"); variables != nil {
			l.reportf(definitions.SeverityWarning, positionOf(file, variables), "backends", "envFile is not read: set its variables before perdure is started, and name them for %q under env, as in {\"NAME\": \"${env:NAME}\"}", s.name.Value)
		}
		list.Content = append(list.Content, s.backend())
	}
	return mapping(root, scalar(list, "backends"), list)
}

// A clientServer is one server of a client's file.
type clientServer struct {
	loader     *loader
	file       string
	name, node *yaml.Node
}

// is reports whether a key has a value.
func (s clientServer) is(key, value string) bool {
	node := child(s.node, key)
	return node != nil && node.Value == value
}

// backend is the server as an entry of backends.
func (s clientServer) backend() *yaml.Node {
	content := []*yaml.Node{scalar(s.name, "name"), s.name}
	if transport := s.transport(); transport != nil {
		content = append(content, scalar(transport, "transport"), transport)
	}
	for _, key := range [][2]string{{"command", "command"}, {"args", "args"}, {"env", "env"}, {"cwd", "dir"}, {"url", "url"}, {"serverUrl", "url"}, {"headers", "headers"}, {"env_vars", "passEnv"}} {
		if value := child(s.node, key[0]); value != nil {
			content = append(content, scalar(value, key[1]), s.referring(value))
		}
	}
	return mapping(s.name, content...)
}

// transport is how the server is reached: what the file says, in our words; nil =
// it follows from command. What has a URL and says nothing is streamable HTTP.
func (s clientServer) transport() *yaml.Node {
	kind := child(s.node, "type")
	if kind == nil {
		kind = child(s.node, "transport")
	}
	switch {
	case kind == nil && child(s.node, "command") == nil:
		return scalar(s.node, "streamable-http")
	case kind == nil:
		return nil
	case slices.Contains([]string{"http", "streamableHttp", "streamable_http"}, kind.Value):
		return scalar(kind, "streamable-http")
	}
	return kind
}

// clientVariable is a variable as clients write it: ${NAME}, ${NAME:-otherwise},
// ${env:NAME}, and ${input:NAME}, for which the variable is NAME in capitals.
var clientVariable = regexp.MustCompile(`\$\{(env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)(:-[^}]*)?\}`)

// editorVariables are those that an editor sets itself: the folder that is open, where
// perdure is started, and that of the user.
var editorVariables = map[string]string{"workspaceFolder": ".", "userHome": "${env:HOME}"}

// referring gives a value with its variables as a configuration writes them.
func (s clientServer) referring(node *yaml.Node) *yaml.Node {
	out := *node
	out.Content = nil
	for _, inner := range node.Content {
		out.Content = append(out.Content, s.referring(inner))
	}
	if node.Kind == yaml.ScalarNode {
		out.Value = clientVariable.ReplaceAllStringFunc(node.Value, func(text string) string {
			m := clientVariable.FindStringSubmatch(text)
			if value, ok := editorVariables[m[2]]; ok && m[1] == "" {
				return value
			}
			if m[1] == "input:" { // what an editor asks for
				return "${env:" + variableName(m[2]) + "}"
			}
			return "${env:" + m[2] + m[3] + "}"
		})
	}
	return &out
}

// variableName makes the name of an environment variable of any text.
func variableName(text string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, text))
}
