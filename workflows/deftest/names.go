package deftest

import (
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
)

// A definition may call a tool by the name that clients see, by its backend's and
// its own there, or by either as scripts spell it; tests name it as they like.
// What they call it is then its name in the run, too.

// meant is what the tests call a tool that the definition calls by a name: that
// name, unless they have another for it.
func (p *parser) meant(c *Case, doc *document, name string) string {
	of := keysOf(doc.Tools)
	maps.Copy(of, keysOf(c.written.Tools))
	for _, said := range []map[string]bool{of, keysOf(c.written.Expect.Calls)} {
		if said[name] {
			return name
		}
		for _, other := range slices.Sorted(maps.Keys(said)) {
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

// same reports whether a definition's name for a tool and another one, of which
// the file says something, are those of one tool.
func (p *parser) same(name, other string, said toolFile) bool {
	if spelledAlike(name, other) {
		return true
	}
	if said.Backend != "" && said.Original != "" && spelledAlike(name, said.Backend+"."+said.Original) {
		return true
	}
	if p.src.Tools == nil {
		return false
	}
	a, known := p.src.Tools(name)
	b, alsoKnown := p.src.Tools(other)
	return known && alsoKnown && a.Name == b.Name
}

// spelledAlike reports whether two names are one in letters that an identifier has:
// github.pull-request and github_pull_request.
func spelledAlike(a, b string) bool { return definitions.Identifier(a) == definitions.Identifier(b) }

// isUsed reports whether a definition that uses some tools uses that one.
func (p *parser) isUsed(doc *document, used []string, name string) bool {
	return slices.ContainsFunc(used, func(u string) bool { return p.same(u, name, doc.Tools[name]) })
}

// mayBeCalled reports whether scripts of a definition may call a tool by a name
// that only a run comes to.
func (p *parser) mayBeCalled(d *definitions.Definition, name string, said toolFile) bool {
	names := []string{name, said.Backend + "." + said.Original}
	if p.src.Tools != nil {
		if t, ok := p.src.Tools(name); ok {
			names = append(names, t.Name, t.Backend+"."+t.Original)
		}
	}
	patterns := d.ToolPatterns()
	for _, pattern := range patterns {
		patterns = append(patterns, strings.ReplaceAll(pattern, ".", "_")) // as clients see what is github.* there
	}
	return slices.ContainsFunc(names, func(name string) bool { return definitions.MatchesTool(patterns, name) })
}

// named is what the run calls a tool that the test calls so.
func (c *Case) named(name string) string {
	used := slices.Sorted(maps.Keys(c.tools))
	for _, fits := range []func(u string) bool{
		func(u string) bool { return c.tools[u].Name == name },
		func(u string) bool { return u == name },
		func(u string) bool { return spelledAlike(u, name) },
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
