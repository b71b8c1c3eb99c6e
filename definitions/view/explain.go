package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// An Explanation has the value of each template of a step, with given data.
type Explanation struct {
	Step   string              `json:"step"` // "output" for the output block
	Fields []ExplainedField    `json:"fields"`
	Script []PlannedScriptCall `json:"script,omitempty"` // calls of the step's script, as far as visible
}

// An ExplainedField is one text of a step and its value.
type ExplainedField struct {
	Field       string                `json:"field"` // e.g. arguments.outer.inner; that of an inner step starts with step.
	Template    string                `json:"template"`
	Expressions []template.Expression `json:"expressions,omitempty"` // what is in {{ }}, in the order of the text
	Wants       []string              `json:"wants,omitempty"`       // types that its place takes; none = unknown
	template.Result
}

// Explain evaluates the templates of a step, and of the steps within it, in a scope:
// all their expressions, and the value that the tool, the interpreter or the client
// gets. inputSchema is that of the step's tool; nil = any types. The name output
// means the output block unless a step has it. An unknown step is an error.
func Explain(p *definitions.Program, step string, s *definitions.Scope, inputSchema json.RawMessage) (*Explanation, error) {
	x := &Explanation{Step: step, Fields: []ExplainedField{}}
	if i := slices.IndexFunc(p.Steps, func(n *definitions.Node) bool { return n.ID == step }); i >= 0 {
		prefix := ""
		for n := p.Steps[i]; n != nil; n = n.Inner {
			if err := x.node(n, prefix, s, inputSchema); err != nil {
				return nil, err
			}
			prefix += "step."
		}
		return x, nil
	}
	if step != "output" {
		ids := make([]string, len(p.Steps))
		for i, n := range p.Steps {
			ids[i] = n.ID
		}
		return nil, fmt.Errorf("unknown step %q%s; known steps: %s", step, template.DidYouMean(step, ids), strings.Join(ids, ", "))
	}
	if p.OutputBlock != nil {
		x.output(p.OutputBlock.Properties, s.Data())
	}
	return x, nil
}

// node explains the texts of a step, in the order in which a run expands them.
func (x *Explanation) node(n *definitions.Node, prefix string, s *definitions.Scope, inputSchema json.RawMessage) error {
	if n.Script != nil { // a script takes values of any type
		inputSchema = definitions.AnySchema
	}
	schema, err := template.SchemaOf(inputSchema)
	if err != nil {
		return err
	}
	data := s.Data()
	if n.Whole() {
		params, err := n.Data(s)
		x.Fields = append(x.Fields, ExplainedField{Field: "data", Template: "what the script is called with", Result: encodedResult(params, err)})
	}
	add := func(name, text string, t *template.Template, wants []string, result func() template.Result) {
		if text != "" {
			x.add(prefix+name, t, data, wants, result())
		}
	}
	add("condition", n.Step.Condition, n.Templates.Condition, []string{"boolean"}, func() template.Result {
		holds, err := n.Condition(s)
		return template.ResultOf(holds, true, withoutField(err))
	})
	add("collection", n.Step.Collection, n.Templates.Collection, []string{"array", "object"}, func() template.Result {
		v, ok, err := n.Templates.Collection.ExpandAs(data, []string{"array", "object"})
		if _, isText := v.(string); err == nil && (!ok || isText) {
			_, err = n.Collection(s)
		}
		return template.ResultOf(v, ok, withoutField(err))
	})
	add("message", n.Step.Message, n.Templates.Message, []string{"string"}, func() template.Result {
		text, err := n.Message(s)
		return template.ResultOf(text, true, withoutField(err))
	})
	waits := func() template.Result {
		text, err := n.WaitText(s)
		return template.ResultOf(text, true, withoutField(err))
	}
	add("for", n.Step.For, n.Templates.For, nil, waits)
	add("until", n.Step.Until, n.Templates.Until, nil, waits)
	x.argument(n.Templates.Arguments, data, schema, prefix+"arguments")
	x.Script = append(x.Script, plannedCalls(n)...)
	add("collect", n.Step.Collect, n.Templates.Collect, nil, func() template.Result {
		v, ok, err := n.Collect(s)
		return template.ResultOf(v, ok, withoutField(err))
	})
	x.argument(n.Templates.Compensation, data, template.Schema{}, prefix+"compensate.arguments")
	return nil
}

// encodedResult is the result of encoding a value as JSON.
func encodedResult(encoded json.RawMessage, err error) template.Result {
	if err != nil {
		return template.Result{Error: err.Error()}
	}
	v, err := template.DecodeValue(encoded)
	return template.ResultOf(v, true, err)
}

// argument explains the texts in an argument.
func (x *Explanation) argument(a template.Argument, data any, schema template.Schema, path string) {
	switch {
	case a.Template != nil:
		kinds := schema.Kinds()
		x.add(path, a.Template, data, kinds, template.ResultOf(a.Template.ExpandAs(data, kinds)))
	case a.Elements != nil:
		for i, elem := range a.Elements {
			x.argument(elem, data, schema.Item(i), template.AtElement(path, i))
		}
	case a.Members != nil:
		for _, m := range a.Members {
			x.argument(m.Value, data, schema.Property(m.Name), template.AtMember(path, m.Name))
		}
	}
}

// output explains the properties of an output block.
func (x *Explanation) output(properties []definitions.OutputProperty, data map[string]any) {
	for _, p := range properties {
		if p.Template == nil {
			x.output(p.Inner, data)
			continue
		}
		v, err := p.Expand(data, nil)
		x.add(p.Path, p.Template, data, []string{p.Type}, template.ResultOf(v, true, err))
	}
}

func (x *Explanation) add(field string, t *template.Template, data any, wants []string, result template.Result) {
	x.Fields = append(x.Fields, ExplainedField{
		Field: field, Template: t.Source(), Expressions: template.Explain(t.Source(), data), Wants: wants, Result: result,
	})
}
