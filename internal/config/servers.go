package config

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// A Server is an MCP server that a file lists, with its secrets as they are written
// there. Variables are written as a configuration refers to them: ${env:NAME}.
type Server struct {
	Name      string
	File      string // that lists it
	Transport string // as in a configuration; "" = stdio
	URL       string
	Headers   map[string]string
	CABundle  string // file
	Command   string
	Args      []string
	Env       map[string]string
	PassEnv   []string
	Dir       string
	Auth      *yaml.Node // its strategy of outgoingAuth; nil = none
}

// IsProcess reports whether the server is a program that perdure starts.
func (s *Server) IsProcess() bool {
	return (&backend{Transport: s.Transport, Command: s.Command}).isProcess()
}

// projectFiles are where MCP clients and others list the servers of a directory.
var projectFiles = []string{
	".mcp.json", "mcp.json", ".vscode/mcp.json", ".cursor/mcp.json", ".zed/settings.json", ".gemini/settings.json",
	".roo/mcp.json", ".kiro/settings/mcp.json", ".amazonq/mcp.json", ".junie/mcp/mcp.json",
	"opencode.json", ".codex/config.toml", ".continue/mcpServers/*", "*.yaml", "*.yml",
}

// ServerFiles are the files in which programs list MCP servers and that exist: those
// of MCP clients in a directory, configurations of vMCP there, also those without
// backends, and those of clients for the user.
func ServerFiles(dir string) (files []string) {
	for _, pattern := range projectFiles {
		matches, _ := fs.Glob(os.DirFS(dir), pattern) // which is well formed
		for _, name := range matches {
			files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
		}
	}
	return slices.DeleteFunc(append(files, userFiles()...), func(file string) bool {
		data, err := ReadFile(file)
		return err != nil || !listsServers(file, data)
	})
}

// listsServers reports whether a file of this or another program lists servers. In YAML,
// servers are those of an API and the like.
func listsServers(file string, data []byte) bool {
	docs, _ := documents(file, data)
	return slices.ContainsFunc(docs, func(doc *yaml.Node) bool {
		root := serversOf(doc)
		switch {
		case root == nil:
			return isServer(doc)
		case isClientFile(root):
			return !isYAML(file) || !isCommonList(root)
		}
		return definitions.Child(root, "backends").Kind == yaml.SequenceNode
	})
}

// serversOf gives the part of a document that lists servers, in the form of a
// configuration or of a client's file; nil = it has none.
func serversOf(doc *yaml.Node) *yaml.Node {
	if kind := definitions.Child(doc, "kind"); kind != nil {
		root, ok := lookup(doc, keyPath{"spec", "config"})
		if kind.Value != definitions.ServerKind || !ok {
			return nil
		}
		doc = root
	}
	if isClientFile(doc) || definitions.Child(doc, "backends") != nil {
		return doc
	}
	return nil
}

// homeFiles and configFiles are where MCP clients list the servers of a user: in the home
// directory, and in that of configurations.
var (
	homeFiles   = []string{".claude.json", ".cursor/mcp.json", ".gemini/settings.json", ".codeium/windsurf/mcp_config.json", ".continue/config.yaml"}
	configFiles = []string{"Claude/claude_desktop_config.json", "Code/User/mcp.json", "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json", "zed/settings.json", "goose/config.yaml", "opencode/opencode.json"}
)

// userFiles are where MCP clients list the servers of a user, whatever the directory.
func userFiles() (files []string) {
	of := func(dir string, names []string) {
		for _, name := range names {
			files = append(files, filepath.Join(dir, filepath.FromSlash(name)))
		}
	}
	if dir, err := os.UserConfigDir(); err == nil {
		of(dir, configFiles)
	}
	codex := os.Getenv("CODEX_HOME")
	if home, err := os.UserHomeDir(); err == nil {
		of(home, homeFiles)
		codex = cmp.Or(codex, filepath.Join(home, ".codex"))
	}
	if codex != "" {
		files = append(files, filepath.Join(codex, "config.toml"))
	}
	return files
}

// ReadServers reads the servers that a file lists. What else the file says is left
// alone.
func ReadServers(file string) ([]*Server, definitions.Diagnostics) {
	l := &loader{}
	data, err := ReadFile(file)
	if err != nil {
		l.unreadable(file, err)
		return nil, l.diags
	}
	docs, diags := documents(file, data)
	l.report(diags)
	var servers []*Server
	for _, doc := range docs {
		root := serversOf(doc)
		switch {
		case root == nil && isServer(doc):
			l.reportf(definitions.SeverityWarning, positionOf(file, doc), "backends", "has no backends, which ToolHive finds by group: list them in spec.config.backends; perdure dev --config %s serves the file then", file)
		case root == nil:
		case isClientFile(root):
			if root = l.clientServers(file, root); root != nil {
				servers = append(servers, l.servers(file, root)...)
			}
		default:
			servers = append(servers, l.servers(file, root)...)
			l.noteLeft(file, root)
		}
	}
	if len(servers) == 0 && len(l.diags) == 0 {
		l.errorf(definitions.Position{File: file}, "config", "lists no servers: no mcpServers, servers or backends")
	}
	return servers, l.diags
}

// noteLeft warns of what a configuration has besides its servers, since that is left.
func (l *loader) noteLeft(file string, root *yaml.Node) {
	silent := []string{"name", "groupRef", "backends", "outgoingAuth", "metadata"}
	for _, key := range definitions.Keys(reflect.TypeFor[configuration]()) {
		if _, ignored := key.Tag.Lookup("ignored"); ignored {
			silent = append(silent, key.Name)
		}
	}
	var left []string
	for key := range definitions.Members(root) {
		if !slices.Contains(silent, key.Value) {
			left = append(left, key.Value)
		}
	}
	if len(left) > 0 {
		l.reportf(definitions.SeverityWarning, positionOf(file, root), "config", "only backends are taken over, not %s; perdure dev --config %s serves all of it", strings.Join(left, ", "), file)
	}
}

// servers reads the backends of a configuration, with their strategies.
func (l *loader) servers(file string, root *yaml.Node) (servers []*Server) {
	only := mapping(root)
	for key, value := range definitions.Members(root) {
		if key.Value == "backends" || key.Value == "outgoingAuth" {
			only.Content = append(only.Content, key, value)
		}
	}
	var c configuration
	l.report(definitions.Decode(file, only, &c))
	if l.diags.HasErrors() {
		return nil
	}
	for _, b := range c.Backends {
		s := &Server{
			Name: b.Name, File: file, Transport: b.Transport, URL: b.URL, Headers: b.Headers, CABundle: b.CABundlePath,
			Command: b.Command, Args: b.Args, Env: b.Env, PassEnv: b.PassEnv, Dir: b.Dir,
		}
		if auth, ok := lookup(only, keyPath{"outgoingAuth", "backends", b.Name}); ok {
			s.Auth = auth
		} else if auth, ok := lookup(only, keyPath{"outgoingAuth", "default"}); ok && !s.IsProcess() {
			s.Auth = auth
		}
		servers = append(servers, s)
	}
	return servers
}
