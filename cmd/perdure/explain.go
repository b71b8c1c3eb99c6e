package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
	"github.com/perdure/perdure/definitions/view"
)

type explainCommand struct {
	againstFlags    `embed:""`
	definitionFlags `embed:""`

	Step       string `help:"ID of the step, or output for the output block." placeholder:"ID"`
	With       string `help:"JSON file with the data that templates read: {params, steps: {ID: {status, output, action, content, error}}, forEach, workflow, output}; - for standard input." placeholder:"FILE"`
	ToolSchema string `help:"JSON file with the input schema of the step's tool." placeholder:"FILE" xor:"schema"`
	Output     string `short:"o" help:"Output format: text or json." enum:"text,json" default:"text"`
}

func (explainCommand) Help() string {
	return `With the name of a check, which ends each message of validate in brackets, prints what it
means, with an example of what is wrong and of what is right; without a name, lists all.

With a definition and --step, evaluates each template of the step with given data and
prints every expression with its type and value, and the arguments that the tool would
get. No tool is called. Examples:

    perdure explain default-results
    perdure explain deploy.yaml --step approve --with context.json
    perdure explain prepare_review --step output --with context.json -o json`
}

func (e explainCommand) Run(ctx context.Context, c *console) error {
	if e.Step == "" && e.Definition == "" {
		return e.listChecks(c)
	}
	if e.Step == "" {
		found := explanations(strings.Trim(e.Definition, "[]"))
		if found == nil {
			return noSuchCheck(e.Definition)
		}
		return e.explainCheck(c, found)
	}
	def, err := e.definition(ctx, c, e.definitionFlags)
	if err != nil {
		return err
	}
	program, err := definitions.Compile(def)
	if err != nil {
		return err
	}
	scope, err := e.scope(c)
	if err != nil {
		return err
	}
	schema, err := e.schema(ctx, def)
	if err != nil {
		return err
	}
	explanation, err := view.Explain(program, e.Step, scope, schema)
	if err != nil {
		return err
	}
	if context := explanation.Context(); e.With == "" && context != nil {
		form, err := json.Marshal(context)
		if err != nil {
			return err
		}
		c.notef("no data given, so every value is missing; fill in this form and pass it with --with FILE: %s", form)
	}
	if e.Output == "json" {
		return c.printJSON(explanation)
	}
	printExplanation(c, explanation)
	return nil
}

// scope reads the data that templates see; nil without a file.
func (e explainCommand) scope(c *console) (*definitions.Scope, error) {
	if e.With == "" {
		return &definitions.Scope{}, nil
	}
	read := func() ([]byte, error) { return os.ReadFile(e.With) }
	if e.With == "-" {
		read = func() ([]byte, error) { return io.ReadAll(c.in) }
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	scope, err := definitions.DecodeScope(data)
	if err != nil {
		return nil, fmt.Errorf("reading --with %s: %w", e.With, err)
	}
	return scope, nil
}

// schema returns the input schema of the step's tool; nil if it is not known.
func (e explainCommand) schema(ctx context.Context, def *definitions.Definition) (json.RawMessage, error) {
	if e.ToolSchema != "" {
		return readSchema(e.ToolSchema)
	}
	name := toolOf(def, e.Step)
	if e.Against == "" || name == "" {
		return nil, nil
	}
	tools, err := e.catalogue(ctx)
	if err != nil {
		return nil, err
	}
	tool, ok := tools(name)
	if !ok {
		return nil, fmt.Errorf("tool %q not found at %s", name, e.Against)
	}
	return tool.InputSchema, nil
}

// readSchema reads an input schema, or a tool as tools/list returns it.
func readSchema(file string) (json.RawMessage, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var tool remoteTool
	if err := json.Unmarshal(data, &tool); err != nil {
		return nil, fmt.Errorf("%s is not a JSON Schema: %w", file, err)
	}
	if tool.InputSchema != nil {
		return tool.InputSchema, nil
	}
	return data, nil
}

// toolOf returns the tool that a step calls, itself or for each item.
func toolOf(def *definitions.Definition, id string) string {
	steps := def.AllSteps()
	i := slices.IndexFunc(steps, func(s *definitions.Step) bool { return s.ID == id })
	if i < 0 {
		return ""
	}
	step := steps[i]
	for step.Step != nil {
		step = step.Step
	}
	return step.Tool
}

func printExplanation(c *console, explanation *view.Explanation) {
	for i, field := range explanation.Fields {
		if i > 0 {
			fmt.Fprintln(c.out)
		}
		fmt.Fprintf(c.out, "%s: %s\n", c.outStyle(bold, field.Field), strings.TrimSpace(field.Template))
		printExpressions(c, field.Expressions, "    ")
		wants := ""
		if field.Wants != nil {
			wants = c.outStyle(faint, "  ("+strings.Join(field.Wants, " or ")+" wanted)")
		}
		fmt.Fprintf(c.out, "  = %s%s\n", resultText(c, field.Result), wants)
	}
	if len(explanation.Fields) == 0 {
		fmt.Fprintln(c.out, "this step has no templates")
	}
	if len(explanation.Script) > 0 {
		fmt.Fprintf(c.out, "\n%s\n", c.outStyle(bold, "script"))
	}
	for _, call := range explanation.Script {
		fmt.Fprintf(c.out, "    %s\n", call.String())
	}
}

func printExpressions(c *console, expressions []template.Expression, indent string) {
	for _, x := range expressions {
		line := indent + x.Text
		if x.Type != "" || x.Error != "" {
			line += "  →  " + resultText(c, x.Result)
		}
		if x.Note != "" {
			line += c.outStyle(faint, "  # "+x.Note)
		}
		fmt.Fprintln(c.out, line)
		printExpressions(c, x.Parts, indent+"  ")
		printExpressions(c, x.Body, indent+"  ")
	}
}

// maxShown is how many characters of a value are shown.
const maxShown = 200

func resultText(c *console, r template.Result) string {
	if r.Error != "" {
		return c.outStyle(red, "error: "+r.Error)
	}
	return strings.TrimSpace(c.outStyle(green, cmp.Or(r.Type, "nothing")) + " " + shorten(string(r.Value), maxShown))
}
