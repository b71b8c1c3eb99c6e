package deftest

import (
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// A definition may call a tool by its name for clients, as backend.tool, or by either
// as an identifier of a script. Tests may use any of these; theirs is then the tool's
// name in the run, too.

// testName gives the name that the tests have for a tool which the definition calls
// name; name itself if they have no other.
func (p *parser) testName(c *Case, doc *document, name string) string {
	of := keysOf(doc.Tools)
	maps.Copy(of, keysOf(c.written.Tools))
	for _, names := range []map[string]bool{of, keysOf(c.written.Expect.Calls)} {
		if names[name] {
			return name
		}
		for _, other := range slices.Sorted(maps.Keys(names)) {
			if p.same(name, other, doc.Tools[other]) {
				return other
			}
		}
	}
	return name
}

func keysOf[V any](m map[string]V) map[string]bool {
	keys := map[string]bool{}
	for key := range m {
		keys[key] = true
	}
	return keys
}

// same reports whether two names mean one tool: the definition's, and one for which
// the file has an entry.
func (p *parser) same(name, other string, written toolFile) bool {
	if sameIdentifier(name, other) {
		return true
	}
	if written.Backend != "" && written.Original != "" && sameIdentifier(name, written.Backend+"."+written.Original) {
		return true
	}
	if p.src.Tools == nil {
		return false
	}
	a, known := p.src.Tools(name)
	b, alsoKnown := p.src.Tools(other)
	return known && alsoKnown && a.Name == b.Name
}

// sameIdentifier reports whether two names make the same identifier, such as
// github.pull-request and github_pull_request.
func sameIdentifier(a, b string) bool { return definitions.Identifier(a) == definitions.Identifier(b) }

// isUsed reports whether name is one of the used tools.
func (p *parser) isUsed(doc *document, used []string, name string) bool {
	return slices.ContainsFunc(used, func(u string) bool { return p.same(u, name, doc.Tools[name]) })
}

// mayBeCalled reports whether scripts of a definition may call a tool by a computed
// name.
func (p *parser) mayBeCalled(d *definitions.Definition, name string, written toolFile) bool {
	names := []string{name, written.Backend + "." + written.Original}
	if p.src.Tools != nil {
		if t, ok := p.src.Tools(name); ok {
			names = append(names, t.Name, t.Backend+"."+t.Original)
		}
	}
	patterns := d.Scripts().ToolPatterns()
	for _, pattern := range patterns {
		patterns = append(patterns, strings.ReplaceAll(pattern, ".", "_")) // the names for clients
	}
	return slices.ContainsFunc(names, func(name string) bool { return definitions.MatchesTool(patterns, name) })
}

// named gives the run's name for a tool which the test calls name.
func (c *Case) named(name string) string {
	used := slices.Sorted(maps.Keys(c.tools))
	for _, fits := range []func(u string) bool{
		func(u string) bool { return c.tools[u].Name == name },
		func(u string) bool { return u == name },
		func(u string) bool { return sameIdentifier(u, name) },
	} {
		if i := slices.IndexFunc(used, fits); i >= 0 {
			return c.tools[used[i]].Name
		}
	}
	return name
}

// calls reports whether the definition may call a tool.
func (c *Case) calls(name string) bool {
	named := c.named(name)
	return slices.ContainsFunc(slices.Collect(maps.Values(c.tools)), func(t definitions.Tool) bool { return t.Name == named })
}
