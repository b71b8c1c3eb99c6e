package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
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
	schema   map[string]any
	kinds    []string // of the values that are allowed; nil = any
}

// mostSchemas are read of one argument: they may refer to themselves.
const mostSchemas = 100

// parameters are those of a schema, in its order.
func parameters(schema json.RawMessage) (list []parameter) {
	value, _ := template.DecodeValue(schema) // what cannot be read is not shown
	root, _ := value.(map[string]any)
	members, _ := root["properties"].(map[string]any)
	object, _ := definitions.ParseJSONObject(schema)
	ordered, _ := definitions.ParseJSONObject(object.Get("properties"))
	var required []string
	_ = json.Unmarshal(object.Get("required"), &required)
	for _, p := range ordered {
		of, _ := members[p.Name].(map[string]any)
		left := mostSchemas
		list = append(list, parameter{p.Name, slices.Contains(required, p.Name), of, kindsIn(root, of, &left)})
	}
	return list
}

// kindsIn are the types of the values that a schema within root allows; nil = any. left is
// how many more schemas are read.
func kindsIn(root, schema map[string]any, left *int) (all []string) {
	if *left--; *left < 0 {
		return nil
	}
	schema = template.Resolved(root, schema)
	if choices, _ := schema["enum"].([]any); len(choices) > 0 {
		return []string{"one of " + plainValues(choices)}
	}
	if constant, ok := schema["const"]; ok {
		return []string{plainValue(constant)}
	}
	if types := template.TypesOf(schema); types != nil {
		return types
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		alternatives, _ := schema[key].([]any)
		for _, alternative := range alternatives {
			inner, _ := alternative.(map[string]any)
			kinds := kindsIn(root, inner, left)
			if kinds == nil {
				return nil
			}
			all = append(all, slices.DeleteFunc(kinds, func(kind string) bool { return slices.Contains(all, kind) })...)
		}
	}
	return all
}

func (p parameter) kind() string { return cmp.Or(strings.Join(p.kinds, " or "), "any") }

func (p parameter) description() string {
	text, _ := p.schema["description"].(string)
	return text
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
		name, says := view.Line(p.Name), strings.Join(strings.Fields(p.description()), " ")
		if p.Required && heading == "arguments" {
			name += "*"
		}
		if standard, ok := p.schema["default"]; ok {
			says = strings.TrimSpace(says + " (default " + jsonLine(standard) + ")")
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

func (p parameter) sample() string {
	examples, _ := p.schema["examples"].([]any)
	choices, _ := p.schema["enum"].([]any)
	for _, values := range [][]any{examples, {p.schema["default"]}, choices} {
		if len(values) > 0 && values[0] != nil {
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
func plainValue(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return jsonLine(v)
}

func plainValues(values []any) string {
	var all []string
	for _, v := range values {
		all = append(all, plainValue(v))
	}
	return strings.Join(all, ", ")
}

func jsonLine(v any) string {
	raw, _ := template.EncodeValue(v) // it was decoded from JSON
	return view.JSONLine(raw)
}
