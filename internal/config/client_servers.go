package config

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v4"
)

// What MCP clients keep of their servers is a configuration, too: mcpServers of
// Claude, Cursor and others, and servers of VS Code.

// isClientFile reports whether a document is such a file.
func isClientFile(root *yaml.Node) bool {
	return child(root, "mcpServers") != nil || child(root, "servers") != nil && child(root, "backends") == nil
}

// clientServers gives the servers of a client's file as a configuration. Those that
// are disabled are left out, and keys that concern the client alone.
func (l *loader) clientServers(file string, root *yaml.Node) *yaml.Node {
	servers := child(root, "mcpServers")
	if servers == nil {
		servers = child(root, "servers")
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: servers.Line, Column: servers.Column}
	strategies := mapping(servers)
	if servers.Kind != yaml.MappingNode {
		l.errorf(positionOf(file, servers), "type", "the servers of a client are a mapping, by name")
		return nil
	}
	for i := 0; i+1 < len(servers.Content); i += 2 {
		s := clientServer{loader: l, file: file, name: servers.Content[i], node: servers.Content[i+1]}
		if s.is("disabled", "true") || s.is("enabled", "false") {
			continue
		}
		list.Content = append(list.Content, s.backend())
		if strategy := s.strategy(); strategy != nil {
			strategies.Content = append(strategies.Content, s.name, strategy)
		}
	}
	return mapping(root, scalar(list, "backends"), list, scalar(list, "outgoingAuth"), mapping(list, scalar(list, "backends"), strategies))
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
	for _, key := range [][2]string{{"command", "command"}, {"args", "args"}, {"env", "env"}, {"cwd", "dir"}, {"url", "url"}, {"serverUrl", "url"}} {
		if value := child(s.node, key[0]); value != nil {
			content = append(content, scalar(value, key[1]), s.expanded(value))
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

// strategy is the header that the server is sent; nil = none.
func (s clientServer) strategy() *yaml.Node {
	headers := child(s.node, "headers")
	if headers == nil || len(headers.Content) == 0 {
		return nil
	}
	if len(headers.Content) > 2 {
		s.loader.errorf(positionOf(s.file, headers), "auth", "server %s has %d headers, and a backend gets one: leave the one with its credentials", s.name.Value, len(headers.Content)/2)
		return nil
	}
	name, value := headers.Content[0], s.expanded(headers.Content[1])
	return mapping(headers, scalar(headers, "type"), scalar(headers, "header_injection"), scalar(headers, "headerInjection"),
		mapping(headers, scalar(headers, "headerName"), name, scalar(headers, "headerValue"), value))
}

// clientVariable is a variable as clients write it: ${NAME}, ${NAME:-otherwise},
// ${env:NAME} and ${input:NAME}.
var clientVariable = regexp.MustCompile(`\$\{(env:|input:)?([A-Za-z_][A-Za-z0-9_-]*)(:-([^}]*))?\}`)

// expanded gives a value with what its variables are in the environment.
func (s clientServer) expanded(node *yaml.Node) *yaml.Node {
	out := *node
	out.Content = nil
	for _, inner := range node.Content {
		out.Content = append(out.Content, s.expanded(inner))
	}
	if node.Kind == yaml.ScalarNode {
		out.Value = clientVariable.ReplaceAllStringFunc(node.Value, func(text string) string { return s.variable(node, text) })
	}
	return &out
}

func (s clientServer) variable(at *yaml.Node, text string) string {
	m := clientVariable.FindStringSubmatch(text)
	kind, name, otherwise := m[1], m[2], m[4]
	if kind == "input:" {
		s.loader.errorf(positionOf(s.file, at), "environment", "server %s: %s is what an editor asks for; write ${env:NAME} and set the variable", s.name.Value, text)
		return text
	}
	value, ok := s.loader.env(name)
	switch {
	case ok && (value != "" || m[3] == ""):
		return value
	case m[3] != "":
		return otherwise
	}
	s.loader.errorf(positionOf(s.file, at), "environment", "server %s: environment variable %s is not set", s.name.Value, name)
	return text
}
