package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/codes"
	"github.com/perdure/perdure/internal/registry"
	"github.com/perdure/perdure/internal/runs"
)

// An Offer is a composite tool as clients are to see it.
type Offer struct {
	registry.Entry
	As string // the tool's name; "" = the definition's
	// Missing says why there is no such tool, of which Definition then has the name
	// and the version that is wanted. "" = there is one.
	Missing string
}

// name is the tool's name on a server that puts a prefix before names.
func (o Offer) name(prefix string) string { return cmp.Or(o.As, o.Definition.ExposedName(prefix)) }

// description is what clients, and the models behind them, read of the tool.
func (o Offer) description() string {
	if why := o.Deprecated(); why != "" {
		return o.Definition.Description + "\n\nDeprecated: " + why
	}
	return o.Definition.Description
}

// composite is the composite tool that a call means, in the version that it
// wants; nil = it means none. A version that is not offered to the caller is not
// there, whoever is offered another one.
func (g *Gateway) composite(ctx context.Context, l *listing, who auth.Identity, p *params) (*composite, error) {
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
	if g.opts.Registry == nil {
		switch {
		case ref.Matches(c.def.Version):
			return c, nil
		case c.def.Version == "":
			return nil, withoutVersions(p.Name)
		}
		return nil, &registry.NotFoundError{Reference: ref, Versions: []string{cmp.Or(c.def.Version, "none")}}
	}
	entry, err := g.opts.Registry.Find(ctx, ref)
	var missing *registry.NotFoundError
	switch {
	case errors.As(err, &missing) && len(missing.Versions) == 0:
		return nil, withoutVersions(p.Name)
	case err != nil:
		return nil, g.withVersions(err, func(e registry.Entry) bool { return e.Definition != nil && MayCall(g.opts.Policy, who, e.Definition) })
	}
	if !MayCall(g.opts.Policy, who, entry.Definition) {
		return nil, &registry.NotFoundError{Reference: ref, Versions: []string{cmp.Or(c.def.Version, "none")}}
	}
	return &composite{def: entry.Definition, entry: entry}, nil
}

// finder finds the definitions that steps call: those of the registry, or of what
// is offered where there is none.
func (g *Gateway) finder() definitions.Definitions {
	if g.opts.Registry == nil {
		defs := make([]*definitions.Definition, len(g.offers))
		for i, o := range g.offers {
			defs[i] = o.Definition
		}
		return definitions.Among(defs)
	}
	return func(ref definitions.Reference) (*definitions.Definition, bool) {
		entry, err := g.opts.Registry.Resolve(ref)
		return entry.Definition, err == nil
	}
}

func withoutVersions(name string) error {
	return invalidVersion("%s has no versions, since its file states none; call it without perdure/version", name)
}

func invalidVersion(format string, args ...any) error {
	return &runs.Error{Code: codes.UnknownVersion, Category: codes.CategoryValidation, Message: fmt.Sprintf(format, args...)}
}

// checkDrift says why a run must not start because of tools that are not any
// more as they were when the definition was published.
func (g *Gateway) checkDrift(c *composite) error {
	if g.opts.Registry == nil {
		return nil
	}
	return g.opts.Registry.CheckDrift(c.entry, g.findTool)
}

// taken says why a composite tool cannot have its name, or be offered under the
// one that it wants; "" = it can.
func (g *Gateway) taken(d *definitions.Definition) string {
	l := g.listing.Load()
	for _, name := range []string{d.Name, d.ExposedName(g.opts.Prefix)} {
		if _, reserved := g.runTools[name]; reserved {
			return fmt.Sprintf("the name %s is reserved", name)
		}
		if t, ok := l.tools[name]; ok {
			return fmt.Sprintf("the tool %s of backend %s has the name %s", t.Original, t.Backend, name)
		}
		if c := l.composites[name]; c != nil && c.def.Name != d.Name {
			return fmt.Sprintf("version %s of %s is offered under the name %s", c.def.Version, c.def.Name, name)
		}
	}
	return ""
}

// mayRead reports whether somebody may read a composite tool as it was
// published: who may call it learns as much from a dry run.
func (g *Gateway) mayRead(who auth.Identity, on auth.Object) bool {
	return g.opts.Policy.May(who, auth.Call, on) || g.opts.Policy.May(who, auth.Publish, on)
}

// MayKnow reports whether somebody may know that there is a composite tool: who
// may call or publish it, or see runs of it that others have started.
func (g *Gateway) MayKnow(who auth.Identity, d *definitions.Definition) bool {
	return g.mayRead(who, callable(d)) || g.opts.Policy.May(who, auth.See, auth.Object{Tool: d.Name})
}

// mayReadVersion reports whether somebody may read one version: its expose may
// leave out who is offered another one. What is hidden is for those who publish
// it.
func (g *Gateway) mayReadVersion(who auth.Identity, e registry.Entry) bool {
	switch {
	case e.Definition == nil:
		return g.mayRead(who, auth.Object{Tool: e.Published.Name})
	case e.Definition.Hidden():
		return g.opts.Policy.May(who, auth.Publish, auth.Object{Tool: e.Definition.Name})
	}
	return g.mayRead(who, callable(e.Definition))
}
