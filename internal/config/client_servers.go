package config

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// What MCP clients keep of their servers is a configuration, too.

// A serverList is a place where clients list servers.
type serverList struct {
	path   keyPath
	common bool     // other programs use the key as well, in files of YAML
	types  []string // each server must have one of them, since other programs use the key as well; nil = any
}

// here stands for the working directory in a path.
const here = "."

// serverLists are those of Claude Code for a directory, of Claude, Cursor, Continue,
// LibreChat and others, of VS Code, Zed, opencode, and goose.
var serverLists = []serverList{
	{path: keyPath{"projects", here, "mcpServers"}},
	{path: keyPath{"mcpServers"}},
	{path: keyPath{"servers"}, common: true},
	{path: keyPath{"context_servers"}},
	{path: keyPath{"mcp", "servers"}},
	{path: keyPath{"mcp"}, types: []string{"local", "remote"}},
	{path: keyPath{"extensions"}, types: append([]string{"stdio", "sse", "streamable_http"}, builtIn...)},
}

// builtIn are types of servers that are part of a client.
var builtIn = []string{"builtin", "platform", "frontend", "inline_python"}

// isClientFile reports whether a document is such a file.
func isClientFile(root *yaml.Node) bool {
	return definitions.Child(root, "backends") == nil && listOf(root) != nil
}

// listOf is what a client's file lists, by name: of servers with the same name the first;
// nil = nothing.
func listOf(root *yaml.Node) (all *yaml.Node) {
	for _, list := range serverLists {
		servers := list.in(root)
		if all == nil || servers == nil || all.Kind != yaml.MappingNode || servers.Kind != yaml.MappingNode {
			all = cmp.Or(all, servers)
			continue
		}
		all = mapping(all, all.Content...)
		for name, server := range definitions.Members(servers) {
			if definitions.Child(all, name.Value) == nil {
				all.Content = append(all.Content, name, server)
			}
		}
	}
	return all
}

// isCommonList reports whether what a file lists may as well be servers of another kind.
func isCommonList(root *yaml.Node) bool {
	return !slices.ContainsFunc(serverLists, func(list serverList) bool { return !list.common && list.in(root) != nil })
}

// in is the list in a document, by name; nil = it has none.
func (l serverList) in(root *yaml.Node) *yaml.Node {
	path := slices.Clone(l.path)
	for i, name := range path {
		if name == here {
			path[i], _ = os.Getwd()
		}
	}
	servers, ok := lookup(root, path)
	if !ok || !l.fits(servers) {
		return nil
	}
	return byName(servers)
}

// fits reports whether servers have one of the types of the list.
func (l serverList) fits(servers *yaml.Node) bool {
	if l.types == nil {
		return true
	}
	if servers.Kind != yaml.MappingNode || len(servers.Content) == 0 {
		return false
	}
	for _, server := range definitions.Members(servers) {
		if kind := definitions.Child(server, "type"); kind == nil || !slices.Contains(l.types, kind.Value) {
			return false
		}
	}
	return true
}

// clientServers gives the servers of a client's file as a configuration. Those that
// are disabled are left out, and keys that concern the client alone.
func (l *loader) clientServers(file string, root *yaml.Node) *yaml.Node {
	servers := listOf(root)
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: servers.Line, Column: servers.Column}
	if servers.Kind != yaml.MappingNode {
		l.errorf(positionOf(file, servers), "type", "the servers of a client are a mapping, by name")
		return nil
	}
	for name, node := range definitions.Members(servers) {
		s := clientServer{loader: l, file: file, name: name, node: node}
		if s.node.Kind != yaml.MappingNode {
			l.errorf(positionOf(file, s.node), "type", "the server %q must be a mapping: write {\"command\": \"…\", \"args\": […]}, or {\"type\": \"http\", \"url\": \"…\"}", s.name.Value)
			continue
		}
		if s.is("disabled", "true") || s.is("enabled", "false") {
			l.reportf(definitions.SeverityNote, positionOf(file, s.name), "backends", "%q is disabled, and left out", s.name.Value)
			continue
		}
		if s.isBuiltIn() {
			l.reportf(definitions.SeverityNote, positionOf(file, s.name), "backends", "%q is part of the client, which names no program for it, and left out", s.name.Value)
			continue
		}
		s.noteUnread()
		list.Content = append(list.Content, s.backend())
	}
	return mapping(root, scalar(list, "backends"), list)
}

// byName gives servers in a list, as Continue has them, as a mapping by name.
func byName(servers *yaml.Node) *yaml.Node {
	if servers.Kind != yaml.SequenceNode || slices.ContainsFunc(servers.Content, func(s *yaml.Node) bool { return definitions.Child(s, "name") == nil }) {
		return servers
	}
	var content []*yaml.Node
	for _, s := range servers.Content {
		content = append(content, definitions.Child(s, "name"), s)
	}
	return mapping(servers, content...)
}

// serverKeys are the keys of a backend, by those that clients have for them.
var serverKeys = [][2]string{
	{"command", "command"}, {"cmd", "command"}, {"args", "args"}, {"cwd", "dir"},
	{"env", "env"}, {"environment", "env"}, {"envs", "env"}, {"env_vars", "passEnv"}, {"env_keys", "passEnv"},
	{"url", "url"}, {"serverUrl", "url"}, {"httpUrl", "url"}, {"uri", "url"}, {"headers", "headers"},
}

// unreadKeys are keys of servers that are not taken over, and what to do instead.
var unreadKeys = map[string]string{
	"envFile":         `set its variables before perdure is started, and name them for %q under env, as in {"NAME": "${env:NAME}"}`,
	"disabledTools":   adviseFilter,
	"excludeTools":    adviseFilter,
	"includeTools":    adviseFilter,
	"disabled_tools":  adviseFilter,
	"enabled_tools":   adviseFilter,
	"available_tools": adviseFilter,
	"customUserVars":  `write what it has for each user in the headers of %q yourself; outgoingAuth gives a backend the credentials of its callers`,
}

const adviseFilter = "list the tools of %q that clients may see under aggregation.tools, as in {workload: NAME, filter: [TOOL]}"

// noteUnread warns of keys of a server in a client's file that are not taken over.
func (s clientServer) noteUnread() {
	for name, value := range definitions.Members(s.node) {
		key := name.Value
		if advice, ok := unreadKeys[key]; ok && (value.Kind == yaml.ScalarNode || len(value.Content) > 0) {
			s.loader.reportf(definitions.SeverityWarning, positionOf(s.file, value), "backends", key+" is not read: "+advice, s.name.Value)
		}
	}
}

// A clientServer is one server of a client's file.
type clientServer struct {
	loader     *loader
	file       string
	name, node *yaml.Node
}

// is reports whether a key has a value.
func (s clientServer) is(key, value string) bool {
	node := definitions.Child(s.node, key)
	return node != nil && node.Value == value
}

// isBuiltIn reports whether the server is part of its client: by its type, or as an
// extension of an editor that has settings alone.
func (s clientServer) isBuiltIn() bool {
	kind := definitions.Child(s.node, "type")
	return kind != nil && slices.Contains(builtIn, kind.Value) || definitions.Child(s.node, "settings") != nil && !s.has("command") && !s.has("url")
}

// url is the URL of the server; "" = none.
func (s clientServer) url() string {
	for _, key := range serverKeys {
		if value := definitions.Child(s.node, key[0]); key[1] == "url" && value != nil {
			return value.Value
		}
	}
	return ""
}

// has reports whether the server has a key of a backend, by whatever name.
func (s clientServer) has(key string) bool {
	return slices.ContainsFunc(serverKeys, func(k [2]string) bool { return k[1] == key && definitions.Child(s.node, k[0]) != nil })
}

// backend is the server as an entry of backends.
func (s clientServer) backend() *yaml.Node {
	content := []*yaml.Node{scalar(s.name, "name"), s.name}
	if transport := s.transport(); transport != nil {
		content = append(content, scalar(transport, "transport"), transport)
	}
	of := s.flat()
	for _, key := range serverKeys {
		if value := definitions.Child(of, key[0]); value != nil {
			content = append(content, scalar(value, key[1]), s.referring(value))
		}
	}
	return mapping(s.name, content...)
}

// flat is the server with all keys beside each other: Zed had the program in an object,
// and Continue has headers in one, opencode has it and its arguments in a list, and people
// write both in one text.
func (s clientServer) flat() *yaml.Node {
	of := s.node
	if path, ok := lookup(of, keyPath{"command", "path"}); ok {
		command := definitions.Child(of, "command")
		of = mapping(of, append(slices.Clone(command.Content), scalar(path, "command"), path)...)
	}
	if headers, ok := lookup(of, keyPath{"requestOptions", "headers"}); ok {
		of = mapping(of, append(slices.Clone(of.Content), scalar(headers, "headers"), headers)...)
	}
	command := definitions.Child(of, "command")
	words := words(command)
	if len(words) == 0 || len(words) == 1 && command.Kind == yaml.ScalarNode || definitions.Child(of, "args") != nil && len(words) > 1 {
		return of
	}
	args := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: command.Line, Column: command.Column, Content: words[1:]}
	return mapping(of, append([]*yaml.Node{scalar(command, "command"), words[0], scalar(command, "args"), args}, of.Content...)...)
}

// words are the words of a command in a list, or of one in a text without quotes.
func words(command *yaml.Node) (words []*yaml.Node) {
	switch {
	case command == nil:
	case command.Kind == yaml.SequenceNode:
		return command.Content
	case command.Kind == yaml.ScalarNode && !strings.ContainsAny(command.Value, "\"'\\") && !exists(command.Value):
		for _, word := range strings.Fields(command.Value) {
			words = append(words, scalar(command, word))
		}
	}
	return words
}

// transport is how the server is reached: what the file says, in our words; nil =
// it follows from command. What has a URL and says nothing is streamable HTTP, unless
// its path says sse.
func (s clientServer) transport() *yaml.Node {
	kind := definitions.Child(s.node, "type")
	if kind == nil {
		kind = definitions.Child(s.node, "transport")
	}
	switch {
	case kind == nil && strings.HasSuffix(s.url(), "/sse"):
		return scalar(s.node, "sse")
	case kind == nil && !s.has("command"):
		return scalar(s.node, "streamable-http")
	case kind == nil:
		return nil
	case slices.Contains([]string{"http", "streamableHttp", "streamable_http", "remote"}, kind.Value):
		return scalar(kind, "streamable-http")
	case kind.Value == "local":
		return scalar(kind, "stdio")
	}
	return kind
}

// clientVariable is a variable as clients write it: ${NAME}, ${NAME:-otherwise},
// ${env:NAME}, {env:NAME}, $NAME, ${{ secrets.NAME }}, and ${input:NAME}, for which the
// variable is NAME in capitals.
var clientVariable = regexp.MustCompile(`\$\{(env:|input:|\{ *secrets\.)?([A-Za-z_][A-Za-z0-9_-]*)(:-[^}]*)?(?: *\})?\}|\{env:([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Z_][A-Z0-9_]*)`)

// clientPlaceholder stands for what a client knows of its user.
var clientPlaceholder = regexp.MustCompile(`\{\{ *\w+ *\}\}`)

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
			return "${env:" + m[2] + m[4] + m[5] + m[3] + "}"
		})
		if left := clientPlaceholder.FindString(out.Value); left != "" {
			s.loader.reportf(definitions.SeverityWarning, positionOf(s.file, node), "backends", "%s of %q is for its client to fill in; write a value, or a variable as in ${env:NAME}", left, s.name.Value)
		}
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
