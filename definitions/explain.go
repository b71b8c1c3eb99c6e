package definitions

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An Explanation says what each template of a step comes to with given data.
type Explanation struct {
	Step   string           `json:"step"` // "output" for the output block
	Fields []ExplainedField `json:"fields"`
	Script []ScriptCall     `json:"script,omitempty"` // what the script of the step does, as far as it can be seen
}

// An ExplainedField is one text of a step and what it comes to.
type ExplainedField struct {
	Field       string       `json:"field"` // e.g. arguments.outer.inner; that of an inner step starts with step.
	Template    string       `json:"template"`
	Expressions []Expression `json:"expressions,omitempty"` // what stands in {{ }}, in the order of the text
	Wants       []string     `json:"wants,omitempty"`       // types that its place takes; none = not known
	Result
}

// A Result is what something comes to: a value with its type, or an error.
type Result struct {
	Type  string          `json:"type,omitempty"` // of JSON Schema, or missing; "" = there is an error, or nothing was done
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
}

// An Expression is a part of a template and what it comes to.
type Expression struct {
	Text string `json:"text"`
	Result
	Note  string       `json:"note,omitempty"`  // why a value is missing, which branch is taken
	Parts []Expression `json:"parts,omitempty"` // its operands that are expressions themselves
	Body  []Expression `json:"body,omitempty"`  // of if, with, range and template: what is in them
}

// missingType is the type of what has no value.
const missingType = "missing"

func resultOf(v any, ok bool, err error) Result {
	if err != nil {
		return Result{Error: err.Error()}
	}
	if !ok || v == nil {
		return Result{Type: missingType}
	}
	encoded, err := EncodeValue(v)
	if err != nil {
		return Result{Error: err.Error()}
	}
	return Result{Type: kindOfValue(v), Value: encoded}
}

// Explain says what the templates of a step, and of the steps within it, come
// to in a scope: all their expressions, and the value that the tool, the
// interpreter or the client gets. inputSchema is that of the step's tool; none
// asks for nothing. The name output stands for the output block unless a step
// has it. It is an error if there is no such step.
func (p *Program) Explain(step string, s *Scope, inputSchema json.RawMessage) (*Explanation, error) {
	x := &Explanation{Step: step, Fields: []ExplainedField{}}
	if i := slices.IndexFunc(p.Steps, func(n *Node) bool { return n.ID == step }); i >= 0 {
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
		return nil, fmt.Errorf("there is no step %q%s; there are %s", step, didYouMean(step, ids), strings.Join(ids, ", "))
	}
	if p.output != nil {
		x.output(p.output.properties, s.data())
	}
	return x, nil
}

// node explains the texts of a step, in the order in which they count.
func (x *Explanation) node(n *Node, prefix string, s *Scope, inputSchema json.RawMessage) error {
	if n.Script != nil { // which takes what its arguments are
		inputSchema = anyData
	}
	schema, err := n.schema.place(inputSchema)
	if err != nil {
		return err
	}
	data := s.data()
	if n.whole {
		params, err := n.Data(s)
		x.Fields = append(x.Fields, ExplainedField{Field: "data", Template: "what the script is called with", Result: encodedResult(params, err)})
	}
	add := func(name, text string, t *Template, wants []string, result func() Result) {
		if text != "" {
			x.add(prefix+name, t, data, wants, result())
		}
	}
	add("condition", n.Step.Condition, n.condition, []string{"boolean"}, func() Result {
		holds, err := n.Condition(s)
		return resultOf(holds, true, plainField(err))
	})
	add("collection", n.Step.Collection, n.collection, []string{"array", "object"}, func() Result {
		v, ok, err := expandFor(n.collection, data, []string{"array", "object"})
		if _, isText := v.(string); err == nil && (!ok || isText) {
			_, err = n.Collection(s)
		}
		return resultOf(v, ok, plainField(err))
	})
	add("message", n.Step.Message, n.message, []string{"string"}, func() Result {
		text, err := n.Message(s)
		return resultOf(text, true, plainField(err))
	})
	add("for", n.Step.For, n.duration, nil, waitResult(n.duration, data, parseWaitFor))
	add("until", n.Step.Until, n.until, nil, waitResult(n.until, data, parseWaitUntil))
	x.argument(n.arguments, data, schema, prefix+"arguments")
	x.Script = append(x.Script, n.scriptCalls()...)
	add("collect", n.Step.Collect, n.collect, nil, func() Result {
		v, ok, err := n.Collect(s)
		return resultOf(v, ok, plainField(err))
	})
	x.argument(n.compensation, data, schemaPlace{}, prefix+"compensate.arguments")
	return nil
}

// encodedResult is what has come to JSON.
func encodedResult(encoded json.RawMessage, err error) Result {
	if err != nil {
		return Result{Error: err.Error()}
	}
	v, err := DecodeValue(encoded)
	return resultOf(v, true, err)
}

// plainField gives an error without the field that it names.
func plainField(err error) error {
	if failed, ok := err.(*TemplateError); ok {
		return fmt.Errorf("%s", failed.Message)
	}
	return err
}

func waitResult(t *Template, data any, parse func(string, time.Time) (time.Time, error)) func() Result {
	return func() Result {
		text, err := t.Text(data)
		if err == nil {
			_, err = parse(text, time.Time{})
		}
		return resultOf(strings.TrimSpace(text), true, err)
	}
}

// argument explains the texts in an argument.
func (x *Explanation) argument(a argument, data any, schema schemaPlace, path string) {
	switch {
	case a.template != nil:
		kinds := schema.kinds()
		x.add(path, a.template, data, kinds, resultOf(expandFor(a.template, data, kinds)))
	case a.isArray:
		for i, elem := range a.array {
			x.argument(elem, data, schema.item(i), element(path, i))
		}
	case a.isObject:
		for _, m := range a.object {
			x.argument(m.value, data, schema.property(m.name), join(path, m.name))
		}
	}
}

// output explains the properties of an output block.
func (x *Explanation) output(properties []outputProperty, data any) {
	for _, p := range properties {
		if p.template == nil {
			x.output(p.inner, data)
			continue
		}
		v, err := p.value(data)
		x.add(p.path, p.template, data, []string{p.Type}, resultOf(v, true, err))
	}
}

func (x *Explanation) add(field string, t *Template, data any, wants []string, result Result) {
	x.Fields = append(x.Fields, ExplainedField{
		Field: field, Template: t.text, Expressions: explainTemplate(t.text, data), Wants: wants, Result: result,
	})
}
