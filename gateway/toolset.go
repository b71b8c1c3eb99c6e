package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// A toolset is what clients can call: composite tools, tools of the backends and
// built-in ones. It is rebuilt, and clients are notified, when the composite tools or
// the backends change.
type toolset struct {
	backends Catalogue
	registry *registry.Registry // nil = there are only the versions that are offered
	policy   *auth.Policy
	prefix   string
	builtIn  map[string]mcp.Tool
	mcp      *server.MCPServer // lists the tools
	log      *slog.Logger

	listing atomic.Pointer[listing]
	mu      sync.Mutex // guards what follows
	offers  []Offer
	reasons map[string]string // what was logged last of tools that are not listed
}

// list has mcp-go list the tools from now on.
func (t *toolset) list(at *server.MCPServer) {
	t.mcp = at
	t.rebuild()
}

// reserve adds a built-in tool.
func (t *toolset) reserve(tool mcp.Tool) { t.builtIn[tool.Name] = tool }

// reserved gives a tool of the gateway's own; the zero Tool = there is none.
func (t *toolset) reserved(name string) mcp.Tool { return t.builtIn[name] }

// offer replaces the composite tools.
func (t *toolset) offer(offers []Offer) {
	t.mu.Lock()
	t.offers = offers
	t.mu.Unlock()
	t.rebuild()
}

// rebuild rebuilds the listing after a change of the definitions or of the catalogue,
// and notifies clients if it differs.
func (t *toolset) rebuild() {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := &builder{t: t, steps: t.steps(), listing: &listing{tools: map[string]backends.Tool{}, composites: map[string]*composite{}}, reasons: map[string]string{}}
	b.listing.find = t.finder()
	b.addBuiltIn()
	for _, o := range t.offers {
		b.addComposite(o)
	}
	b.addTools()
	b.finish()
	t.logReasons(b.reasons)
	old := t.listing.Swap(b.listing)
	if old == nil || !old.lists(b.listing) {
		t.mcp.SetTools(b.served...)
	}
}

// logReasons logs once why a tool is not offered, and once that it is again.
func (t *toolset) logReasons(now map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if t.reasons[name] != now[name] {
			t.log.Warn("tool is not offered", "tool", name, "reason", now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.reasons)) {
		if now[name] == "" {
			t.log.Info("tool is no longer withheld", "tool", name)
		}
	}
	t.reasons = now
}

// now is what clients can call.
func (t *toolset) now() *listing { return t.listing.Load() }

func (t *toolset) isBuiltIn(name string) bool {
	_, ok := t.builtIn[name]
	return ok
}

// served is a tool as mcp-go lists it; nil = it does not.
func (t *toolset) served(name string) *mcp.Tool {
	if tool := t.mcp.GetTool(name); tool != nil {
		return &tool.Tool
	}
	return nil
}

// composite is the composite tool that a call means, in the version that it
// wants; nil = it means none. A version that is not offered to the caller is not
// there, no matter who is offered another one.
func (t *toolset) composite(ctx context.Context, l *listing, who auth.Identity, p *params) (*composite, error) {
	c := l.composites[p.Name]
	version := strings.TrimSpace(p.Meta.Version)
	switch {
	case version == "":
		return c, nil
	case c == nil:
		return nil, invalidVersion("%s is not a composite tool: it has no versions", p.Name)
	}
	ref := definitions.Reference{Name: c.def.Name, Version: version}
	if err := ref.Check(); err != nil {
		return nil, invalidVersion("perdure/version: %v", err)
	}
	if t.registry == nil {
		switch {
		case ref.Matches(c.def.Version):
			return c, nil
		case c.def.Version == "":
			return nil, withoutVersions(p.Name)
		}
		return nil, &registry.NotFoundError{Reference: ref, Versions: []string{cmp.Or(c.def.Version, "none")}}
	}
	entry, err := t.registry.Find(ctx, ref)
	var missing *registry.NotFoundError
	switch {
	case errors.As(err, &missing) && len(missing.Versions) == 0:
		return nil, withoutVersions(p.Name)
	case err != nil:
		return nil, t.withVersions(err, func(e registry.Entry) bool { return e.Definition != nil && MayCall(t.policy, who, e.Definition) })
	}
	if !MayCall(t.policy, who, entry.Definition) {
		return nil, &registry.NotFoundError{Reference: ref, Versions: []string{cmp.Or(c.def.Version, "none")}}
	}
	return &composite{def: entry.Definition, entry: entry}, nil
}

// withVersions leaves of the versions that an error names those that its receiver may
// know.
func (t *toolset) withVersions(err error, known func(registry.Entry) bool) error {
	var missing *registry.NotFoundError
	if !errors.As(err, &missing) {
		return err
	}
	shown := &registry.NotFoundError{Reference: missing.Reference, Versions: slices.Clone(missing.Versions)}
	for _, e := range t.registry.Versions(missing.Reference.Name) {
		if !known(e) {
			shown.Versions = slices.DeleteFunc(shown.Versions, func(v string) bool { return v == e.Published.Version })
		}
	}
	return shown
}

func withoutVersions(name string) error {
	return invalidVersion("%s has no versions, since its file states none; call it without perdure/version", name)
}

func invalidVersion(format string, args ...any) error {
	return &runs.Error{Code: codes.UnknownVersion, Category: codes.CategoryValidation, Message: fmt.Sprintf(format, args...)}
}

// checkDrift reports why a run must not start because of tools that are not any more as
// they were when the definition was published.
func (t *toolset) checkDrift(c *composite) error {
	if t.registry == nil || c.entry.Published == nil {
		return nil
	}
	return t.registry.CheckDrift(c.entry, t.steps())
}

// taken reports why a composite tool cannot have its name, or be offered under the one
// that it wants; "" = it can.
func (t *toolset) taken(d *definitions.Definition) string {
	l := t.now()
	for _, name := range []string{d.Name, d.Expose.Name(t.prefix, d.Name)} {
		if t.isBuiltIn(name) {
			return fmt.Sprintf("the name %s is reserved", name)
		}
		if b, ok := l.tools[name]; ok {
			return fmt.Sprintf("the tool %s of backend %s has the name %s", b.Original, b.Backend, name)
		}
		if c := l.composites[name]; c != nil && c.def.Name != d.Name {
			return fmt.Sprintf("version %s of %s is offered under the name %s", c.def.Version, c.def.Name, name)
		}
	}
	return ""
}

// finder finds the definitions that steps call: those of the registry, or of what
// is offered where there is none.
func (t *toolset) finder() definitions.Definitions {
	if t.registry == nil {
		defs := make([]*definitions.Definition, len(t.offers))
		for i, o := range t.offers {
			defs[i] = o.Definition
		}
		return definitions.Among(defs)
	}
	return func(ref definitions.Reference) (*definitions.Definition, bool) {
		entry, err := t.registry.Resolve(ref)
		return entry.Definition, err == nil
	}
}

// calledBy is the composite tool that a step calls.
func (t *toolset) calledBy(s *definitions.Step) (*definitions.Definition, bool) {
	ref, err := definitions.ParseReference(s.Workflow)
	if err != nil {
		return nil, false
	}
	return t.now().find(ref)
}

// steps finds tools by the names that steps use.
func (t *toolset) steps() definitions.Tools { return StepTools(t.backends) }

// all are the tools of all backends, as steps see them.
func (t *toolset) all() []definitions.Tool {
	var all []definitions.Tool
	for _, t := range t.backends.Tools() {
		all = append(all, stepTool(t))
	}
	return all
}

// ofBackend finds a backend's tool, also one that is hidden.
func (t *toolset) ofBackend(name string) (backends.Tool, bool) { return t.backends.Find(name) }

// ofBackends are all tools of the backends, hidden ones included.
func (t *toolset) ofBackends() []backends.Tool { return t.backends.Tools() }

// backendsOf are the backends of the tools of a definition, and of those of the
// definitions that it calls.
func (t *toolset) backendsOf(d *definitions.Definition, tools map[string]definitions.Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Backend)
	}
	called, _ := d.Called(t.now().find)
	find := t.steps()
	for _, other := range called {
		for _, name := range other.ToolNames() {
			if t, ok := find(name); ok {
				names = append(names, t.Backend)
			}
		}
	}
	return names
}
