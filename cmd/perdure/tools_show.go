package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/view"
	"github.com/perdure/perdure/internal/service"
)

type toolsShowCommand struct {
	serverFlags `embed:""`

	Name   string `arg:"" help:"Name of the tool, as clients see it."`
	Output string `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (toolsShowCommand) Help() string {
	return "Example:\n\n    perdure tools show repo_log"
}

func (t toolsShowCommand) Run(ctx context.Context, c *console) error {
	of, err := t.target()
	if err != nil {
		return err
	}
	listed, err := allTools(ctx, of)
	if err != nil {
		return err
	}
	tools := listed.tools
	i := slices.IndexFunc(tools, func(tool remoteTool) bool { return tool.Name == t.Name })
	if i < 0 {
		return (&server{url: of.url}).unknownTool(t.Name, tools)
	}
	if t.Output == "json" {
		return c.printJSON(tools[i])
	}
	var composites []service.CompositeStatus
	if listed.status != nil {
		composites = listed.status.Composites
	}
	t.noteTarget(c)
	return t.print(c, tools[i], composites)
}

func (t toolsShowCommand) print(c *console, tool remoteTool, composites []service.CompositeStatus) error {
	out := &lines{w: c.out}
	out.printf("%s", c.outStyle(bold, tool.Name))
	if tool.Description != "" {
		out.printf("%s", c.prose("  "+strings.ReplaceAll(strings.TrimSpace(view.Text(tool.Description)), "\n", "\n  "), c.outTerminal))
	}
	w := c.wrappingTable(out)
	fmt.Fprintln(w)
	if tool.Backend != "" {
		fmt.Fprintf(w, "backend\t%s\n", tool.Backend+also(tool.Original, tool.Name))
		fmt.Fprintf(w, "effect\t%s, %s\n", tool.Effect, effectWords[definitions.Effect(tool.Effect)])
		status := service.ToolStatus{Effect: tool.Effect, OnUnknown: tool.OnUnknown, Probe: tool.Probe}
		fmt.Fprintf(w, "outcome unknown\t%s\n", unknownOutcome(status))
	} else {
		fmt.Fprintf(w, "kind\t%s\n", kindOf(tool.Name, composites))
	}
	if tool.KeyArgument != "" {
		fmt.Fprintf(w, "key argument\t%s\n", tool.KeyArgument)
	}
	if tool.Hidden {
		fmt.Fprintf(w, "offered\tto steps only, %s\n", hidden(true))
	}
	_ = w.Flush() // out keeps the error
	if tool.Hidden {
		out.printf("\narguments\n  not known here: a server lists those of tools that it offers")
		return out.err
	}
	printParameters(c, out, "arguments", tool.InputSchema)
	printParameters(c, out, "result", tool.OutputSchema)
	out.printf("\nexample\n  perdure call %s%s", tool.Name, t.example(tool.InputSchema))
	return out.err
}

// kindOf says what a tool is that no backend has.
func kindOf(name string, composites []service.CompositeStatus) string {
	i := slices.IndexFunc(composites, func(s service.CompositeStatus) bool { return s.Name == name })
	if i < 0 {
		return "tool of the server itself"
	}
	return strings.TrimSpace("composite tool " + composites[i].Version)
}

// effectWords say what an effect class means.
var effectWords = map[definitions.Effect]string{
	definitions.Read:       "it changes nothing",
	definitions.Idempotent: "calling it twice does the same as once",
	definitions.Keyed:      "calls with the same key take effect once",
	definitions.Unsafe:     "every call takes effect",
}

// also names the backend's own name of a tool, if it is another.
func also(original, name string) string {
	if original == "" || original == name {
		return ""
	}
	return ", as " + original
}

// A parameter is one property of a schema.
type parameter struct {
	Name     string
	Required bool

	parameterSchema
}

// A parameterSchema is what is shown of a schema.
type parameterSchema struct {
	Type        json.RawMessage   `json:"type"`
	Ref         string            `json:"$ref"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	OneOf       []json.RawMessage `json:"oneOf"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
	Const       json.RawMessage   `json:"const"`
	Enum        []json.RawMessage `json:"enum"`
	Examples    []json.RawMessage `json:"examples"`

	root json.RawMessage // in which Ref is
	left *int            // how many more schemas are read, since they may refer to themselves
}

// mostSchemas are read of one argument.
const mostSchemas = 100

// parameters are those of a schema, in its order.
func parameters(schema json.RawMessage) (list []parameter) {
	root, err := definitions.ParseJSONObject(schema)
	if err != nil {
		return nil
	}
	var required []string
	_ = json.Unmarshal(root.Get("required"), &required)
	properties, _ := definitions.ParseJSONObject(root.Get("properties"))
	for _, p := range properties {
		left := mostSchemas
		list = append(list, parameter{p.Name, slices.Contains(required, p.Name), parameterSchema{root: schema, left: &left}.read(p.Value)})
	}
	return list
}

// read is a schema within this one.
func (p parameterSchema) read(schema json.RawMessage) parameterSchema {
	inner := parameterSchema{root: p.root, left: p.left}
	if *p.left--; *p.left >= 0 {
		_ = json.Unmarshal(schema, &inner) // what cannot be read is not shown
	}
	return inner
}

// kinds are the types of the values that are allowed; nil = any.
func (p parameterSchema) kinds() (all []string) {
	var one string
	alternatives := append(p.AnyOf, p.OneOf...)
	switch {
	case len(p.Enum) > 0:
		return []string{"one of " + p.choices()}
	case len(p.Const) > 0:
		return []string{plainValue(p.Const)}
	case json.Unmarshal(p.Type, &one) == nil && one != "":
		return []string{one}
	case json.Unmarshal(p.Type, &all) == nil:
		return all
	case p.Ref != "":
		return p.read(referred(p.root, p.Ref)).kinds()
	}
	for _, schema := range alternatives {
		kinds := p.read(schema).kinds()
		if kinds == nil {
			return nil
		}
		for _, kind := range kinds {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}

// referred is the schema that a reference within another means; nil = it is not there.
func referred(root json.RawMessage, ref string) json.RawMessage {
	path, ok := strings.CutPrefix(ref, "#/")
	for name := range strings.SplitSeq(path, "/") {
		object, err := definitions.ParseJSONObject(root)
		if !ok || err != nil {
			return nil
		}
		root = object.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(name))
	}
	return root
}

func (p parameterSchema) kind() string {
	return cmp.Or(strings.Join(p.kinds(), " or "), "any")
}

func (p parameterSchema) choices() string {
	var choices []string
	for _, e := range p.Enum {
		choices = append(choices, plainValue(e))
	}
	return strings.Join(choices, ", ")
}

func printParameters(c *console, out *lines, heading string, schema json.RawMessage) {
	list := parameters(schema)
	if len(list) == 0 {
		if heading == "arguments" {
			out.printf("\narguments\n  none")
		}
		return
	}
	out.printf("\n%s", heading)
	w := c.wrappingTable(out)
	for _, p := range list {
		name, says := view.Line(p.Name), strings.Join(strings.Fields(p.Description), " ")
		if p.Required && heading == "arguments" {
			name += "*"
		}
		if len(p.Default) > 0 {
			says = strings.TrimSpace(says + " (default " + view.JSONLine(p.Default) + ")")
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", name, view.Line(p.kind()), view.Line(says))
	}
	_ = w.Flush() // out keeps the error
}

// example gives each argument that a call must have a value of its type.
func (t toolsShowCommand) example(schema json.RawMessage) string {
	var b strings.Builder
	for _, p := range parameters(schema) {
		if p.Required {
			b.WriteString(" " + view.ShellWord(p.Name+"="+p.sample()))
		}
	}
	return b.String() + dataFlag(t.Data)
}

func (p parameterSchema) sample() string {
	for _, values := range [][]json.RawMessage{p.Examples, {p.Default}, p.Enum} {
		if len(values) > 0 && len(values[0]) > 0 {
			return plainValue(values[0])
		}
	}
	first, _, _ := strings.Cut(p.kind(), " ")
	switch first {
	case "integer", "number":
		return "1"
	case "boolean":
		return "true"
	case "array":
		return "[]"
	case "object":
		return "{}"
	}
	return "TEXT"
}

// plainValue is a value as key=value takes it: a text without its quotes.
func plainValue(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return view.JSONLine(raw)
}
