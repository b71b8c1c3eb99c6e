package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/internal/backends"
)

// A builder makes one listing.
type builder struct {
	t       *toolset
	steps   definitions.Tools
	listing *listing
	served  []server.ServerTool
	reasons map[string]string // why a tool is omitted, by name
}

func (b *builder) addBuiltIn() {
	for _, t := range b.t.builtIn {
		_ = b.serve(t)
	}
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
	for _, t := range b.t.backends.Tools() {
		if t.Hidden {
			continue
		}
		if err := b.addTool(t); err != nil {
			b.reasons[t.Name] = fmt.Sprintf("tool %s of backend %s: %v", t.Original, t.Backend, err)
		}
	}
}

func (b *builder) addTool(t backends.Tool) error {
	if _, taken := b.listing.tools[t.Name]; taken || b.t.isBuiltIn(t.Name) || t.Name == "" {
		return fmt.Errorf("its name %q is taken or empty", t.Name)
	}
	// Also for an unavailable one: a backend's tool would replace it.
	if slices.ContainsFunc(b.listing.all, func(c Composite) bool { return c.Name == t.Name && !c.Hidden }) {
		return fmt.Errorf("its name %q is that of a composite tool", t.Name)
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

// addComposite lists a composite tool if it can be called.
func (b *builder) addComposite(o Offer) {
	entry := Composite{Name: o.name(b.t.prefix), Hidden: o.Definition.Expose.Hidden, Definition: o.Definition, Published: o.Published}
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
	hints, err := d.DeriveAnnotations(b.steps, b.listing.find)
	if err != nil && !b.usesUnseen(d) { // what cannot be known yet contradicts nothing
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

// outputSchema is the schema of the answers to calls: of the result, and where the run
// may wait, of a handle as well. nil = any.
func (b *builder) outputSchema(d *definitions.Definition) (json.RawMessage, error) {
	output := d.OutputSchema()
	called, _ := d.Called(b.listing.find)
	waits := slices.ContainsFunc(append(called, d), func(d *definitions.Definition) bool { return d.Waits(b.steps) })
	if output == nil || !waits {
		return output, nil
	}
	return resultOrHandle(output)
}

// complete reports what a composite tool, or one that it calls, uses and is not there.
func (b *builder) complete(d *definitions.Definition) error {
	called, missing := d.Called(b.listing.find)
	if len(missing) > 0 {
		return fmt.Errorf("it calls the composite tool %s, which was not found", missing[0])
	}
	for i, used := range append([]*definitions.Definition{d}, called...) {
		if err := used.Scripts().Loadable(); err != nil {
			if i == 0 {
				return err
			}
			return fmt.Errorf("it calls the composite tool %s: %w", used.Name, err)
		}
		for _, name := range used.ToolNames() {
			if _, ok := b.steps(name); ok {
				continue
			}
			if _, mayCome := b.t.unseen(name); mayCome { // calls return the error
				continue
			}
			if i == 0 {
				return fmt.Errorf("it uses the tool %s, which no backend offers; perdure validate names the nearest", name)
			}
			return fmt.Errorf("it needs the tool %s, which no backend offers, through the composite tool %s; perdure validate names the nearest", name, used.Name)
		}
	}
	return nil
}

// usesUnseen reports whether a backend that has not answered yet may offer a tool that a
// composite tool, or one that it calls, uses.
func (b *builder) usesUnseen(d *definitions.Definition) bool {
	called, _ := d.Called(b.listing.find)
	for _, used := range append(called, d) {
		if slices.ContainsFunc(used.ToolNames(), func(name string) bool {
			_, mayCome := b.t.unseen(name)
			return mayCome
		}) {
			return true
		}
	}
	return false
}

// clash reports why a composite tool cannot have its name.
func (b *builder) clash(name string) error {
	switch {
	case b.listing.composites[name] != nil:
		return fmt.Errorf("another composite tool has the name %s", name)
	case b.t.isBuiltIn(name):
		return fmt.Errorf("the name %s is reserved", name)
	}
	return nil
}

func (b *builder) finish() {
	slices.SortFunc(b.served, func(x, y server.ServerTool) int {
		return bytes.Compare([]byte(x.Tool.Name), []byte(y.Tool.Name))
	})
	for _, t := range b.served {
		name := t.Tool.Name
		b.listing.listed = append(b.listing.listed, listedTool{name: name, composite: b.listing.composites[name] != nil, encoded: mustEncode(t.Tool)})
	}
}
