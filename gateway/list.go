package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/gateway/auth"
	"github.com/perdure/perdure/internal/backends"
	"github.com/perdure/perdure/internal/registry"
)

// A Composite is a composite tool and whether clients can call it now.
type Composite struct {
	Name        string // as clients see it
	Definition  *definitions.Definition
	Published   *registry.Version // nil = it stands in a file
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
	listed     []byte                   // all tools as they are listed, to see changes
	find       definitions.Definitions  // that steps call
}

// A composite is an available composite tool.
type composite struct {
	def    *definitions.Definition
	entry  registry.Entry
	output *definitions.JSONSchema // nil = any output
}

// definitions are those of the composites, by the name with which the IDs of their
// runs begin, whatever clients call them.
func (l *listing) definitions() map[string]*definitions.Definition {
	all := map[string]*definitions.Definition{}
	for _, c := range l.composites {
		all[c.def.Name] = c.def
	}
	return all
}

// callable is what rights to call a tool are about: a composite tool goes by the
// name of its definition, whatever it is offered as, which says who sees it.
func (l *listing) callable(tool string) auth.Object {
	c := l.composites[tool]
	if c == nil {
		return auth.Object{Tool: tool}
	}
	return callable(c.def)
}

func callable(d *definitions.Definition) auth.Object {
	on := auth.Object{Tool: d.Name, Hidden: d.Hidden()}
	if e := d.Expose; e != nil && len(e.Groups)+len(e.Subjects) > 0 {
		on.Only = &auth.Grant{Groups: e.Groups, Subjects: e.Subjects}
	}
	return on
}

// callableBy is the same where another composite tool calls it.
func callableBy(caller string, d *definitions.Definition) auth.Object {
	on := callable(d)
	on.Admitted = d.Admits(caller)
	return on
}

// MayCall reports whether somebody may call a composite tool by themselves,
// rather than another composite tool that calls it.
func MayCall(p *auth.Policy, who auth.Identity, d *definitions.Definition) bool {
	return p.May(who, auth.Call, callable(d))
}

// MayCallFrom reports whether a run of another composite tool may call one, by
// the right of who.
func MayCallFrom(p *auth.Policy, caller string, who auth.Identity, d *definitions.Definition) bool {
	return p.May(who, auth.Call, callableBy(caller, d))
}

// fits returns whether a value may be the structured content of a tool.
func (l *listing) fits(tool string) func(json.RawMessage) bool {
	return func(value json.RawMessage) bool {
		c := l.composites[tool]
		return c == nil || c.output == nil || c.output.Accepts(value)
	}
}

// Composites are all composite tools in the order in which they were given.
func (g *Gateway) Composites() []Composite { return slices.Clone(g.listing.Load().all) }

// rebuild makes the listing anew after a change of the definitions or of the
// catalogue, and tells clients if it is another one.
func (g *Gateway) rebuild() {
	g.rebuildMu.Lock()
	defer g.rebuildMu.Unlock()
	b := &builder{g: g, listing: &listing{tools: map[string]backends.Tool{}, composites: map[string]*composite{}}, reasons: map[string]string{}}
	b.listing.find = g.finder()
	b.addRunTools()
	for _, o := range g.offers {
		b.addComposite(o)
	}
	b.addTools()
	b.finish()
	g.logReasons(b.reasons)
	old := g.listing.Swap(b.listing)
	if old == nil || !bytes.Equal(old.listed, b.listing.listed) {
		g.mcp.SetTools(b.served...)
	}
}

// logReasons says once why a tool is not offered, and once that it is again.
func (g *Gateway) logReasons(now map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if g.reasons[name] != now[name] {
			g.log.Warn("tool is not offered", "tool", name, "reason", now[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.reasons)) {
		if now[name] == "" {
			g.log.Info("tool is offered again or gone", "tool", name)
		}
	}
	g.reasons = now
}

// A builder makes one listing.
type builder struct {
	g       *Gateway
	listing *listing
	served  []server.ServerTool
	reasons map[string]string // why a tool is left out, by name
}

func (b *builder) serve(t mcp.Tool) error {
	if err := mcp.ValidateParamHeaderAnnotations(&t); err != nil {
		return fmt.Errorf("its x-mcp-header annotations are invalid: %w", err)
	}
	b.served = append(b.served, server.ServerTool{Tool: t, Handler: notAdmitted})
	return nil
}

// addTools lists what the backends offer, except what would harm the list.
func (b *builder) addTools() {
	for _, t := range b.g.opts.Catalogue.Tools() {
		if t.Hidden {
			continue
		}
		if err := b.addTool(t); err != nil {
			b.reasons[t.Name] = fmt.Sprintf("tool %s of backend %s: %v", t.Original, t.Backend, err)
		}
	}
}

func (b *builder) addTool(t backends.Tool) error {
	if _, taken := b.listing.tools[t.Name]; taken || b.isRunTool(t.Name) || t.Name == "" {
		return fmt.Errorf("its name %q is taken or empty", t.Name)
	}
	// Also of one that is not available: a backend would stand in for it.
	if slices.ContainsFunc(b.listing.all, func(c Composite) bool { return c.Name == t.Name && !c.Hidden }) {
		return fmt.Errorf("its name %q is that of a composite tool, which clients call by it", t.Name)
	}
	input := orObject(t.InputSchema)
	if !isObject(input) || len(t.OutputSchema) > 0 && !isObject(t.OutputSchema) {
		return fmt.Errorf("its schema is not a JSON object")
	}
	err := b.serve(mcp.Tool{
		Name:            t.Name,
		Title:           t.Title,
		Description:     t.Description,
		RawInputSchema:  input,
		RawOutputSchema: t.OutputSchema,
		Annotations:     mcp.ToolAnnotation(t.Annotations),
	})
	if err == nil {
		b.listing.tools[t.Name] = t
	}
	return err
}

func orObject(schema json.RawMessage) json.RawMessage {
	if isNull(schema) {
		return json.RawMessage(`{"type":"object"}`)
	}
	return schema
}

func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{' && json.Valid(raw)
}

func (b *builder) isRunTool(name string) bool {
	_, ok := b.g.runTools[name]
	return ok
}

// addComposite lists a composite tool if it can be called.
func (b *builder) addComposite(o Offer) {
	entry := Composite{Name: o.name(b.g.opts.Prefix), Hidden: o.Definition.Hidden(), Definition: o.Definition, Published: o.Published}
	offer := b.offer
	if o.Missing != "" {
		offer = func(o Offer, _ *Composite) error { return errors.New(o.Missing) }
	} else if entry.Hidden {
		offer = func(o Offer, _ *Composite) error { return b.complete(o.Definition) }
	}
	if err := offer(o, &entry); err != nil {
		entry.Reason = err.Error()
		b.reasons[entry.Name] = "composite tool: " + entry.Reason
	}
	entry.Available = entry.Reason == ""
	b.listing.all = append(b.listing.all, entry)
}

func (b *builder) offer(o Offer, entry *Composite) error {
	d := o.Definition
	if err := b.clash(entry.Name); err != nil {
		return err
	}
	if err := b.complete(d); err != nil {
		return err
	}
	hints, err := d.DeriveAnnotations(b.g.findTool, b.listing.find)
	if err != nil {
		return fmt.Errorf("annotations: %w", err)
	}
	c := &composite{def: d, entry: o.Entry}
	output, err := b.outputSchema(d)
	if err == nil && output != nil {
		c.output, err = definitions.CompileSchema(output)
	}
	if err != nil {
		return fmt.Errorf("output schema: %w", err)
	}
	err = b.serve(mcp.Tool{
		Name:            entry.Name,
		Title:           hints.Title,
		Description:     o.description(),
		RawInputSchema:  d.InputSchema(),
		RawOutputSchema: output,
		Annotations:     mcp.ToolAnnotation(hints),
	})
	if err == nil {
		entry.Annotations = hints
		b.listing.composites[entry.Name] = c
	}
	return err
}

// outputSchema is that of what calls are answered with: of the result, and where
// the run may wait for somebody or something, of a handle as well. nil = any.
func (b *builder) outputSchema(d *definitions.Definition) (json.RawMessage, error) {
	output := d.OutputSchema()
	called, _ := d.Called(b.listing.find)
	waits := slices.ContainsFunc(append(called, d), func(d *definitions.Definition) bool { return d.Waits(b.g.findTool) })
	if output == nil || !waits {
		return output, nil
	}
	return resultOrHandle(output)
}

// complete says what a composite tool, or one that it calls, uses and is not
// there.
func (b *builder) complete(d *definitions.Definition) error {
	called, missing := d.Called(b.listing.find)
	if len(missing) > 0 {
		return fmt.Errorf("composite tool %s, which it calls, not found", missing[0])
	}
	for i, used := range append([]*definitions.Definition{d}, called...) {
		if err := used.Loadable(); err != nil {
			if i == 0 {
				return err
			}
			return fmt.Errorf("of the composite tool %s, which it calls: %w", used.Name, err)
		}
		for _, name := range used.ToolNames() {
			if _, ok := b.g.findTool(name); ok {
				continue
			}
			if i == 0 {
				return fmt.Errorf("no backend offers the tool %s that it uses", name)
			}
			return fmt.Errorf("no backend offers the tool %s that the composite tool %s uses, which it calls", name, used.Name)
		}
	}
	return nil
}

// clash says why a composite tool cannot have its name.
func (b *builder) clash(name string) error {
	switch {
	case b.listing.composites[name] != nil:
		return fmt.Errorf("another composite tool has the name %s", name)
	case b.isRunTool(name):
		return fmt.Errorf("the name %s is reserved", name)
	}
	return nil
}

func (b *builder) finish() {
	slices.SortFunc(b.served, func(x, y server.ServerTool) int {
		return bytes.Compare([]byte(x.Tool.Name), []byte(y.Tool.Name))
	})
	for _, t := range b.served {
		b.listing.listed = append(b.listing.listed, mustEncode(t.Tool)...)
	}
}

// findTool finds a tool by the name that steps use.
func (g *Gateway) findTool(name string) (definitions.Tool, bool) {
	return StepTools(g.opts.Catalogue)(name)
}

// allTools are the tools of all backends, as steps see them.
func (g *Gateway) allTools() []definitions.Tool {
	var all []definitions.Tool
	for _, t := range g.opts.Catalogue.Tools() {
		all = append(all, stepTool(t))
	}
	return all
}

// StepTools are the tools of a catalogue as steps see them.
func StepTools(all Finder) definitions.Tools {
	return func(name string) (definitions.Tool, bool) {
		t, ok := all.Find(name)
		if !ok {
			t, ok = spelled(all.Tools(), name)
		}
		if !ok {
			return definitions.Tool{}, false
		}
		return stepTool(t), true
	}
}

// A Finder knows the tools of the backends; a Catalogue is one.
type Finder interface {
	Tools() []backends.Tool
	Find(name string) (backends.Tool, bool)
}

// spelled finds a tool by its name as scripts spell it, in which letters that no
// identifier has are underscores: github.pull_request for pull-request.
func spelled(tools []backends.Tool, name string) (found backends.Tool, ok bool) {
	for _, t := range tools {
		if definitions.Identifier(t.Name) == name || definitions.Identifier(t.Backend)+"."+definitions.Identifier(t.Original) == name {
			if ok { // which of them is meant cannot be told
				return backends.Tool{}, false
			}
			found, ok = t, true
		}
	}
	return found, ok
}

func stepTool(t backends.Tool) definitions.Tool {
	hints := definitions.Annotations(t.Annotations)
	return definitions.Tool{
		Name:         t.Name,
		Backend:      t.Backend,
		Original:     t.Original,
		InputSchema:  t.InputSchema,
		OutputSchema: t.OutputSchema,
		Annotations:  &hints,
		Effect:       definitions.Effect(t.Effect),
		OnUnknown:    definitions.OnUnknown(t.OnUnknown),
		KeyArgument:  t.KeyArgument,
		Probe:        probeOf(t),
		Limited:      t.Limited,
		Description:  t.Description,
	}
}

// probeOf is the probe of a backend tool, whose tool is one of the same backend.
func probeOf(t backends.Tool) *definitions.Probe {
	var p definitions.Probe
	if len(t.Probe) == 0 || json.Unmarshal(t.Probe, &p) != nil {
		return nil
	}
	p.Tool = t.Backend + "." + p.Tool
	return &p
}
