package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/perdure/perdure/definitions"
	"github.com/perdure/perdure/definitions/template"
)

// A form asks a person the questions of a run, one at a time.
type form struct {
	out  io.Writer
	mark func(style, string) string

	mu    sync.Mutex // one question at a time
	lines func() <-chan string
}

// newForm reads answers from in, a line each.
func newForm(in io.Reader, out io.Writer, mark func(style, string) string) *form {
	return &form{out: out, mark: mark, lines: sync.OnceValue(func() <-chan string {
		lines := make(chan string)
		go func() {
			defer close(lines)
			scanner := bufio.NewScanner(in)
			for scanner.Scan() {
				lines <- scanner.Text()
			}
		}()
		return lines
	})}
}

// Elicit asks one question. A person who goes away (end of input) cancels.
func (f *form) Elicit(ctx context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	raw, schema, err := requestedSchema(request)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(f.out, "\n%s\n", f.mark(bold, plain(request.Params.Message)))
	for _, name := range schema.fields() {
		fmt.Fprintf(f.out, "  %s\n", schema.describe(name))
	}
	for {
		action, err := f.action(ctx)
		if err != nil || action != mcp.ElicitationResponseActionAccept {
			return answer(action, nil), err
		}
		content, err := f.fill(ctx, schema)
		if err != nil {
			return answer(mcp.ElicitationResponseActionCancel, nil), ignoreEnd(err)
		}
		if err := checkAnswer(request, raw, content); err != nil {
			fmt.Fprintf(f.out, "%s\n", f.mark(red, err.Error()))
			continue
		}
		return answer(action, content), nil
	}
}

func requestedSchema(request mcp.ElicitationRequest) (json.RawMessage, *objectSchema, error) {
	raw, err := json.Marshal(request.Params.RequestedSchema)
	if err != nil {
		return nil, nil, fmt.Errorf("reading what is asked: %w", err)
	}
	schema, err := schemaObject(raw)
	if err == nil && unchecked(request) {
		delete(schema.root, "required")
	}
	return raw, schema, err
}

// checkAnswer says why content does not fit a question, unless it need not.
func checkAnswer(request mcp.ElicitationRequest, schema, content json.RawMessage) error {
	if unchecked(request) {
		return nil
	}
	return definitions.CheckAnswer(schema, content)
}

func unchecked(request mcp.ElicitationRequest) bool {
	meta := request.Params.Meta
	return meta != nil && meta.AdditionalFields[uncheckedMeta] == true
}

func answer(action mcp.ElicitationResponseAction, content json.RawMessage) *mcp.ElicitationResult {
	result := &mcp.ElicitationResult{}
	result.Action = action
	if content != nil {
		result.Content = content
	}
	return result
}

// action asks what to do with the question.
func (f *form) action(ctx context.Context) (mcp.ElicitationResponseAction, error) {
	for {
		line, err := f.ask(ctx, "[a]ccept, [d]ecline or [c]ancel? ")
		if err != nil {
			return mcp.ElicitationResponseActionCancel, ignoreEnd(err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "a", "accept", "y", "yes":
			return mcp.ElicitationResponseActionAccept, nil
		case "d", "decline", "n", "no":
			return mcp.ElicitationResponseActionDecline, nil
		case "c", "cancel":
			return mcp.ElicitationResponseActionCancel, nil
		}
	}
}

// fill asks for the fields.
func (f *form) fill(ctx context.Context, schema *objectSchema) (json.RawMessage, error) {
	content := map[string]json.RawMessage{}
	for _, name := range schema.fields() {
		value, err := f.field(ctx, schema, name)
		if err != nil {
			return nil, err
		}
		if value != nil {
			content[name] = value
		}
	}
	return json.Marshal(content)
}

// field asks for one field until the answer fits; nil = left out.
func (f *form) field(ctx context.Context, schema *objectSchema, name string) (json.RawMessage, error) {
	property := schema.property(name)
	for {
		line, err := f.ask(ctx, "  "+name+prompt(property)+": ")
		if err != nil {
			return nil, err
		}
		if line = strings.TrimSpace(line); line == "" {
			if value, ok := property["default"]; ok {
				return template.EncodeValue(value)
			}
			if !schema.required(name) {
				return nil, nil
			}
			fmt.Fprintf(f.out, "  %s\n", f.mark(red, name+" is required"))
			continue
		}
		value, err := parseField(schema, property, line)
		if err == nil {
			return value, nil
		}
		fmt.Fprintf(f.out, "  %s\n", f.mark(red, err.Error()))
	}
}

// parseField reads an answer: a choice by its number or name, yes and no, a
// list with commas, and anything else as key=value arguments are read.
func parseField(schema *objectSchema, property map[string]any, text string) (json.RawMessage, error) {
	if choices := choicesOf(property); choices != nil {
		return choose(choices, text)
	}
	types := schema.types(property, 0)
	switch {
	case slices.Equal(types, []string{"boolean"}):
		switch strings.ToLower(text) {
		case "y", "yes":
			text = "true"
		case "n", "no":
			text = "false"
		}
	case slices.Equal(types, []string{"array"}) && !strings.HasPrefix(text, "["):
		return parseList(schema, property, text)
	}
	return typed(types, text)
}

func parseList(schema *objectSchema, property map[string]any, text string) (json.RawMessage, error) {
	items, _ := property["items"].(map[string]any)
	var list []json.RawMessage
	for _, part := range strings.Split(text, ",") {
		value, err := parseField(schema, items, strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	return json.Marshal(list)
}

// A choice is one value that a field may take.
type choice struct {
	value any
	title string
}

// choicesOf are those of enum (with enumNames), or of oneOf and anyOf with
// titles; nil = any value.
func choicesOf(property map[string]any) []choice {
	var choices []choice
	names, _ := property["enumNames"].([]any)
	values, _ := property["enum"].([]any)
	for i, value := range values {
		c := choice{value: value, title: fmt.Sprint(value)}
		if i < len(names) {
			c.title = fmt.Sprint(names[i])
		}
		choices = append(choices, c)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		options, _ := property[key].([]any)
		for _, option := range options {
			o, _ := option.(map[string]any)
			if value, ok := o["const"]; ok {
				c := choice{value: value, title: fmt.Sprint(value)}
				if title, ok := o["title"].(string); ok {
					c.title = title
				}
				choices = append(choices, c)
			}
		}
	}
	return choices
}

func choose(choices []choice, text string) (json.RawMessage, error) {
	for _, c := range choices {
		if text == c.title || text == fmt.Sprint(c.value) {
			return template.EncodeValue(c.value)
		}
	}
	if i, err := strconv.Atoi(text); err == nil && i >= 1 && i <= len(choices) {
		return template.EncodeValue(choices[i-1].value)
	}
	return nil, fmt.Errorf("%q is not one of the choices; give its number or its name", text)
}

// fields are the names to ask for: required ones first.
func (s *objectSchema) fields() []string {
	names := slices.Sorted(maps.Keys(s.properties()))
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case s.required(a) == s.required(b):
			return 0
		case s.required(a):
			return -1
		default:
			return 1
		}
	})
	return names
}

// describe says in a line what a field takes.
func (s *objectSchema) describe(name string) string {
	property := s.property(name)
	line := name
	if s.required(name) {
		line += "*"
	}
	if types := describeTypes(s.types(property, 0)); types != "" {
		line += " (" + types + ")"
	}
	for _, key := range []string{"title", "description"} {
		if text, ok := property[key].(string); ok && text != "" {
			line += " – " + text
			break
		}
	}
	items, _ := property["items"].(map[string]any)
	for i, c := range append(choicesOf(property), choicesOf(items)...) {
		line += fmt.Sprintf("\n      %d. %s", i+1, c.title)
	}
	return plain(line)
}

func prompt(property map[string]any) string {
	value, ok := property["default"]
	if !ok || value == "" {
		return ""
	}
	raw, err := template.EncodeValue(value)
	if err != nil {
		return ""
	}
	return " [" + plain(strings.Trim(string(raw), `"`)) + "]"
}

// ask prints a prompt and reads a line; io.EOF when there are no more.
func (f *form) ask(ctx context.Context, prompt string) (string, error) {
	fmt.Fprint(f.out, prompt)
	select {
	case line, ok := <-f.lines():
		if !ok {
			fmt.Fprintln(f.out)
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(f.out)
		return "", ctx.Err()
	}
}

func ignoreEnd(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// A fixedAnswer answers every question alike, for scripts.
type fixedAnswer struct {
	action  mcp.ElicitationResponseAction
	content json.RawMessage // empty = no fields
}

// Elicit refuses to send content that does not fit, since the question would
// come again and again.
func (f fixedAnswer) Elicit(_ context.Context, request mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	if f.action != mcp.ElicitationResponseActionAccept {
		return answer(f.action, nil), nil
	}
	raw, _, err := requestedSchema(request)
	if err != nil {
		return nil, err
	}
	content := f.content
	if len(content) == 0 {
		content = json.RawMessage("{}")
	}
	if err := checkAnswer(request, raw, content); err != nil {
		return nil, fmt.Errorf("--content does not answer %q: %w", request.Params.Message, err)
	}
	return answer(f.action, content), nil
}
