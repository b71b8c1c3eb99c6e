package convert

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// result writes the return of the script.
func (c *converter) result() error {
	all := make([]string, len(c.program.Order()))
	d := &dot{converter: c, where: "output", steps: map[string]state{}, every: true, ended: true}
	for i, n := range c.program.Order() {
		all[i] = c.state(n.ID).whole()
		d.steps[n.ID] = c.state(n.ID)
	}
	block := c.program.Definition.Output
	if last := c.program.Order()[len(all)-1].ID; block == nil && c.plain[last] {
		c.line(0, "return %s", c.vars[last])
		return nil
	}
	if block == nil {
		c.line(0, "return last_output(%s)", strings.Join(all, ", "))
		return nil
	}
	properties, err := d.properties(1, block.Properties, "")
	if err != nil {
		return err
	}
	required := ""
	if len(block.Required) > 0 {
		required = ", " + literalOf(anys(block.Required))
	}
	c.line(0, "return output_block(lambda: %s%s)", properties, required)
	return nil
}

// properties is the dict of an output block, or of an object in it.
func (d *dot) properties(indent int, properties map[string]*definitions.Property, path string) (string, error) {
	var b strings.Builder
	missing := false
	for _, name := range template.SortedKeys(properties) {
		p := properties[name]
		value, err := d.property(indent, p, path+name)
		if err != nil {
			return "", err
		}
		missing = missing || p.Type == "string" && p.Default == nil
		fmt.Fprintf(&b, "%s%s: %s,\n", strings.Repeat("    ", indent), starlarkText(name), value)
	}
	object := "{\n" + b.String() + strings.Repeat("    ", indent-1) + "}"
	if missing { // a missing text is left out
		object = "given" + "(" + object + ")"
	}
	return object, nil
}

func (d *dot) property(indent int, p *definitions.Property, path string) (string, error) {
	value, err := d.propertyValue(indent, p, path)
	switch {
	case err != nil:
		return "", err
	case p.Default != nil:
		v, err := template.AsType(p.Default, p.Type)
		if err != nil {
			return "", d.converter.lacks("output."+path+": default", "output.properties", err.Error()+": give it the type that it stands in for")
		}
		return fmt.Sprintf("otherwise(lambda: %s, %s)", value, literalOf(v)), nil
	}
	return value, nil
}

func (d *dot) propertyValue(indent int, p *definitions.Property, path string) (string, error) {
	if p.Properties != nil {
		return d.properties(indent+1, p.Properties, path+".")
	}
	if code, ok := d.container(path, p.Value); ok && (p.Type == "array" || p.Type == "object") {
		return fmt.Sprintf("as_output(%s, %s, %s)", starlarkText(path), starlarkText(p.Type), code), nil
	}
	e, err := d.value(path, p.Value, []string{p.Type})
	switch inner, read := strings.CutPrefix(e.code, "as_kind("); {
	case err != nil || p.Type == "string":
		return e.code, err
	case read:
		return fmt.Sprintf("read_output(%s, %s, %s)", starlarkText(path), starlarkText(p.Type), strings.TrimSuffix(inner, fmt.Sprintf(", %s)", starlarkText(p.Type)))), nil
	}
	return fmt.Sprintf("as_output(%s, %s, %s)", starlarkText(path), starlarkText(p.Type), e.code), nil
}

// Definition is a definition with the script in place of its steps. Properties of its
// output block keep their types; their values come from the script.
func Definition(d *definitions.Definition, script string) *definitions.Definition {
	converted := d.Clone()
	converted.Steps, converted.Script = nil, script
	for _, s := range d.Steps {
		for ; s != nil; s = s.Step {
			converted.Tools = append(converted.Tools, s.Tools...)
		}
	}
	if d.Output != nil {
		converted.Output = &definitions.Output{Properties: withoutValues(d.Output.Properties), Required: d.Output.Required}
	}
	return converted
}

func withoutValues(properties map[string]*definitions.Property) map[string]*definitions.Property {
	bare := make(map[string]*definitions.Property, len(properties))
	for _, name := range template.SortedKeys(properties) {
		p := *properties[name]
		switch {
		case p.Properties != nil && p.Default != nil: // the default replaces all of it
			p.Properties = nil
		case p.Properties != nil:
			p.Properties = withoutValues(p.Properties)
		}
		p.Value, p.Default = "", nil // the script gives it
		bare[name] = &p
	}
	return bare
}
