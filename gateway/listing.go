package gateway

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// A Composite is a composite tool and whether clients can call it now.
type Composite struct {
	Name        string // as clients see it
	Definition  *definitions.Definition
	Published   *registry.Version // nil = from a file
	Hidden      bool              // only steps call it
	Available   bool
	Reason      string                  // why it is not available
	Annotations definitions.Annotations // as clients see them; of an available one
}

// A listing is what clients can call at one time. It is never changed.
type listing struct {
	tools      map[string]backends.Tool // that are not hidden, by exposed name
	composites map[string]*composite    // that are available, by the name that clients see
	all        []Composite              // in the order of SetOffers
	listed     []listedTool             // all tools, by name; about as many bytes as the list that clients get
	find       definitions.Definitions  // that steps call
}

// size is how many bytes the longest response with the list has, about.
func (l *listing) size() (bytes int64) {
	for _, t := range l.listed {
		bytes += int64(len(t.encoded)) + 1
		if t.composite {
			bytes += int64(len(forTasks))
		}
	}
	return bytes
}

// lists reports whether another listing has the same tools, all as they are.
func (l *listing) lists(other *listing) bool {
	return slices.EqualFunc(l.listed, other.listed, func(x, y listedTool) bool { return bytes.Equal(x.encoded, y.encoded) })
}

// A composite is an available composite tool.
type composite struct {
	def    *definitions.Definition
	entry  registry.Entry
	output *definitions.JSONSchema // nil = any output
}

// definitions are those of the composites, by the name that prefixes the IDs of their
// runs; clients may call them by another.
func (l *listing) definitions() map[string]*definitions.Definition {
	all := map[string]*definitions.Definition{}
	for _, c := range l.composites {
		all[c.def.Name] = c.def
	}
	return all
}

// callable is the name that rights apply to: for a composite tool that of its
// definition, whatever name it is offered as, since the definition sets who sees it.
func (l *listing) callable(tool string) auth.Object {
	c := l.composites[tool]
	if c == nil {
		return auth.Object{Tool: tool}
	}
	return callable(c.def)
}

// fits returns whether a value may be the structured content of a tool.
func (l *listing) fits(tool string) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		c := l.composites[tool]
		return c == nil || c.output == nil || c.output.Accepts(value)
	}
}

func callable(d *definitions.Definition) auth.Object {
	on := auth.Object{Tool: d.Name, Hidden: d.Expose.Hidden}
	if e := d.Expose; len(e.Groups)+len(e.Subjects) > 0 {
		on.Only = &auth.Grant{Groups: e.Groups, Subjects: e.Subjects}
	}
	return on
}

// callableBy is the same where another composite tool calls it.
func callableBy(caller string, d *definitions.Definition) auth.Object {
	on := callable(d)
	on.Admitted = d.Expose.Admits(caller)
	return on
}

// MayCall reports whether an identity may call a composite tool directly, rather than
// through another composite tool.
func MayCall(p *auth.Policy, who auth.Identity, d *definitions.Definition) bool {
	return p.May(who, auth.Call, callable(d))
}

// MayCallFrom reports whether a run of another composite tool may call one, by
// the right of who.
func MayCallFrom(p *auth.Policy, caller string, who auth.Identity, d *definitions.Definition) bool {
	return p.May(who, auth.Call, callableBy(caller, d))
}

// linkable reports whether no client has a schema of a run's output. The run belongs to
// a definition, under any names and versions that are offered.
func (l *listing) linkable(id runs.RunID) bool {
	name := toolOf(id)
	known := runs.IsSentScript(id)
	for _, c := range l.composites {
		if c.def.Name != name {
			continue
		}
		if c.def.Output != nil {
			return false
		}
		known = true
	}
	return known
}
