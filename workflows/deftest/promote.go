package deftest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A Promoted is a definition made from a script that completed, and the test that
// repeats the run.
type Promoted struct {
	Definition []byte // a definition file
	Test       []byte // a test file; nil = the script called composite tools, which are not recorded

	// Nulls are members of the result that were null. Their types are unknown, so the
	// output block leaves them out.
	Nulls []string
}

// Promote makes a definition from a run of a script: parameters from the run's data,
// the output block from its result. An empty description names the run.
func (r *Recording) Promote(name, description string) (*Promoted, error) {
	if r.Failure != nil {
		return nil, fmt.Errorf("run %s has failed (%s); only a script that ran well is made a definition", r.Run, r.Failure.Error.Code)
	}
	d, err := definitions.FromSource(r.Input.Definition.Source)
	if err != nil {
		return nil, fmt.Errorf("reading the definition of run %s: %w", r.Run, err)
	}
	if !d.IsScript() {
		return nil, fmt.Errorf("run %s is not that of a script: %s has steps", r.Run, d.Name)
	}
	data, err := template.DecodeValue(r.Input.Arguments)
	if err != nil {
		return nil, fmt.Errorf("reading the data of run %s: %w", r.Run, err)
	}
	result, err := template.DecodeValue(r.Output)
	if err != nil {
		return nil, fmt.Errorf("reading the result of run %s: %w", r.Run, err)
	}
	m := r.scriptDefinition(d, name, description, data)
	again := *r
	var nulls []string
	if members, ok := result.(map[string]any); ok && hasTypes(members) {
		m.add("output", written(map[string]any{"properties": propertiesOf(members, "")}))
		nulls = dropNulls(members, "")
		if again.Output, err = template.EncodeValue(members); err != nil {
			return nil, fmt.Errorf("writing the result of run %s: %w", r.Run, err)
		}
	}
	p, err := again.promoted(name, m.node())
	if err != nil {
		return nil, err
	}
	p.Nulls = nulls
	return p, nil
}

// scriptDefinition is the definition of a script that had these data, without its output.
func (r *Recording) scriptDefinition(d *definitions.Definition, name, description string, data any) (m mapping) {
	m.text("name", name)
	m.text("description", cmp.Or(description, "Made of the script of run "+r.Run+"."))
	m.add("parameters", written(schemaOf(data)))
	if d.Timeout != 0 {
		m.text("timeout", d.Timeout.String())
	}
	m.text("script", d.Script)
	if len(d.Modules) > 0 {
		modules := map[string]any{}
		for name, text := range d.Modules {
			modules[name] = text
		}
		m.add("modules", written(modules))
	}
	if len(d.Pinned) > 0 {
		pinned := map[string]any{}
		for name, pin := range d.Pinned {
			pinned[name] = map[string]any{"version": pin.Version, "digest": pin.Digest}
		}
		m.add("pinned", written(pinned))
	}
	if d.Scripts().CallDynamically() {
		m.add("tools", written(r.called()))
	}
	return m
}

// called gives the names of tools and composite tools that the run has called.
func (r *Recording) called() []any {
	names := map[string]bool{}
	for _, call := range r.Calls {
		names[call.Tool] = true
	}
	for _, name := range r.Composites {
		names[name] = true
	}
	var called []any
	for _, name := range slices.Sorted(maps.Keys(names)) {
		called = append(called, name)
	}
	return called
}

func (r *Recording) promoted(name string, definition *yaml.Node) (*Promoted, error) {
	text, err := encode(definition)
	if err != nil {
		return nil, err
	}
	p := &Promoted{Definition: []byte(text)}
	defs, diags := definitions.Parse(name+".yaml", p.Definition)
	if diags = append(diags, definitions.Check(defs, definitions.CheckOptions{})...); diags.HasErrors() {
		return nil, fmt.Errorf("the script makes no definition: %w", diags.Err())
	}
	if len(r.Composites) > 0 {
		return p, nil
	}
	again := *r
	again.Input.Definition.Source = defs[0].Source()
	if p.Test, err = again.testFile(written(name + ".yaml")); err != nil {
		return nil, err
	}
	return p, nil
}

// Check runs the test as a file beside the definition's.
func (p *Promoted) Check(definition, test string) error {
	if p.Test == nil {
		return nil
	}
	file, diags := Parse(test, p.Test, Sources{ReadFile: func(name string) ([]byte, error) {
		if filepath.Clean(name) == filepath.Clean(definition) {
			return p.Definition, nil
		}
		return nil, os.ErrNotExist
	}})
	if diags.HasErrors() {
		return diags.Err()
	}
	for _, c := range file.Cases {
		result := c.Run()
		var problems []string
		for _, problem := range result.Problems {
			problems = append(problems, strings.TrimSpace(problem.Message+"\n"+problem.Diff))
		}
		if problems != nil {
			return errors.New(strings.Join(problems, "\n"))
		}
	}
	return nil
}

// schemaOf is a JSON Schema that a value fits, with all members of objects.
func schemaOf(v any) map[string]any {
	schema := map[string]any{"type": typeOf(v)}
	switch v := v.(type) {
	case map[string]any:
		properties, required := map[string]any{}, []any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			properties[name] = schemaOf(v[name])
			required = append(required, name)
		}
		schema["properties"] = properties
		if len(required) > 0 {
			schema["required"] = required
		}
	case []any:
		if len(v) > 0 && alike(v) {
			schema["items"] = map[string]any{"type": typeOf(v[0])}
		}
	case nil:
		delete(schema, "type")
	}
	return schema
}

func alike(elems []any) bool {
	return !slices.ContainsFunc(elems, func(e any) bool { return e == nil || typeOf(e) != typeOf(elems[0]) })
}

// typeOf is the type of a value in JSON Schema.
func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case template.Float:
		return "number"
	case nil:
		return "null"
	}
	return "integer"
}

// propertiesOf gives properties of an output block for members. A null is left out,
// since its type is unknown.
func propertiesOf(members map[string]any, within string) map[string]any {
	properties := map[string]any{}
	for name, v := range members {
		if v == nil {
			continue
		}
		p := map[string]any{"type": typeOf(v), "description": strings.TrimSpace("What the script returns as " + within + name)}
		if inner, ok := v.(map[string]any); ok && hasTypes(inner) {
			p["properties"] = propertiesOf(inner, within+name+".")
		}
		properties[name] = p
	}
	return properties
}

// hasTypes reports whether any member is not null.
func hasTypes(members map[string]any) bool {
	for _, v := range members {
		if v != nil {
			return true
		}
	}
	return false
}

// dropNulls removes from a result what propertiesOf leaves out, and returns the names.
func dropNulls(members map[string]any, within string) (dropped []string) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		v := members[name]
		inner, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(members, name)
			dropped = append(dropped, within+name)
		case ok && hasTypes(inner):
			dropped = append(dropped, dropNulls(inner, within+name+".")...)
		}
	}
	return dropped
}
