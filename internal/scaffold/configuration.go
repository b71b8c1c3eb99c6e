package scaffold

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
)

// Names of the files that are written, below the directory of the configuration.
const (
	ConfigFile       = "perdure.yaml"
	ConfigSchema     = "schemas/perdure.schema.json"
	DefinitionSchema = "schemas/definition.schema.json"
	ToolsDir         = "tools"
)

// editorLine is the first line of a file, by which editors find its schema.
func editorLine(schema string) string { return "# yaml-language-server: $schema=" + schema + "\n" }

// Configuration is the text of a configuration of servers. connectErrors says for a server,
// by its name, why its tools are not known.
func (set *Set) Configuration(name string, effects []Proposal, connectErrors map[string]string) string {
	var b strings.Builder
	b.WriteString(editorLine(ConfigSchema))
	fmt.Fprintf(&b, "# Written by perdure%s; it is yours now. Keys: https://github.com/perdure/perdure/blob/main/docs/configuration.md.\n", set.origin())
	b.WriteString("# perdure validate --config perdure.yaml checks it, perdure backend add extends it.\n")
	fmt.Fprintf(&b, "name: %s\n\n# The MCP servers. Steps call a tool as BACKEND_TOOL; perdure tools lists them.\nbackends:\n", quoted(usableName(name)))
	for _, s := range set.Servers {
		b.WriteString(s.Entry("  ", effects, connectErrors[s.Name]))
	}
	if auth := set.authentication(); auth != "" {
		b.WriteString("\n# Credentials that backends get; secrets are variables of the environment.\noutgoingAuth:\n  backends:\n" + auth)
	}
	b.WriteString("\naggregation:\n  conflictResolution: prefix    # the tools of a backend begin with its name and _\n")
	b.WriteString("  # excludeAllTools: true       # clients see composite tools alone\n")
	return b.String()
}

// origin says of which files the servers are.
func (set *Set) origin() string {
	if len(set.Files) == 0 {
		return ""
	}
	return " init from " + strings.Trim(list(set.Files), "[]")
}

// Example is the text of a configuration with the backend of the examples: a git
// repository.
func Example() string {
	return editorLine(ConfigSchema) + `# Written by perdure init. The one backend is the git repository in this directory.
name: example
backends:
  - name: repo
    transport: stdio
    command: perdure
    args: [backend, repo, --root, .]
    effects:    # what a call may do; a tool without a rule is unsafe
      - {tool: "write_*", class: unsafe}
      - {tool: "*", class: read}
`
}

// Entry is the text of a server as an element of backends, indented.
func (s *Server) Entry(indent string, effects []Proposal, connectError string) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "%s  %s: %s\n", indent, key, value) }
	fmt.Fprintf(&b, "%s- name: %s\n", indent, quoted(s.Name))
	if s.IsProcess() {
		line("transport", "stdio")
		line("command", quoted(s.Command))
		if len(s.Args) > 0 {
			line("args", list(s.Args))
		}
		if s.Dir != "" {
			line("dir", quoted(s.Dir))
		}
		if len(s.Env) > 0 {
			line("env", flowMapping(s.Env))
		}
		if len(s.PassEnv) > 0 {
			line("passEnv", list(s.PassEnv)+"    # of the environment of perdure")
		}
	} else {
		line("transport", quoted(cmp.Or(s.Transport, "streamable-http")))
		line("url", quoted(s.URL))
		if s.CABundle != "" {
			line("caBundlePath", quoted(s.CABundle))
		}
		if len(s.Headers) > 0 {
			line("headers", flowMapping(s.Headers))
		}
	}
	b.WriteString(s.effects(indent, effects, connectError))
	return b.String()
}

// effects is the text of the effect rules of a server.
func (s *Server) effects(indent string, effects []Proposal, connectError string) string {
	var rules []Proposal
	for _, p := range effects {
		if p.Backend == s.Name {
			rules = append(rules, p)
		}
	}
	if len(rules) == 0 {
		why := ""
		if connectError != "" {
			why = " It did not answer when this was written."
		}
		return indent + "  # A tool without a rule under effects is unsafe: its calls are never repeated." + why + "\n" +
			indent + "  # effects:\n" + indent + "  #   - {tool: \"get_*\", class: read}\n"
	}
	slices.SortStableFunc(rules, func(a, b Proposal) int {
		return cmp.Or(cmp.Compare(rank(a.Class), rank(b.Class)), strings.Compare(a.Tool, b.Tool))
	})
	width := 0
	for _, p := range rules {
		width = max(width, len(p.rule()))
	}
	var b strings.Builder
	b.WriteString(indent + "  effects:    # what a call may do; a tool without a rule is unsafe\n")
	for _, p := range rules {
		fmt.Fprintf(&b, "%s    - %-*s  # %s\n", indent, width, p.rule(), p.Reason)
	}
	return b.String()
}

// rule is an effect rule in YAML.
func (p Proposal) rule() string {
	key := ""
	if p.Class == definitions.Keyed && p.KeyArgument != "" {
		key = ", keyArgument: " + quoted(p.KeyArgument)
	}
	return fmt.Sprintf("{tool: %s, class: %s%s}", quoted(p.Tool), p.Class, key)
}

func (set *Set) authentication() string {
	var b strings.Builder
	for _, s := range set.Servers {
		b.WriteString(s.authentication())
	}
	return b.String()
}

// authentication is the strategy of a server as an entry of outgoingAuth.backends.
func (s *Server) authentication() string {
	if s.Auth == nil {
		return ""
	}
	text, err := yaml.Marshal(s.Auth)
	if err != nil {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "    %s:\n", quoted(s.Name))
	for line := range strings.Lines(string(text)) {
		b.WriteString("      " + line)
	}
	return b.String()
}

// plain matches texts that YAML reads as text without quotes, in flow as well.
var plain = regexp.MustCompile(`^[A-Za-z./_][A-Za-z0-9./_+=@-]*([: ][A-Za-z0-9./_+=@-]+)*$`)

// quoted is a text in YAML, in quotes where it needs them.
func quoted(text string) string {
	var value any
	if plain.MatchString(text) && yaml.Unmarshal([]byte(text), &value) == nil && value == text {
		return text
	}
	encoded, _ := json.Marshal(text) // a text can be encoded
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(encoded))
}

// list is a list of texts in YAML.
func list(texts []string) string {
	var all []string
	for _, text := range texts {
		all = append(all, quoted(text))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// flowMapping is a mapping of texts in YAML.
func flowMapping(m map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, quoted(name)+": "+quoted(m[name]))
	}
	return "{" + strings.Join(all, ", ") + "}"
}
